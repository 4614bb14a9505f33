/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

uint64_t pn_peak_codes_i8mm(size_t n) {
    enum { N_ACC = 12, PER_INSTRUCTION = 32 };
    const int8x16_t ones = vdupq_n_s8(1);
    int8x16_t x = ones;
    int32x4_t acc[N_ACC];
    uint64_t sum = 0;
    for (size_t i = 0; i < N_ACC; i++)
        acc[i] = vdupq_n_s32(0);
    for (size_t j = 0; j < n * (PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC); j++)
        for (size_t i = 0; i < N_ACC; i++) {
            PN_HIDE(x);
            acc[i] = vmmlaq_s32(acc[i], x, ones);
        }
    for (size_t i = 0; i < N_ACC; i++)
        sum += (uint64_t)vaddlvq_s32(acc[i]);
    return sum;
}
