/* SPDX-License-Identifier: Apache-2.0 */
/* Packed panels (quant/panel.h) in registers of 32 bytes: half 0 of a vector is rows 0 to 7, half 1 is rows 8
   to 15. Format, vector and half are constants wherever these functions are inlined. The folder x86_avxvnni
   uses this header too. */
#ifndef PN_KERNELS_AVX2_PANEL_H
#define PN_KERNELS_AVX2_PANEL_H

#include "kernels/x86_avx2/avx2.h"
#include "quant/blocks.h"

#define PN_GROUPS_MAX (PN_SUPER / 16) /* of a unit */

/* Before a loop over the vectors of a step, at most 16: its index has to become a constant. */
#ifdef __clang__
#define PN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PN_UNROLL _Pragma("GCC unroll 16")
#endif

PN_AVX2_INLINE __m256i pn_load_32(const void *src) {
    return _mm256_loadu_si256((const __m256i *)src);
}

/* Four bytes in every lane. */
PN_AVX2_INLINE __m256i pn_broadcast_4(const void *src) {
    int32_t value;
    memcpy(&value, src, sizeof value);
    return _mm256_set1_epi32(value);
}

/* Keeps the compiler from moving additions to an accumulator across, which would cost it registers. */
PN_AVX2_INLINE void pn_pin(__m256i *x) {
    __asm__("" : "+x"(*x));
}

/* ---- codes ---- */

PN_AVX2_INLINE __m256i pn_nibbles(const uint8_t *plane, size_t v, size_t half) {
    __m256i pair = pn_load_32(plane + v % 4 * 64 + 32 * half);
    return _mm256_and_si256(v < 4 ? pair : _mm256_srli_epi16(pair, 4), _mm256_set1_epi8(15));
}

/* Times 1 << up. */
PN_AVX2_INLINE __m256i pn_pairs(const uint8_t *plane, size_t v, size_t half, int up) {
    __m256i four = pn_load_32(plane + v / 4 * 64 + 32 * half);
    int down = (int)(v % 4) * 2 - up;
    if (down > 0) four = _mm256_srli_epi16(four, down);
    if (down < 0) four = _mm256_slli_epi16(four, -down);
    return _mm256_and_si256(four, _mm256_set1_epi8((char)(3 << up)));
}

/* Times 1 << up: each byte takes the byte its bit is in and compares with that bit alone. */
PN_AVX2_INLINE __m256i pn_bits(const uint8_t *plane, size_t v, size_t half, int up) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, /**/
                                            2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(pn_broadcast_4(plane + 8 * v + 4 * half), spread);
    __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
    return _mm256_and_si256(set, _mm256_set1_epi8((char)(1 << up)));
}

PN_AVX2_INLINE __m256i pn_packed_codes(pn_panel_format f, const uint8_t *step, size_t v, size_t half) {
    switch (f.bits) {
    case 2:
        return pn_pairs(step, v, half, 0);
    case 3:
        return _mm256_or_si256(pn_pairs(step, v, half, 0), pn_bits(step + 128, v, half, 2));
    case 4:
        return pn_nibbles(step, v, half);
    case 5:
        return _mm256_or_si256(pn_nibbles(step, v, half), pn_bits(step + 256, v, half, 4));
    case 6:
        return _mm256_or_si256(pn_nibbles(step, v, half), pn_pairs(step + 256, v, half, 4));
    default:
        return pn_load_32(step + 64 * v + 32 * half);
    }
}

/* The codebook's values, in both halves. */
PN_AVX2_INLINE __m256i pn_codebook(void) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)pn_iq4_values));
}

/* What a weight is multiplied by its scale as. */
PN_AVX2_INLINE __m256i pn_signed_codes(pn_panel_format f, const uint8_t *step, size_t v, size_t half) {
    __m256i codes = pn_packed_codes(f, step, v, half);
    if (f.codebook) return _mm256_shuffle_epi8(pn_codebook(), codes);
    return f.zero ? _mm256_sub_epi8(codes, _mm256_set1_epi8((char)f.zero)) : codes;
}

/* The same plus pn_unsigned_zero. */
PN_AVX2_INLINE __m256i pn_unsigned_codes(pn_panel_format f, const uint8_t *step, size_t v, size_t half) {
    __m256i codes = pn_packed_codes(f, step, v, half);
    if (!f.codebook) return codes;
    return _mm256_shuffle_epi8(_mm256_xor_si256(pn_codebook(), _mm256_set1_epi8(-128)), codes);
}
PN_AVX2_INLINE int pn_unsigned_zero(pn_panel_format f) {
    return f.codebook ? 128 : f.zero;
}

/* ---- scales ---- */

PN_AVX2_INLINE __m256 pn_small_level(__m256 level, const uint8_t *small) {
    __m256i factor = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)small));
    return _mm256_mul_ps(level, _mm256_cvtepi32_ps(factor));
}

/* -(d * (zero' - zero)) of half of the rows, whose scales are d; zero' are those at x. */
PN_AVX2_INLINE __m256 pn_offset_of_zeros(pn_panel_format f, const uint8_t *x, size_t half, __m256 d) {
    __m256i zeros = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(f.bits == 4 ? x : x + half)));
    if (f.bits == 4)
        zeros = half ? _mm256_srli_epi32(zeros, 4) : _mm256_and_si256(zeros, _mm256_set1_epi32(15));
    __m256 m = _mm256_cvtepi32_ps(_mm256_sub_epi32(zeros, _mm256_set1_epi32(f.zero)));
    return _mm256_xor_ps(_mm256_mul_ps(d, m), _mm256_set1_ps(-0.0f));
}

/* [groups of a unit][16], from d on; offset is not touched without `min`. */
PN_AVX2_INLINE void pn_unpack_scales(pn_panel_format f, const uint8_t *d, float *scale, float *offset) {
    const uint8_t *m = d + 2 * PN_PANEL_ROWS;
    const uint8_t *small = f.min ? m + 2 * PN_PANEL_ROWS : m;
    const size_t n = pn_panel_unit_columns(f) / f.group * PN_PANEL_ROWS;
    for (size_t half = 0; half < PN_PANEL_ROWS; half += 8) {
        __m256 d8 = pn_load_half((const uint16_t *)(const void *)(d + 2 * half));
        if (f.apart) {
            _mm256_storeu_ps(scale + half, d8);
            if (f.min) _mm256_storeu_ps(offset + half, pn_offset_of_zeros(f, m, half, d8));
            continue;
        }
        __m256 m8 = f.min ? pn_load_half((const uint16_t *)(const void *)(m + 2 * half)) : d8;
        for (size_t i = half; i < n; i += PN_PANEL_ROWS) {
            _mm256_storeu_ps(scale + i, f.super ? pn_small_level(d8, small + i) : d8);
            if (!f.min) continue;
            __m256 o = f.super ? pn_small_level(m8, small + n + i) : m8;
            _mm256_storeu_ps(offset + i, f.super ? _mm256_xor_ps(o, _mm256_set1_ps(-0.0f)) : o);
        }
    }
}

#endif
