/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

#include <math.h>

/* Four pairs (a, b), by angles given as (cosines, sines). */
PN_NEON_INLINE void rotate(float32x4_t *a, float32x4_t *b, float32x4x2_t cos_sin) {
    float32x4_t c = cos_sin.val[0], s = cos_sin.val[1], old = *a;
    *a = vfmsq_f32(vmulq_f32(old, c), *b, s);
    *b = vfmaq_f32(vmulq_f32(old, s), *b, c);
}

/* One pair, rounded as in the vectors. */
PN_NEON_INLINE void rotate_one(float *a, float *b, const float cos_sin[2]) {
    float c = cos_sin[0], s = cos_sin[1], old = *a;
    *a = fmaf(-*b, s, old * c);
    *b = fmaf(*b, c, old * s);
}

void pn_rope_pairs_f32_neon(float *x, const float *cos_sin, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        float32x4x2_t pairs = vld2q_f32(x + i);
        rotate(&pairs.val[0], &pairs.val[1], vld2q_f32(cos_sin + i));
        vst2q_f32(x + i, pairs);
    }
    for (; i < n; i += 2)
        rotate_one(x + i, x + i + 1, cos_sin + i);
}

void pn_rope_halves_f32_neon(float *x, const float *cos_sin, size_t n) {
    const size_t half = n / 2;
    float *y = x + half;
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(y + i);
        rotate(&a, &b, vld2q_f32(cos_sin + 2 * i));
        vst1q_f32(x + i, a);
        vst1q_f32(y + i, b);
    }
    for (; i < half; i++)
        rotate_one(x + i, y + i, cos_sin + 2 * i);
}
