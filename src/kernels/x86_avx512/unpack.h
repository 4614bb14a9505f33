/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of a packed panel (quant/panel.h) in registers, for `expand` here and `few` of x86_avx512vnni.
   The format is a constant wherever these functions are inlined, which leaves only its own instructions. */
#ifndef PN_KERNELS_AVX512_UNPACK_H
#define PN_KERNELS_AVX512_UNPACK_H

#include "kernels/x86_avx512/avx512.h"

#include "quant/blocks.h"

#define PN_LINE         64
#define PN_FETCH_BYTES  1024
#define PN_STEP_VECTORS 8 /* of 64 codes: one for every 4 columns of a step */

/* What has to be subtracted from the bytes of pn_unpack_codes. */
PN_AVX512_INLINE int pn_unpacked_zero(pn_panel_format f) {
    return f.codebook ? 128 : f.zero;
}

PN_AVX512_INLINE void pn_unpack_nibbles(const uint8_t *plane, __m512i *codes) {
    const __m512i mask = _mm512_set1_epi8(15);
    for (size_t j = 0; j < 4; j++) {
        __m512i two = _mm512_loadu_si512(plane + 64 * j);
        codes[j] = _mm512_and_si512(two, mask);
        codes[j + 4] = _mm512_and_si512(_mm512_srli_epi16(two, 4), mask);
    }
}

PN_AVX512_INLINE void pn_unpack_pairs(const uint8_t *plane, __m512i *codes) {
    const __m512i mask = _mm512_set1_epi8(3);
    for (size_t h = 0; h < 2; h++, codes += 4) {
        __m512i four = _mm512_loadu_si512(plane + 64 * h);
        codes[0] = _mm512_and_si512(four, mask);
        codes[1] = _mm512_and_si512(_mm512_srli_epi16(four, 2), mask);
        codes[2] = _mm512_and_si512(_mm512_srli_epi16(four, 4), mask);
        codes[3] = _mm512_and_si512(_mm512_srli_epi16(four, 6), mask);
    }
}

/* code | (pair & mask), the pair moved to bits 4 and 5. */
PN_AVX512_INLINE __m512i pn_add_pair(__m512i code, __m512i pair) {
    return _mm512_ternarylogic_epi32(code, pair, _mm512_set1_epi8(0x30), 0xf8);
}
PN_AVX512_INLINE void pn_add_high_pairs(const uint8_t *plane, __m512i *codes) {
    for (size_t h = 0; h < 2; h++, codes += 4) {
        __m512i four = _mm512_loadu_si512(plane + 64 * h);
        codes[0] = pn_add_pair(codes[0], _mm512_slli_epi16(four, 4));
        codes[1] = pn_add_pair(codes[1], _mm512_slli_epi16(four, 2));
        codes[2] = pn_add_pair(codes[2], four);
        codes[3] = pn_add_pair(codes[3], _mm512_srli_epi16(four, 2));
    }
}

PN_AVX512_INLINE void pn_add_high_bits(const uint8_t *plane, int value, __m512i *codes) {
    const __m512i bit = _mm512_set1_epi8((char)value);
    for (size_t v = 0; v < PN_STEP_VECTORS; v++) {
        __mmask64 set;
        memcpy(&set, plane + v * sizeof set, sizeof set);
        codes[v] = _mm512_mask_add_epi8(codes[v], set, codes[v], bit);
    }
}

PN_AVX512_INLINE void pn_look_up(__m512i *codes) {
    __m128i values = _mm_loadu_si128((const __m128i *)pn_iq4_values);
    const __m512i table = _mm512_broadcast_i32x4(_mm_xor_si128(values, _mm_set1_epi8((char)0x80)));
    for (size_t v = 0; v < PN_STEP_VECTORS; v++)
        codes[v] = _mm512_shuffle_epi8(table, codes[v]);
}

/* The codes of a step as they are stored, unsigned; of a codebook the values plus 128. */
PN_AVX512_INLINE void pn_unpack_codes(pn_panel_format f, const uint8_t *step,
                                      __m512i codes[PN_STEP_VECTORS]) {
    if (f.bits == 8) {
        for (size_t v = 0; v < PN_STEP_VECTORS; v++)
            codes[v] = _mm512_loadu_si512(step + 64 * v);
        return;
    }
    if (f.bits >= 4)
        pn_unpack_nibbles(step, codes);
    else
        pn_unpack_pairs(step, codes);
    if (f.bits == 3) pn_add_high_bits(step + 128, 4, codes);
    if (f.bits == 5) pn_add_high_bits(step + 256, 16, codes);
    if (f.bits == 6) pn_add_high_pairs(step + 256, codes);
    if (f.codebook) pn_look_up(codes);
}

