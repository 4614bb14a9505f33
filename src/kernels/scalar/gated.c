/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <math.h>

/* x * sigmoid(y). For y far below zero exp(-y) is infinite and the quotient -0 or 0. */
static float times_sigmoid(float x, float y) {
    return x / (1.0f + expf(-y));
}

void pn_silu_mul_f32_scalar(const float *gate, const float *up, size_t n, float *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = times_sigmoid(gate[i], gate[i]) * up[i];
}

/* x/2 * (1 + tanh(u)) = x * sigmoid(2u) with u = sqrt(2/pi) * (x + 0.044715 x^3)
   (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016). The sigmoid keeps its relative accuracy for x
   < 0. */
void pn_gelu_mul_f32_scalar(const float *gate, const float *up, size_t n, float *out) {
    const float two_sqrt_2_over_pi = 1.5957691f;
    for (size_t i = 0; i < n; i++) {
        float x = gate[i];
        out[i] = times_sigmoid(x, two_sqrt_2_over_pi * x * (1.0f + 0.044715f * (x * x))) * up[i];
    }
}
