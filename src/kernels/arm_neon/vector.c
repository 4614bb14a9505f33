/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

void pn_add_f32_neon(float *x, const float *y, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(x + i, vaddq_f32(vld1q_f32(x + i), vld1q_f32(y + i)));
    for (; i < n; i++)
        x[i] += y[i];
}

void pn_scale_f32_neon(float *x, float factor, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), factor));
    for (; i < n; i++)
        x[i] *= factor;
}

void pn_f32_to_f16_neon(const float *x, uint16_t *out, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++)
        out[i] = pn_f32_to_f16(x[i]);
}

void pn_f16_to_f32_neon(const uint16_t *x, float *out, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(out + i, pn_load_half(x + i));
    for (; i < n; i++)
        out[i] = pn_f16_to_f32(x[i]);
}

void pn_bf16_to_f32_neon(const uint16_t *x, float *out, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(out + i, vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x + i), 16)));
    for (; i < n; i++)
        out[i] = pn_bf16_to_f32(x[i]);
}
