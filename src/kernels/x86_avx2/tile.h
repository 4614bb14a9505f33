/* SPDX-License-Identifier: Apache-2.0 */
/* An unpacked panel times many tokens, whatever instruction multiplies: what matmul_codes of x86_avx2 and
   x86_avxvnni have in common. A tile is 16 rows x up to four tokens over a chunk of columns. The chunk's
   codes are first brought into the form that is multiplied, and the tokens' factors side by side, so that a
   tile needs few registers for addresses. */
#ifndef PN_KERNELS_AVX2_TILE_H
#define PN_KERNELS_AVX2_TILE_H

#include "kernels/x86_avx2/panel.h"

enum { PN_CHUNK = 16, PN_TILE = 4 }; /* steps, tokens at most */

typedef struct pn_chunk {
    const float *scale, *offset; /* from the chunk's first group on; offset or NULL */
    size_t n_step;
    __m256i codes[PN_CHUNK * 32]; /* as load_codes made them */
} pn_chunk;

typedef struct pn_tile_inputs {
    const int8_t *codes; /* the first token's low plane, from the chunk's first column on */
    size_t plane_stride, token_stride;
    float scale[PN_TILE][PN_CHUNK];
    float sum[PN_TILE][2 * PN_CHUNK];    /* per group: what offsets are multiplied by; not without offsets */
    int32_t bias[PN_TILE][2 * PN_CHUNK]; /* per group: what makes up for what load_codes added to the codes */
} pn_tile_inputs;

/* Adds the products of the chunk with a number of tokens to acc. */
typedef void (*pn_tile_fn)(const pn_chunk *c, const pn_tile_inputs *x, float (*acc)[PN_PANEL_ROWS]);

/* One way of multiplying. */
typedef struct pn_tiles {
    void (*load_codes)(const pn_codes *w, size_t step, size_t n_step, __m256i *codes);
    int zero;               /* it adds that to the codes */
    size_t n_tok;           /* at most, of a tile */
    pn_tile_fn of[PN_TILE]; /* for 1 to n_tok tokens */
} pn_tiles;

/* matmul_codes. */
void pn_matmul_tiles_avx2(const pn_tiles *tiles, const pn_codes *w, size_t n_row, const pn_inputs *inputs,
                          size_t first, size_t n_tok, float *out, size_t out_stride);

/* The sums of group i of the chunk, which lies in step s, into the accumulators of n tokens. */
PN_AVX2_INLINE void pn_add_sums(const pn_chunk *c, const pn_tile_inputs *x, size_t s, size_t i, size_t n,
                                bool offsets, __m256i (*sums)[2], float (*acc)[PN_PANEL_ROWS]) {
    for (size_t t = 0; t < n; t++) {
        const __m256 scale_x = _mm256_broadcast_ss(&x->scale[t][s]);
        for (size_t half = 0; half < 2; half++) {
            const size_t at = i * PN_PANEL_ROWS + 8 * half;
            const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(c->scale + at), scale_x);
            __m256 a = _mm256_loadu_ps(acc[t] + 8 * half);
            a = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[t][half]), scale, a);
            if (offsets)
                a = _mm256_fmadd_ps(_mm256_loadu_ps(c->offset + at), _mm256_broadcast_ss(&x->sum[t][i]), a);
            _mm256_storeu_ps(acc[t] + 8 * half, a);
        }
    }
}

PN_AVX2_INLINE void pn_add_group(const pn_chunk *c, const pn_tile_inputs *x, size_t s, size_t i, size_t n,
                                 __m256i (*sums)[2], float (*acc)[PN_PANEL_ROWS]) {
    if (c->offset)
        pn_add_sums(c, x, s, i, n, true, sums, acc);
    else
        pn_add_sums(c, x, s, i, n, false, sums, acc);
}

#endif
