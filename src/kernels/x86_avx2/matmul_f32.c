/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

enum { TILE = 6 }; /* tokens */

/* 16 rows x n tokens, n a constant: an element takes its products one after the other by fma, whatever n. */
PN_AVX2_INLINE void tile(const float *w, const float *x, size_t x_stride, size_t n, size_t k,
                         float (*acc)[PN_PANEL_ROWS]) {
    __m256 s[TILE][2];
#pragma GCC unroll 6
    for (size_t t = 0; t < n; t++) {
        s[t][0] = _mm256_loadu_ps(acc[t]);
        s[t][1] = _mm256_loadu_ps(acc[t] + 8);
    }
    for (size_t c = 0; c < k; c++, w += PN_PANEL_ROWS, x++) {
        const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + 8);
#pragma GCC unroll 6
        for (size_t t = 0; t < n; t++) {
            const __m256 x1 = _mm256_broadcast_ss(x + t * x_stride);
            s[t][0] = _mm256_fmadd_ps(w0, x1, s[t][0]);
            s[t][1] = _mm256_fmadd_ps(w1, x1, s[t][1]);
            __asm__("" : "+x"(s[t][0]), "+x"(s[t][1])); /* in this order, or registers run out */
        }
    }
#pragma GCC unroll 6
    for (size_t t = 0; t < n; t++) {
        _mm256_storeu_ps(acc[t], s[t][0]);
        _mm256_storeu_ps(acc[t] + 8, s[t][1]);
    }
}

static void tile_6(const float *w, const float *x, size_t x_stride, size_t k, float (*acc)[PN_PANEL_ROWS]) {
    tile(w, x, x_stride, 6, k, acc);
}
static void tile_4(const float *w, const float *x, size_t x_stride, size_t k, float (*acc)[PN_PANEL_ROWS]) {
    tile(w, x, x_stride, 4, k, acc);
}
static void tile_2(const float *w, const float *x, size_t x_stride, size_t k, float (*acc)[PN_PANEL_ROWS]) {
    tile(w, x, x_stride, 2, k, acc);
}
static void tile_1(const float *w, const float *x, size_t x_stride, size_t k, float (*acc)[PN_PANEL_ROWS]) {
    tile(w, x, x_stride, 1, k, acc);
}

void pn_matmul_f32_avx2(const float *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok, size_t k,
                        float *out, size_t out_stride) {
    while (n_tok > 0) {
        const size_t n = n_tok >= 6 ? 6 : n_tok >= 4 ? 4 : n_tok >= 2 ? 2 : 1;
        float acc[TILE][PN_PANEL_ROWS] = {{0}};
        for (size_t t = 0; t < n; t++)
            memcpy(acc[t], out + t * out_stride, n_row * sizeof **acc);
        (n == 6 ? tile_6 : n == 4 ? tile_4 : n == 2 ? tile_2 : tile_1)(w, x, x_stride, k, acc);
        for (size_t t = 0; t < n; t++)
            memcpy(out + t * out_stride, acc[t], n_row * sizeof **acc);
        n_tok -= n;
        x += n * x_stride;
        out += n * out_stride;
    }
}
