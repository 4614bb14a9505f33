/* SPDX-License-Identifier: Apache-2.0 */
/* Shared pieces of the NEON kernels: tails, the fixed horizontal sum, exp. */
#ifndef PN_KERNELS_NEON_H
#define PN_KERNELS_NEON_H

#include "kernels/isa.h"

#include <arm_neon.h>
#include <stdbool.h>
#include <string.h>

#define PN_NEON_INLINE static inline __attribute__((always_inline))

/* Hides from the compiler what a vector holds: a peak kernel must multiply by what is always one. */
#define PN_HIDE(vector) __asm__ volatile("" : "+w"(vector))

/* The first n < 4 floats, zeros after them; reads nothing past them. */
PN_NEON_INLINE float32x4_t pn_load_tail(const float *x, size_t n) {
    float padded[4] = {0};
    memcpy(padded, x, n * sizeof *x);
    return vld1q_f32(padded);
}
PN_NEON_INLINE void pn_store_tail(float *out, size_t n, float32x4_t v) {
    float all[4];
    vst1q_f32(all, v);
    memcpy(out, all, n * sizeof *out);
}

/* Four halves at any address as floats, and the first n < 4. */
PN_NEON_INLINE float32x4_t pn_load_half(const void *x) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(x)));
}
PN_NEON_INLINE float32x4_t pn_load_half_tail(const uint16_t *x, size_t n) {
    uint16_t padded[4] = {0};
    memcpy(padded, x, n * sizeof *x);
    return pn_load_half(padded);
}

/* exp by x = n ln 2 + r, |r| <= ln 2 / 2: e^r by a polynomial with relative error 3.1e-9 (minimax, Remez
   exchange on e^r = 1 + r + r^2 p(r)), times 2^n in two factors, so that results below 2^-126 are rounded
   once and what is too great becomes infinity. -infinity gives 0, NaN stays NaN; the error is below 1 ulp. */
PN_NEON_INLINE float32x4_t pn_exp(float32x4_t x) {
    /* e^-104 rounds to 0 and e^89 to infinity. */
    x = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-104.0f)), vdupq_n_f32(89.0f));
    float32x4_t n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(0x1.715476p+0f)));
    /* ln 2 as a part of 15 bits, whose product with n is exact, and the rest. */
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e4p-1f));
    r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
    float32x4_t p = vdupq_n_f32(0x1.6a23dp-10f);
    p = vfmaq_f32(vdupq_n_f32(0x1.123a2p-7f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.5558f2p-5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.555492p-3f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.fffffcp-2f), p, r);
    p = vfmaq_f32(r, p, vmulq_f32(r, r));
    p = vaddq_f32(p, vdupq_n_f32(1.0f));
    int32x4_t e = vcvtq_s32_f32(n), half = vshrq_n_s32(e, 1), bias = vdupq_n_s32(127);
    int32x4_t f1 = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t f2 = vshlq_n_s32(vaddq_s32(vsubq_s32(e, half), bias), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(f1)), vreinterpretq_f32_s32(f2));
}

/* 2^x for x <= PN_ATTN_SLACK by x = n + f, |f| <= 1/2: 2^f by a polynomial with relative error 3.0e-9
   (minimax, with 2^0 = 1), and n added to its exponent; 0 below 2^-126, NaN stays NaN. */
PN_NEON_INLINE float32x4_t pn_exp2(float32x4_t x) {
    float32x4_t n = vrndnq_f32(x), f = vsubq_f32(x, n);
    float32x4_t p = vdupq_n_f32(0x1.416b6p-13f);
    p = vfmaq_f32(vdupq_n_f32(0x1.5f082ep-10f), p, f);
    p = vfmaq_f32(vdupq_n_f32(0x1.3b2dep-7f), p, f);
    p = vfmaq_f32(vdupq_n_f32(0x1.c6af7cp-5f), p, f);
    p = vfmaq_f32(vdupq_n_f32(0x1.ebfbdcp-3f), p, f);
    p = vfmaq_f32(vdupq_n_f32(0x1.62e43p-1f), p, f);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, f);
    int32x4_t power = vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vcvtq_s32_f32(n), 23));
    uint32x4_t none = vcltq_f32(x, vdupq_n_f32(-126.0f));
    return vreinterpretq_f32_s32(vbicq_s32(power, vreinterpretq_s32_u32(none)));
}

#endif
