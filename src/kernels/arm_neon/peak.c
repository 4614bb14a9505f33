/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

enum { N_ACC = 12 };

/* Products are added in 16 bits, which hold a round's sums. */
uint64_t pn_peak_codes_neon(size_t n) {
    enum { PER_INSTRUCTION = 8 };
    int8x8_t x = vdup_n_s8(1), ones = vdup_n_s8(1);
    int64_t sum = 0;
    PN_HIDE(ones);
    for (size_t round = 0; round < n; round++) {
        int16x8_t acc[N_ACC];
        for (size_t i = 0; i < N_ACC; i++)
            acc[i] = vdupq_n_s16(0);
        for (size_t j = 0; j < PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC; j++) {
            for (size_t i = 0; i < N_ACC; i++) {
                PN_HIDE(x);
                acc[i] = vmlal_s8(acc[i], x, ones);
            }
        }
        for (size_t i = 0; i < N_ACC; i++)
            sum += vaddlvq_s16(acc[i]);
    }
    return (uint64_t)sum;
}

uint64_t pn_peak_f32_neon(size_t n) {
    enum { PER_INSTRUCTION = 4 };
    float32x4_t x = vdupq_n_f32(1.0f), ones = x, acc[N_ACC];
    uint64_t sum = 0;
    PN_HIDE(ones);
    for (size_t i = 0; i < N_ACC; i++)
        acc[i] = vdupq_n_f32(0);
    for (size_t j = 0; j < n * (PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC); j++)
        for (size_t i = 0; i < N_ACC; i++) {
            PN_HIDE(x);
            acc[i] = vfmaq_f32(acc[i], x, ones);
        }
    for (size_t i = 0; i < N_ACC; i++)
        sum += vaddlvq_u32(vcvtq_u32_f32(acc[i]));
    return sum;
}
