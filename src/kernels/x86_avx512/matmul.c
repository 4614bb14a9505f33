/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/dot_tile.h"

/* Blocking: a panel of 8 rows x K_CHUNK (24 KiB) and the accumulators of TOKENS tokens (12 KiB) stay in L1
   while x streams through; each x is read from L2 once per panel and block, each weight once per TOKENS
   tokens. */
enum { ROWS = 8, TOKENS = 24, COLUMNS = 3, K_CHUNK = 768 };

/* 8 rows, a multiple of 3 tokens up to TOKENS. Inlined, it would have to share registers with its caller. */
static __attribute__((noinline)) void multiply_block(const float *w, size_t w_stride, const float *x,
                                                     size_t x_stride, size_t n_tok, size_t k, float *out,
                                                     size_t out_stride) {
    __m512 sums[TOKENS * ROWS];
    memset(sums, 0, n_tok * ROWS * sizeof sums[0]);
    for (size_t k0 = 0; k0 < k; k0 += K_CHUNK) {
        size_t n = k - k0 < K_CHUNK ? k - k0 : K_CHUNK;
        for (size_t t = 0; t < n_tok; t += COLUMNS)
            pn_tile(w + k0, ROWS, w_stride, false, x + t * x_stride + k0, COLUMNS, x_stride, n,
                    sums + t * ROWS);
    }
    for (size_t t = 0; t < n_tok; t++)
        _mm256_storeu_ps(out + t * out_stride, pn_sum_eight(sums + t * ROWS));
}

/* 8 rows x n_tok tokens (a constant up to 3) at once: accumulators never leave the registers. */
PN_AVX512_INLINE void multiply_few(const float *w, size_t w_stride, const float *x, size_t x_stride,
                                   size_t n_tok, size_t k, float *out, size_t out_stride) {
    __m512 s[PN_TILE_MAX];
    for (size_t t = 0; t < n_tok; t++) {
        for (size_t r = 0; r < ROWS; r++)
            s[t * ROWS + r] = _mm512_setzero_ps();
    }
    pn_tile(w, ROWS, w_stride, false, x, n_tok, x_stride, k, s);
    for (size_t t = 0; t < n_tok; t++)
        _mm256_storeu_ps(out + t * out_stride, pn_sum_eight(s + t * ROWS));
}

/* 8 rows x all tokens. */
static void multiply_panel(const float *w, size_t w_stride, const float *x, size_t x_stride, size_t n_tok,
                           size_t k, float *out, size_t out_stride) {
    size_t t = 0;
    if (k <= K_CHUNK) {
        for (; t + COLUMNS <= n_tok; t += COLUMNS)
            multiply_few(w, w_stride, x + t * x_stride, x_stride, COLUMNS, k, out + t * out_stride,
                         out_stride);
    }
    while (n_tok - t >= COLUMNS) {
        size_t n = n_tok - t < TOKENS ? (n_tok - t) / COLUMNS * COLUMNS : TOKENS;
        multiply_block(w, w_stride, x + t * x_stride, x_stride, n, k, out + t * out_stride, out_stride);
        t += n;
    }
    for (; t < n_tok; t++)
        multiply_few(w, w_stride, x + t * x_stride, x_stride, 1, k, out + t * out_stride, out_stride);
}

void pn_matmul_f32_avx512(const float *w, size_t w_stride, size_t n_row, const float *x, size_t x_stride,
                          size_t n_tok, size_t k, float *out, size_t out_stride) {
    size_t r = 0;
    for (; r + ROWS <= n_row; r += ROWS)
        multiply_panel(w + r * w_stride, w_stride, x, x_stride, n_tok, k, out + r, out_stride);
    for (; r < n_row; r++) { /* at most once per matrix, so not worth tiles of its own */
        for (size_t t = 0; t < n_tok; t++)
            out[t * out_stride + r] = pn_tile_1x1(w + r * w_stride, false, x + t * x_stride, k);
    }
}
