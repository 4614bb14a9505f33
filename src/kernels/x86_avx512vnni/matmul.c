/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacked panels times many tokens. A tile is 16 rows, one per lane, by up to 8 tokens, each with an integer
   accumulator for the group at hand and a float one for the whole row; more tokens would need more addresses
   than there are registers. Codes are signed and the instruction wants them unsigned, so 128 is added to them
   and the sums start with what that adds too much. */
#include "kernels/x86_avx512vnni/dot.h"

enum { TILE_TOKENS = 8, LANES = 16, BLOCK = 64 /* steps */ };

/* A tile's; constants wherever they are used. */
typedef struct shape {
    size_t group, n_plane, n_tok;
    bool offset;
} shape;

/* What goes with the integers of a tile's tokens, by group: gathered for a block of steps, since three more
   addresses per token are out of the question. */
typedef struct numbers {
    _Alignas(64) int32_t start[TILE_TOKENS][2 * BLOCK];
    float scale[TILE_TOKENS][2 * BLOCK], sum[TILE_TOKENS][2 * BLOCK];
} numbers;

PN_AVX512_INLINE __mmask16 first_lanes(size_t n) {
    return n < LANES ? pn_tail_mask(n) : 0xffff;
}

/* Of n steps of one token; `at` is the first one's place in the arrays of x. */
PN_AVX512_INLINE void gather_steps(const pn_inputs *x, size_t at, size_t n, size_t t, numbers *to) {
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = first_lanes(n - i);
        _mm512_store_si512(to->start[t] + i, _mm512_maskz_loadu_epi32(mask, x->bias + at + i));
        _mm512_store_ps(to->scale[t] + i, _mm512_maskz_loadu_ps(mask, x->scale + at + i));
        _mm512_store_ps(to->sum[t] + i, _mm512_maskz_loadu_ps(mask, x->sum + at + i));
    }
}

PN_AVX512_INLINE void gather_halves(const pn_inputs *x, size_t at, size_t n, size_t t, numbers *to) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    for (size_t i = 0; i < n; i += LANES / 2) {
        const __m512 steps = _mm512_maskz_loadu_ps(first_lanes(n - i) & 0xff, x->scale + at + i);
        const __m512 scale = _mm512_permutexvar_ps(twice, steps);
        const __m512i start = _mm512_maskz_loadu_epi32(first_lanes(2 * (n - i)), x->half + 2 * (at + i));
        const __m512i sum = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_srai_epi32(start, 7));
        _mm512_store_si512(to->start[t] + 2 * i, start);
        _mm512_store_ps(to->scale[t] + 2 * i, scale);
        _mm512_store_ps(to->sum[t] + 2 * i, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)));
    }
}

/* sums [n_tok] + a group's codes times the integers of one plane; x [n_tok] moves on by `step`. */
PN_AVX512_INLINE void add_products(const shape k, const int8_t *codes, const int8_t **x, ptrdiff_t step,
                                   __m512i *sums) {
    for (size_t t = 0; t < k.n_tok; t++)
        __asm__(""
                : "+r"(x[t])); /* in registers: compilers would rather compute some from others each time */
    for (size_t v = 0; v < k.group / 4; v++) {
        const __m512i code = _mm512_load_si512(codes + 64 * v);
        const __m512i w = _mm512_xor_si512(code, _mm512_set1_epi8((char)0x80));
        for (size_t t = 0; t < k.n_tok; t++)
            sums[t] = pn_dot_four(sums[t], w, x[t] + 4 * v);
    }
    for (size_t t = 0; t < k.n_tok; t++)
        x[t] += step;
}

/* The sums of group g of a block. x [n_tok] is at the last plane and moves on to the next group. */
PN_AVX512_INLINE void sum_group(const shape k, const int8_t *codes, const int8_t **x, ptrdiff_t plane,
                                const numbers *in, size_t g, __m512i *sums) {
    const ptrdiff_t group = (ptrdiff_t)k.group;
    if (k.n_plane == 2) {
        for (size_t t = 0; t < k.n_tok; t++)
            sums[t] = _mm512_setzero_si512();
        add_products(k, codes, x, -plane, sums);
        for (size_t t = 0; t < k.n_tok; t++)
            sums[t] = _mm512_add_epi32(_mm512_slli_epi32(sums[t], 8), _mm512_set1_epi32(in->start[t][g]));
        add_products(k, codes, x, plane + group, sums);
        return;
    }
    for (size_t t = 0; t < k.n_tok; t++)
        sums[t] = _mm512_set1_epi32(in->start[t][g]);
    add_products(k, codes, x, group, sums);
}

