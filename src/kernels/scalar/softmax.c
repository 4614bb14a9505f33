/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <math.h>

float pn_max_f32_scalar(const float *x, size_t n) {
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max + 0.0f; /* -0 becomes +0, so that the order of comparing zeros does not show */
}

float pn_exp_sum_f32_scalar(float *x, size_t n, float shift) {
    float s[8] = {0};
    for (size_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - shift);
        s[i % 8] += x[i];
    }
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}
