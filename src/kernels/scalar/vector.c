/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_add_f32_scalar(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

void pn_scale_f32_scalar(float *x, float factor, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

void pn_f32_to_f16_scalar(const float *x, uint16_t *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = pn_f32_to_f16(x[i]);
}