/* Sixteen small integers as floats. */
PN_AVX512_INLINE __m512 pn_load_small(const uint8_t *x) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
}

/* The zeros of a group, at x. */
PN_AVX512_INLINE __m512i pn_load_zeros(pn_panel_format f, const uint8_t *x) {
    if (f.bits == 8) return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)x));
    const __m512i shifts = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
    int64_t pairs;
    memcpy(&pairs, x, sizeof pairs);
    const __m512i twice = _mm512_cvtepu8_epi32(_mm_set1_epi64x(pairs));
    return _mm512_and_si512(_mm512_srlv_epi32(twice, shifts), _mm512_set1_epi32(15));
}

/* d * (zero' - zero), where zero' are those at x. */
PN_AVX512_INLINE __m512 pn_unpack_zeros(pn_panel_format f, const uint8_t *x, __m512 d) {
    const __m512i zeros = pn_load_zeros(f, x);
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_sub_epi32(zeros, _mm512_set1_epi32(f.zero))));
}

/* What the scales and the offsets of a unit's rows, which begin at `scales`, have in common. */
typedef struct pn_unit_scales {
    __m512 d, m;
} pn_unit_scales;
PN_AVX512_INLINE pn_unit_scales pn_unpack_unit_scales(pn_panel_format f, const uint8_t *scales) {
    const uint8_t *m = scales + 2 * PN_PANEL_ROWS;
    const __m512 d = pn_load_half(scales);
    if (!f.min) return (pn_unit_scales){d, _mm512_setzero_ps()};
    return (pn_unit_scales){d, f.apart ? pn_unpack_zeros(f, m, d) : pn_load_half(m)};
}

/* The scales of the rows in one group of a unit. */
PN_AVX512_INLINE __m512 pn_unpack_scale(pn_panel_format f, const uint8_t *scales, __m512 d, size_t group) {
    const uint8_t *small = scales + (f.min ? 4 : 2) * PN_PANEL_ROWS;
    return f.super ? _mm512_mul_ps(d, pn_load_small(small + group * PN_PANEL_ROWS)) : d;
}

/* The offsets of a format with `min`, or their negative. */
PN_AVX512_INLINE bool pn_offset_is_negative(pn_panel_format f) {
    return f.super || f.apart;
}
PN_AVX512_INLINE __m512 pn_unpack_offset(pn_panel_format f, const uint8_t *scales, __m512 m, size_t group) {
    const size_t n = (size_t)PN_SUPER / f.group;
    const uint8_t *small = scales + (4 + n) * PN_PANEL_ROWS;
    return f.super ? _mm512_mul_ps(m, pn_load_small(small + group * PN_PANEL_ROWS)) : m;
}

/* Packed panels are read once, at the speed of memory, and the hardware's guess of what is to come starts
   anew on every page: to ask for it is worth a third. The distance is a unit, since a unit's scales are at
   its end and needed at its beginning, and what passes in the time of a fetch. Past the end of a panel the
   next one follows. This asks for the s-th part of the unit that is to come after number u, so that a unit's
   steps ask for all of it. Scales that stand apart are passed over: see pn_fetch_scales. */
PN_AVX512_INLINE void pn_fetch_step(pn_panel_format f, pn_panel_shape shape, const uint8_t *unit, size_t u,
                                    size_t s) {
    const size_t bytes = pn_panel_unit_bytes(f), steps = pn_panel_unit_columns(f) / PN_STEP;
    const size_t lines = (bytes + PN_LINE * steps - 1) / (PN_LINE * steps);
    uintptr_t at = (uintptr_t)unit + bytes + PN_FETCH_BYTES + s * lines * PN_LINE;
    if (f.apart && (u + 1) * bytes + PN_FETCH_BYTES >= pn_panel_scales_at(f, shape, 0))
        at += pn_panel_coded_bytes(f, shape) - pn_panel_scales_at(f, shape, 0);
    for (size_t i = 0; i < lines; i++)
        _mm_prefetch((const char *)(at + i * PN_LINE), _MM_HINT_T0);
}

/* Scales that stand apart, at `scales`, are few: those of the next panel are asked for. */
PN_AVX512_INLINE void pn_fetch_scales(pn_panel_format f, pn_panel_shape shape, const uint8_t *scales) {
    if (!f.apart) return;
    _mm_prefetch((const char *)((uintptr_t)scales + pn_panel_coded_bytes(f, shape)), _MM_HINT_T0);
}

#endif
