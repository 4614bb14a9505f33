/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/dot_tile.h"

/* Blocking: a panel of 8 rows x K_CHUNK (16 KiB) and the accumulators of TOKENS tokens (6 KiB) stay in L1
   while x streams through; each x is read from L2 once per panel and block, each weight once per TOKENS
   tokens. */
enum { ROWS = 8, TOKENS = 24, K_CHUNK = 512 };

/* Four rows of one token, out of the three tokens of a 4x3 tile. */
PN_AVX2_INLINE void store_four(float *out, const __m256 sums[12], int token) {
    _mm_storeu_ps(out, pn_sum_four(sums[token], sums[3 + token], sums[6 + token], sums[9 + token]));
}

/* 4 or 8 rows, a multiple of 3 tokens up to TOKENS. */
static void multiply_block(const float *w, size_t w_stride, size_t n_row, const float *x, size_t x_stride,
                           size_t n_tok, size_t k, float *out, size_t out_stride) {
    __m256 sums[ROWS / 4 * TOKENS / 3][12];
    size_t n_half = n_row / 4;
    memset(sums, 0, sizeof sums[0] * (n_half * n_tok / 3));
    for (size_t k0 = 0; k0 < k; k0 += K_CHUNK) {
        size_t n = k - k0 < K_CHUNK ? k - k0 : K_CHUNK;
        for (size_t t = 0; t < n_tok; t += 3) {
            for (size_t h = 0; h < n_half; h++)
                pn_tile_4x3(w + 4 * h * w_stride + k0, w_stride, false, x + t * x_stride + k0, x_stride, n,
                            sums[t / 3 * n_half + h]);
        }
    }
    for (size_t t = 0; t < n_tok; t += 3) {
        for (size_t h = 0; h < n_half; h++) {
            const __m256 *s = sums[t / 3 * n_half + h];
            float *o = out + t * out_stride + 4 * h;
            store_four(o, s, 0);
            store_four(o + out_stride, s, 1);
            store_four(o + 2 * out_stride, s, 2);
        }
    }
}

/* Up to 8 rows x 1 token. */
static void multiply_one(const float *w, size_t w_stride, size_t n_row, const float *x, size_t k,
                         float *out) {
    __m128 s[2];
    size_t r = 0;
    if (n_row == ROWS) {
        pn_tile_rows(w, 8, w_stride, false, x, k, s);
        _mm_storeu_ps(out, s[0]);
        _mm_storeu_ps(out + 4, s[1]);
        r = 8;
    } else if (n_row >= 4) {
        pn_tile_rows(w, 4, w_stride, false, x, k, s);
        _mm_storeu_ps(out, s[0]);
        r = 4;
    }
    for (; r < n_row; r++)
        out[r] = pn_tile_1x1(w + r * w_stride, false, x, k);
}

/* Up to 8 rows x all tokens. */
static void multiply_panel(const float *w, size_t w_stride, size_t n_row, const float *x, size_t x_stride,
                           size_t n_tok, size_t k, float *out, size_t out_stride) {
    size_t n_tile_row = n_row / 4 * 4, t = 0;
    while (n_tile_row > 0 && n_tok - t >= 3) {
        size_t n = n_tok - t < TOKENS ? (n_tok - t) / 3 * 3 : TOKENS;
        multiply_block(w, w_stride, n_tile_row, x + t * x_stride, x_stride, n, k, out + t * out_stride,
                       out_stride);
        t += n;
    }
    for (size_t i = 0; i < t && n_tile_row < n_row; i++)
        multiply_one(w + n_tile_row * w_stride, w_stride, n_row - n_tile_row, x + i * x_stride, k,
                     out + i * out_stride + n_tile_row);
    for (; t < n_tok; t++)
        multiply_one(w, w_stride, n_row, x + t * x_stride, k, out + t * out_stride);
}

void pn_matmul_f32_avx2(const float *w, size_t w_stride, size_t n_row, const float *x, size_t x_stride,
                        size_t n_tok, size_t k, float *out, size_t out_stride) {
    for (size_t r = 0; r < n_row; r += ROWS) {
        size_t n = n_row - r < ROWS ? n_row - r : ROWS;
        multiply_panel(w + r * w_stride, w_stride, n, x, x_stride, n_tok, k, out + r, out_stride);
    }
}
