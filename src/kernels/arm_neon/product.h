/* SPDX-License-Identifier: Apache-2.0 */
/* out [n_row, n] += a [n_row, k] * b [k, n] with a row of b in vectors and an element of a in all lanes:
   every output element has a lane, which takes its products by fma in order of k, so that tiles of any shape
   agree. */
#ifndef PN_KERNELS_NEON_PRODUCT_H
#define PN_KERNELS_NEON_PRODUCT_H

#include "kernels/arm_neon/neon.h"

#define PN_PRODUCT_ROWS 4 /* times 4 vectors: 16 accumulators */

/* b; `ahead`, where it is not NULL, lies as far ahead of every element and is to be prefetched. */
typedef struct pn_factor {
    const char *data, *ahead;
    size_t stride; /* elements from row to row */
    bool half;     /* a constant */
} pn_factor;

PN_NEON_INLINE size_t pn_factor_offset(const pn_factor *b, size_t i, size_t c) {
    return (i * b->stride + c) * (b->half ? sizeof(uint16_t) : sizeof(float));
}

PN_NEON_INLINE float32x4_t pn_factor_load(const pn_factor *b, size_t i, size_t c) {
    const char *at = b->data + pn_factor_offset(b, i, c);
    return b->half ? pn_load_half(at) : vld1q_f32((const float *)(const void *)at);
}
/* The first n < 4 of them. */
PN_NEON_INLINE float32x4_t pn_factor_load_tail(const pn_factor *b, size_t i, size_t c, size_t n) {
    const void *at = b->data + pn_factor_offset(b, i, c);
    return b->half ? pn_load_half_tail(at, n) : pn_load_tail(at, n);
}

/* n_row <= PN_PRODUCT_ROWS rows, n_vec <= 4 vectors from column c on, both constants. */
PN_NEON_INLINE void pn_product_strip(const float *a, size_t a_stride, size_t n_row, const pn_factor *b,
                                     size_t k, size_t c, size_t n_vec, float *out, size_t out_stride) {
    float32x4_t s[PN_PRODUCT_ROWS][4];
    for (size_t r = 0; r < n_row; r++)
        for (size_t v = 0; v < n_vec; v++)
            s[r][v] = vld1q_f32(out + r * out_stride + c + 4 * v);
    for (size_t i = 0; i < k; i++) {
        float32x4_t x[4];
        if (b->ahead) __builtin_prefetch(b->ahead + pn_factor_offset(b, i, c));
        for (size_t v = 0; v < n_vec; v++)
            x[v] = pn_factor_load(b, i, c + 4 * v);
        for (size_t r = 0; r < n_row; r++)
            for (size_t v = 0; v < n_vec; v++)
                s[r][v] = vfmaq_n_f32(s[r][v], x[v], a[r * a_stride + i]);
    }
    for (size_t r = 0; r < n_row; r++)
        for (size_t v = 0; v < n_vec; v++)
            vst1q_f32(out + r * out_stride + c + 4 * v, s[r][v]);
}

#endif
