/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

/* Hides from the compiler what a vector holds: it would compute equal sums only once. */
PN_AVX2_INLINE __m256i hidden(__m256i x) {
    __asm__ volatile("" : "+x"(x));
    return x;
}

PN_AVX2_INLINE uint64_t sum_lanes(__m256i v) {
    uint32_t lanes[8];
    uint64_t sum = 0;
    memcpy(lanes, &v, sizeof lanes);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

uint64_t pn_peak_codes_avxvnni(size_t n) {
    enum { N_ACC = 12, PER_INSTRUCTION = 32 };
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i acc[N_ACC];
    for (int i = 0; i < N_ACC; i++)
        acc[i] = hidden(_mm256_setzero_si256());
    for (size_t j = 0; j < n * (PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC); j++)
        for (int i = 0; i < N_ACC; i++)
            acc[i] = _mm256_dpbusd_avx_epi32(acc[i], ones, ones);
    __m256i sum = acc[0];
    for (int i = 1; i < N_ACC; i++)
        sum = _mm256_add_epi32(sum, acc[i]);
    return sum_lanes(sum);
}
