/* SPDX-License-Identifier: Apache-2.0 */
/* Register tiles of dot products. Every one keeps the same order for each single product, whatever the tile:
   one accumulator of eight lanes, element k goes to lane k mod 8 by fma in order of k (the tail as a vector
   padded with zeros), then pn_sum_four. So a result does not depend on which tile computed it.

   Rows are weights or keys, of float or half as the constant parameter `half` says; columns (x) are tokens or
   queries. Accumulators stay in registers because every index is a constant once these functions are inlined.
 */
#ifndef PN_KERNELS_AVX2_DOT_TILE_H
#define PN_KERNELS_AVX2_DOT_TILE_H

#include "kernels/x86_avx2/avx2.h"

/* Elements [k, k + 8) of row r, or the first n < 8 of them. */
PN_AVX2_INLINE __m256 pn_row_load(const void *rows, size_t stride, bool half, size_t r, size_t k) {
    if (half) return pn_load_half((const uint16_t *)rows + r * stride + k);
    return _mm256_loadu_ps((const float *)rows + r * stride + k);
}
PN_AVX2_INLINE __m256 pn_row_load_tail(const void *rows, size_t stride, bool half, size_t r, size_t k,
                                       size_t n) {
    if (half) return pn_load_half_tail((const uint16_t *)rows + r * stride + k, n);
    return pn_load_tail((const float *)rows + r * stride + k, n);
}

PN_AVX2_INLINE void pn_fma_three(__m256 s[3], __m256 w, __m256 x0, __m256 x1, __m256 x2) {
    s[0] = _mm256_fmadd_ps(w, x0, s[0]);
    s[1] = _mm256_fmadd_ps(w, x1, s[1]);
    s[2] = _mm256_fmadd_ps(w, x2, s[2]);
}

/* Continues 4 rows x 3 columns over k elements; sums [4][3]. */
PN_AVX2_INLINE void pn_tile_4x3(const void *rows, size_t stride, bool half, const float *x, size_t x_stride,
                                size_t k, __m256 sums[12]) {
    __m256 s[12];
    memcpy(s, sums, sizeof s);
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256 x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + x_stride + i);
        __m256 x2 = _mm256_loadu_ps(x + 2 * x_stride + i);
        pn_fma_three(s, pn_row_load(rows, stride, half, 0, i), x0, x1, x2);
        pn_fma_three(s + 3, pn_row_load(rows, stride, half, 1, i), x0, x1, x2);
        pn_fma_three(s + 6, pn_row_load(rows, stride, half, 2, i), x0, x1, x2);
        pn_fma_three(s + 9, pn_row_load(rows, stride, half, 3, i), x0, x1, x2);
    }
    if (i < k) {
        size_t n = k - i;
        __m256 x0 = pn_load_tail(x + i, n), x1 = pn_load_tail(x + x_stride + i, n);
        __m256 x2 = pn_load_tail(x + 2 * x_stride + i, n);
        pn_fma_three(s, pn_row_load_tail(rows, stride, half, 0, i, n), x0, x1, x2);
        pn_fma_three(s + 3, pn_row_load_tail(rows, stride, half, 1, i, n), x0, x1, x2);
        pn_fma_three(s + 6, pn_row_load_tail(rows, stride, half, 2, i, n), x0, x1, x2);
        pn_fma_three(s + 9, pn_row_load_tail(rows, stride, half, 3, i, n), x0, x1, x2);
    }
    memcpy(sums, s, sizeof s);
}

/* n_row rows (a constant, 4 or 8) x 1 column; writes n_row / 4 vectors of results. */
PN_AVX2_INLINE void pn_tile_rows(const void *rows, size_t n_row, size_t stride, bool half, const float *x,
                                 size_t k, __m128 *out) {
    __m256 s[8];
    for (size_t r = 0; r < n_row; r++)
        s[r] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        for (size_t r = 0; r < n_row; r++)
            s[r] = _mm256_fmadd_ps(pn_row_load(rows, stride, half, r, i), v, s[r]);
    }
    if (i < k) {
        __m256 v = pn_load_tail(x + i, k - i);
        for (size_t r = 0; r < n_row; r++)
            s[r] = _mm256_fmadd_ps(pn_row_load_tail(rows, stride, half, r, i, k - i), v, s[r]);
    }
    for (size_t r = 0; r < n_row; r += 4)
        out[r / 4] = pn_sum_four(s[r], s[r + 1], s[r + 2], s[r + 3]);
}

PN_AVX2_INLINE float pn_tile_1x1(const void *row, bool half, const float *x, size_t k) {
    __m256 s = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= k; i += 8)
        s = _mm256_fmadd_ps(pn_row_load(row, 0, half, 0, i), _mm256_loadu_ps(x + i), s);
    if (i < k)
        s = _mm256_fmadd_ps(pn_row_load_tail(row, 0, half, 0, i, k - i), pn_load_tail(x + i, k - i), s);
    return pn_sum_one(s);
}

#endif
