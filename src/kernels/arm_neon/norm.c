/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

#include <math.h>

PN_NEON_INLINE float sum_of_squares(const float *x, size_t n) {
    float32x4_t sum[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (size_t v = 0; v < 4; v++) {
            float32x4_t a = vld1q_f32(x + i + 4 * v);
            sum[v] = vfmaq_f32(sum[v], a, a);
        }
    }
    float total = vaddvq_f32(vaddq_f32(vaddq_f32(sum[0], sum[1]), vaddq_f32(sum[2], sum[3])));
    for (; i < n; i++)
        total += x[i] * x[i];
    return total;
}

void pn_rms_norm_f32_neon(const float *x, const float *weight, float eps, size_t n, float *out) {
    const float factor = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(out + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), factor), vld1q_f32(weight + i)));
    for (; i < n; i++)
        out[i] = x[i] * factor * weight[i];
}
