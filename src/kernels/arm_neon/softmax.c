/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

float pn_max_f32_neon(const float *x, size_t n) {
    float max = x[0];
    size_t i = 0;
    if (n >= 4) {
        float32x4_t m = vld1q_f32(x);
        for (i = 4; i + 4 <= n; i += 4)
            m = vmaxq_f32(m, vld1q_f32(x + i));
        max = vmaxvq_f32(m);
    }
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max + 0.0f; /* as scalar: a zero is +0 */
}

float pn_exp_sum_f32_neon(float *x, size_t n, float shift) {
    const float32x4_t shift4 = vdupq_n_f32(shift);
    float32x4_t sum[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        float32x4_t a = pn_exp(vsubq_f32(vld1q_f32(x + i), shift4));
        float32x4_t b = pn_exp(vsubq_f32(vld1q_f32(x + i + 4), shift4));
        vst1q_f32(x + i, a);
        vst1q_f32(x + i + 4, b);
        sum[0] = vaddq_f32(sum[0], a);
        sum[1] = vaddq_f32(sum[1], b);
    }
    float total = vaddvq_f32(vaddq_f32(sum[0], sum[1]));
    for (; i < n; i++) {
        x[i] = vgetq_lane_f32(pn_exp(vdupq_n_f32(x[i] - shift)), 0);
        total += x[i];
    }
    return total;
}

/* What is to be subtracted from the scores, after `old` was from those before. */
PN_NEON_INLINE float max_of_row(const float *scores, size_t begin, size_t end, float old) {
    float32x4_t m = vdupq_n_f32(scores[begin]);
    size_t j = begin;
    for (; j + 4 <= end; j += 4)
        m = vmaxnmq_f32(m, vld1q_f32(scores + j));
    float max = vmaxnmvq_f32(m);
    for (; j < end; j++)
        max = scores[j] > max ? scores[j] : max;
    return max <= old + PN_ATTN_SLACK ? old : max;
}

PN_NEON_INLINE float exp2_one(float x) {
    return vgetq_lane_f32(pn_exp2(vdupq_n_f32(x)), 0);
}

/* Returns the sum. */
PN_NEON_INLINE float exp2_row(float *scores, size_t begin, size_t end, float max) {
    float32x4_t sum = vdupq_n_f32(0);
    size_t j = begin;
    for (; j + 4 <= end; j += 4) {
        float32x4_t e = pn_exp2(vsubq_f32(vld1q_f32(scores + j), vdupq_n_f32(max)));
        vst1q_f32(scores + j, e);
        sum = vaddq_f32(sum, e);
    }
    float total = vaddvq_f32(sum);
    for (; j < end; j++) {
        scores[j] = exp2_one(scores[j] - max);
        total += scores[j];
    }
    return total;
}

void pn_attn_softmax_neon(float *scores, size_t n_row, size_t begin, size_t end, float *max, float *sum,
                          float *shrink) {
    for (size_t r = 0; r < n_row; r++, scores += PN_ATTN_KEYS) {
        const float m = max_of_row(scores, begin, end, max[r]);
        shrink[r] = exp2_one(max[r] - m);
        sum[r] = sum[r] * shrink[r] + exp2_row(scores, begin, end, m);
        max[r] = m;
    }
}
