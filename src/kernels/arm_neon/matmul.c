/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/product.h"

/* n_tok <= PN_PRODUCT_ROWS tokens, a constant. */
PN_NEON_INLINE void tokens(const pn_factor *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok,
                           size_t k, float *out, size_t out_stride) {
    float acc[PN_PRODUCT_ROWS * PN_PANEL_ROWS] = {0};
    for (size_t t = 0; t < n_tok; t++)
        memcpy(acc + t * PN_PANEL_ROWS, out + t * out_stride, n_row * sizeof *acc);
    pn_product_strip(x, x_stride, n_tok, w, k, 0, PN_PANEL_ROWS / 4, acc, PN_PANEL_ROWS);
    for (size_t t = 0; t < n_tok; t++)
        memcpy(out + t * out_stride, acc + t * PN_PANEL_ROWS, n_row * sizeof *acc);
}

void pn_matmul_f32_neon(const float *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok, size_t k,
                        float *out, size_t out_stride) {
    const pn_factor columns = {.data = (const char *)w, .stride = PN_PANEL_ROWS};
    size_t t = 0;
    for (; t + PN_PRODUCT_ROWS <= n_tok; t += PN_PRODUCT_ROWS)
        tokens(&columns, n_row, x + t * x_stride, x_stride, PN_PRODUCT_ROWS, k, out + t * out_stride,
               out_stride);
    for (; t < n_tok; t++)
        tokens(&columns, n_row, x + t * x_stride, x_stride, 1, k, out + t * out_stride, out_stride);
}
