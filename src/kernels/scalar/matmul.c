/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/scalar/dot.h"

void pn_matmul_f32_scalar(const float *w, size_t w_stride, size_t n_row, const float *x, size_t x_stride,
                          size_t n_tok, size_t k, float *out, size_t out_stride) {
    for (size_t t = 0; t < n_tok; t++) {
        for (size_t r = 0; r < n_row; r++)
            out[t * out_stride + r] = pn_dot_scalar(w + r * w_stride, x + t * x_stride, k);
    }
}
