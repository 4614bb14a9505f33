/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

#include <math.h>

enum { N_VEC = PN_STEP / 4 };

/* |x| of a step at most; NaN when one is NaN. */
PN_NEON_INLINE float greatest_of(const float32x4_t x[N_VEC]) {
    float32x4_t m = vabsq_f32(x[0]);
    for (size_t v = 1; v < N_VEC; v++)
        m = vmaxq_f32(m, vabsq_f32(x[v]));
    return vmaxvq_f32(m);
}

/* The low bytes of 16 integers that fit in 16 bits, and what is left over in units of 256. */
PN_NEON_INLINE int8x16_t low_bytes(const int32x4_t q[4]) {
    int16x8_t a = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
    int16x8_t b = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
    return vcombine_s8(vmovn_s16(a), vmovn_s16(b));
}
PN_NEON_INLINE int8x16_t high_bytes(const int32x4_t q[4]) {
    int16x8_t a = vcombine_s16(vrshrn_n_s32(q[0], 8), vrshrn_n_s32(q[1], 8));
    int16x8_t b = vcombine_s16(vrshrn_n_s32(q[2], 8), vrshrn_n_s32(q[3], 8));
    return vcombine_s8(vmovn_s16(a), vmovn_s16(b));
}

static void quantise_step(const float *x, const pn_inputs *inputs, size_t at, int8_t *low, int8_t *high) {
    float32x4_t v[N_VEC];
    int32x4_t q[N_VEC];
    for (size_t i = 0; i < N_VEC; i++)
        v[i] = vld1q_f32(x + 4 * i);
    const float greatest = greatest_of(v), limit = inputs->n_plane == 2 ? 32639.0f : 127.0f;
    const bool finite = greatest < INFINITY, zero = !finite || greatest < 1e-30f;
    /* Times 0 an infinity becomes NaN, and that the integer 0. */
    const float scale = !finite ? NAN
                        : zero  ? 0.0f
                                : greatest / limit,
                inverse = zero ? 0.0f : limit / greatest;
    for (size_t i = 0; i < N_VEC; i++)
        q[i] = vcvtnq_s32_f32(vmulq_n_f32(v[i], inverse));
    int32_t sums[2];
    for (size_t h = 0; h < 2; h++) {
        const int32x4_t *half = q + 4 * h;
        sums[h] = vaddvq_s32(vaddq_s32(vaddq_s32(half[0], half[1]), vaddq_s32(half[2], half[3])));
        vst1q_s8(low + 16 * h, low_bytes(half));
        if (inputs->n_plane == 2) vst1q_s8(high + 16 * h, high_bytes(half));
    }
    inputs->scale[at] = scale;
    inputs->sum[at] = scale * (float)(sums[0] + sums[1]);
    inputs->bias[at] = -128 * (sums[0] + sums[1]);
    inputs->half[2 * at] = -128 * sums[0];
    inputs->half[2 * at + 1] = -128 * sums[1];
}

void pn_quantise_neon(const float *x, size_t first, size_t n_tok, const pn_inputs *inputs) {
    const size_t n_step = inputs->n_step, row = n_step * PN_STEP;
    for (size_t t = 0; t < n_tok; t++) {
        int8_t *low = inputs->codes + (first + t) * (size_t)inputs->n_plane * row;
        for (size_t s = 0; s < n_step; s++)
            quantise_step(x + t * row + s * PN_STEP, inputs, (first + t) * n_step + s, low + s * PN_STEP,
                          low + row + s * PN_STEP);
    }
}
