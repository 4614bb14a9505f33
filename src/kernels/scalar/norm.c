/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/scalar/dot.h"

#include <math.h>

void pn_rms_norm_f32_scalar(const float *x, const float *weight, float eps, size_t n, float *out) {
    float factor = 1.0f / sqrtf(pn_dot_scalar(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * factor * weight[i];
}
