/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/panel.h"

enum { TILE = 6 }; /* tokens */

/* 16 rows x n tokens, n a constant: an element takes its products one after the other by fma, whatever n. */
PN_AVX2_INLINE void tile(const float *w, const float *x, size_t x_stride, size_t n, size_t k,
                         float (*acc)[PN_PANEL_ROWS]) {
    __m256 s[TILE][2];
    PN_UNROLL
    for (size_t t = 0; t < n; t++) {
        s[t][0] = _mm256_loadu_ps(acc[t]);
        s[t][1] = _mm256_loadu_ps(acc[t] + 8);
    }
    for (size_t c = 0; c < k; c++, w += PN_PANEL_ROWS, x++) {
        const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + 8);
        PN_UNROLL
        for (size_t t = 0; t < n; t++) {
            const __m256 x1 = _mm256_broadcast_ss(x + t * x_stride);
            s[t][0] = _mm256_fmadd_ps(w0, x1, s[t][0]);
            s[t][1] = _mm256_fmadd_ps(w1, x1, s[t][1]);
            __asm__("" : "+x"(s[t][0]), "+x"(s[t][1])); /* in this order, or registers run out */
        }
    }
    PN_UNROLL
    for (size_t t = 0; t < n; t++) {
        _mm256_storeu_ps(acc[t], s[t][0]);
        _mm256_storeu_ps(acc[t] + 8, s[t][1]);
    }
}

#define TILE_OF(n)                                                                                           \
    static void tile_##n(const float *w, const float *x, size_t x_stride, size_t k,                          \
                         float(*acc)[PN_PANEL_ROWS]) {                                                       \
        tile(w, x, x_stride, n, k, acc);                                                                     \
    }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)

typedef void (*tile_fn)(const float *w, const float *x, size_t x_stride, size_t k,
                        float (*acc)[PN_PANEL_ROWS]);
static const tile_fn tiles[TILE] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

void pn_matmul_f32_avx2(const float *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok, size_t k,
                        float *out, size_t out_stride) {
    while (n_tok > 0) {
        const size_t n_tile = (n_tok + TILE - 1) / TILE, n = (n_tok + n_tile - 1) / n_tile; /* of like size */
        float acc[TILE][PN_PANEL_ROWS] = {{0}};
        for (size_t t = 0; t < n; t++)
            memcpy(acc[t], out + t * out_stride, n_row * sizeof **acc);
        tiles[n - 1](w, x, x_stride, k, acc);
        for (size_t t = 0; t < n; t++)
            memcpy(out + t * out_stride, acc[t], n_row * sizeof **acc);
        n_tok -= n;
        x += n * x_stride;
        out += n * out_stride;
    }
}
