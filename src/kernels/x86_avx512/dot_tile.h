/* SPDX-License-Identifier: Apache-2.0 */
/* Register tiles of dot products. Every one keeps the same order for each single product, whatever the tile:
   one accumulator of sixteen lanes, element k goes to lane k mod 16 by fma in order of k (the tail padded
   with zeros), then the sums of avx512.h. So a result does not depend on which tile computed it.

   Rows are weights or keys, of float or half as the constant parameter `half` says; columns (x) are tokens or
   queries. Accumulators stay in registers because every index is a constant once these functions are inlined;
   at most 24 of the 32 registers, the others hold the operands.
 */
#ifndef PN_KERNELS_AVX512_DOT_TILE_H
#define PN_KERNELS_AVX512_DOT_TILE_H

#include "kernels/x86_avx512/avx512.h"

enum { PN_TILE_MAX = 24 };

/* Elements [k, k + 16) of row r, or the first n < 16 of them. */
PN_AVX512_INLINE __m512 pn_row_load(const void *rows, size_t stride, bool half, size_t r, size_t k) {
    if (half) return pn_load_half((const uint16_t *)rows + r * stride + k);
    return _mm512_loadu_ps((const float *)rows + r * stride + k);
}
PN_AVX512_INLINE __m512 pn_row_load_tail(const void *rows, size_t stride, bool half, size_t r, size_t k,
                                         size_t n) {
    if (half) return pn_load_half_tail((const uint16_t *)rows + r * stride + k, n);
    return pn_load_tail((const float *)rows + r * stride + k, n);
}

/* One load for all columns: the compiler would rather load anew in each fma, and loads then are the limit. */
PN_AVX512_INLINE __m512 pn_in_register(__m512 v) {
    __asm__("" : "+v"(v));
    return v;
}

PN_AVX512_INLINE void pn_tile_copy(__m512 *to, const __m512 *from, size_t n_row, size_t n_col) {
    for (size_t c = 0; c < n_col; c++) {
        for (size_t r = 0; r < n_row; r++)
            to[c * n_row + r] = from[c * n_row + r];
    }
}

/* Continues n_row rows x n_col columns (constants; n_row <= 8, n_col <= 4) over k elements;
   sums [n_col][n_row]. */
PN_AVX512_INLINE void pn_tile(const void *rows, size_t n_row, size_t stride, bool half, const float *x,
                              size_t n_col, size_t x_stride, size_t k, __m512 *sums) {
    __m512 s[PN_TILE_MAX], v[4];
    pn_tile_copy(s, sums, n_row, n_col);
    size_t i = 0;
    for (; i + 16 <= k; i += 16) {
        for (size_t c = 0; c < n_col; c++)
            v[c] = _mm512_loadu_ps(x + c * x_stride + i);
        for (size_t r = 0; r < n_row; r++) {
            __m512 w = pn_in_register(pn_row_load(rows, stride, half, r, i));
            for (size_t c = 0; c < n_col; c++)
                s[c * n_row + r] = _mm512_fmadd_ps(w, v[c], s[c * n_row + r]);
        }
    }
    if (i < k) {
        for (size_t c = 0; c < n_col; c++)
            v[c] = pn_load_tail(x + c * x_stride + i, k - i);
        for (size_t r = 0; r < n_row; r++) {
            __m512 w = pn_row_load_tail(rows, stride, half, r, i, k - i);
            for (size_t c = 0; c < n_col; c++)
                s[c * n_row + r] = _mm512_fmadd_ps(w, v[c], s[c * n_row + r]);
        }
    }
    pn_tile_copy(sums, s, n_row, n_col);
}

PN_AVX512_INLINE float pn_tile_1x1(const void *row, bool half, const float *x, size_t k) {
    __m512 s[1] = {_mm512_setzero_ps()};
    pn_tile(row, 1, 0, half, x, 1, 0, k, s);
    return pn_sum_one(s[0]);
}

#endif
