/* SPDX-License-Identifier: Apache-2.0 */
/* A tile is 16 rows, one per lane, by up to 8 tokens: each element is one chain of fma in the order of
   columns, in every tile. More tokens would need more addresses than there are registers. */
#include "kernels/x86_avx512/avx512.h"

enum { TILE_TOKENS = 8, ROWS = PN_PANEL_ROWS };

/* n_tok is a constant wherever this is used. */
PN_AVX512_INLINE void tile(size_t n_tok, const float *w, __mmask16 rows, const float *x, size_t x_stride,
                           size_t k, float *out, size_t out_stride) {
    const float *at[TILE_TOKENS];
    __m512 acc[TILE_TOKENS];
    for (size_t t = 0; t < n_tok; t++) {
        acc[t] = _mm512_maskz_loadu_ps(rows, out + t * out_stride);
        at[t] = x + t * x_stride;
    }
    for (size_t c = 0; c < k; c++) {
        const __m512 column = _mm512_load_ps(w + c * ROWS);
        for (size_t t = 0; t < n_tok; t++)
            acc[t] = _mm512_fmadd_ps(column, _mm512_set1_ps(at[t][c]), acc[t]);
    }
    for (size_t t = 0; t < n_tok; t++)
        _mm512_mask_storeu_ps(out + t * out_stride, rows, acc[t]);
}

void pn_matmul_f32_avx512(const float *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok,
                          size_t k, float *out, size_t out_stride) {
    const __mmask16 rows = n_row < ROWS ? pn_tail_mask(n_row) : 0xffff;
    size_t t = 0;
    for (; t + TILE_TOKENS <= n_tok; t += TILE_TOKENS)
        tile(TILE_TOKENS, w, rows, x + t * x_stride, x_stride, k, out + t * out_stride, out_stride);
    for (size_t n = TILE_TOKENS / 2; n > 0; n /= 2) {
        if (!(n_tok & n)) continue;
        tile(n, w, rows, x + t * x_stride, x_stride, k, out + t * out_stride, out_stride);
        t += n;
    }
}