PN_AVX512_INLINE void add_group(const shape k, const __m512i *sums, const float *scale, const float *offset,
                                const numbers *in, size_t g, __m512 *acc) {
    const __m512 s = _mm512_load_ps(scale);
    for (size_t t = 0; t < k.n_tok; t++) {
        __m512 both = _mm512_mul_ps(s, _mm512_set1_ps(in->scale[t][g]));
        acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t]), both, acc[t]);
    }
    if (!k.offset) return;
    const __m512 o = _mm512_load_ps(offset);
    for (size_t t = 0; t < k.n_tok; t++)
        acc[t] = _mm512_fmadd_ps(o, _mm512_set1_ps(in->sum[t][g]), acc[t]);
}

PN_AVX512_INLINE void tile(const shape k, const pn_codes *w, __mmask16 rows, const pn_inputs *inputs,
                           size_t first, float *out, size_t out_stride) {
    const size_t plane = inputs->n_step * PN_STEP, groups = PN_STEP / k.group;
    const int8_t *codes = w->codes, *x[TILE_TOKENS];
    const float *scale = w->scale, *offset = w->offset;
    __m512 acc[TILE_TOKENS];
    for (size_t t = 0; t < k.n_tok; t++) {
        acc[t] = _mm512_setzero_ps();
        x[t] = inputs->codes + ((first + t) * k.n_plane + k.n_plane - 1) * plane;
    }
    for (size_t step = 0; step < w->n_step; step += BLOCK) {
        const size_t n = w->n_step - step < BLOCK ? w->n_step - step : BLOCK;
        numbers in;
        for (size_t t = 0; t < k.n_tok; t++) {
            const size_t at = (first + t) * inputs->n_step + step;
            if (groups == 1)
                gather_steps(inputs, at, n, t, &in);
            else
                gather_halves(inputs, at, n, t, &in);
        }
        for (size_t g = 0; g < n * groups; g++) {
            __m512i sums[TILE_TOKENS];
            sum_group(k, codes, x, (ptrdiff_t)plane, &in, g, sums);
            add_group(k, sums, scale, offset, &in, g, acc);
            codes += k.group * PN_PANEL_ROWS;
            scale += PN_PANEL_ROWS;
            if (k.offset) offset += PN_PANEL_ROWS;
        }
    }
    for (size_t t = 0; t < k.n_tok; t++)
        _mm512_mask_storeu_ps(out + t * out_stride, rows, acc[t]);
}

/* All tokens, in tiles of 8, then 4, 2 and 1. */
PN_AVX512_INLINE void tiles(shape k, const pn_codes *w, __mmask16 rows, const pn_inputs *inputs, size_t first,
                            size_t n_tok, float *out, size_t out_stride) {
    size_t t = 0;
    for (k.n_tok = TILE_TOKENS; t + TILE_TOKENS <= n_tok; t += TILE_TOKENS)
        tile(k, w, rows, inputs, first + t, out + t * out_stride, out_stride);
    for (k.n_tok = TILE_TOKENS / 2; k.n_tok > 0; k.n_tok /= 2) {
        if (!(n_tok & k.n_tok)) continue;
        tile(k, w, rows, inputs, first + t, out + t * out_stride, out_stride);
        t += k.n_tok;
    }
}

void pn_matmul_codes_avx512vnni(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                                size_t n_tok, float *out, size_t out_stride) {
    const __mmask16 rows = first_lanes(n_row);
#define TILES(group, n_plane, offset)                                                                        \
    tiles((shape){group, n_plane, 0, offset}, w, rows, inputs, first, n_tok, out, out_stride)
#define TILES_OF_GROUP(group)                                                                                \
    if (inputs->n_plane == 2) {                                                                              \
        if (w->offset)                                                                                       \
            TILES(group, 2, true);                                                                           \
        else                                                                                                 \
            TILES(group, 2, false);                                                                          \
    } else if (w->offset) {                                                                                  \
        TILES(group, 1, true);                                                                               \
    } else {                                                                                                 \
        TILES(group, 1, false);                                                                              \
    }
    if (w->group == PN_STEP) {
        TILES_OF_GROUP(32)
    } else {
        TILES_OF_GROUP(16)
    }
}
