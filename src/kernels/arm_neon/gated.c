/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

PN_NEON_INLINE float32x4_t times_sigmoid(float32x4_t x, float32x4_t y) {
    return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), pn_exp(vnegq_f32(y))));
}

PN_NEON_INLINE float32x4_t silu(float32x4_t x) {
    return times_sigmoid(x, x);
}

/* As scalar: x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)). */
PN_NEON_INLINE float32x4_t gelu(float32x4_t x) {
    float32x4_t cubic = vfmaq_f32(vdupq_n_f32(1.0f), vdupq_n_f32(0.044715f), vmulq_f32(x, x));
    return times_sigmoid(x, vmulq_f32(vmulq_f32(vdupq_n_f32(1.5957691f), x), cubic));
}

void pn_silu_mul_f32_neon(const float *gate, const float *up, size_t n, float *out) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(out + i, vmulq_f32(silu(vld1q_f32(gate + i)), vld1q_f32(up + i)));
    if (i < n) {
        float32x4_t g = pn_load_tail(gate + i, n - i), u = pn_load_tail(up + i, n - i);
        pn_store_tail(out + i, n - i, vmulq_f32(silu(g), u));
    }
}

void pn_gelu_mul_f32_neon(const float *gate, const float *up, size_t n, float *out) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(out + i, vmulq_f32(gelu(vld1q_f32(gate + i)), vld1q_f32(up + i)));
    if (i < n) {
        float32x4_t g = pn_load_tail(gate + i, n - i), u = pn_load_tail(up + i, n - i);
        pn_store_tail(out + i, n - i, vmulq_f32(gelu(g), u));
    }
}
