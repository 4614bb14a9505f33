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

/* Pairs of byte products are added in 16 bits, which hold a round's sums. */
uint64_t pn_peak_codes_avx2(size_t n) {
    enum { N_ACC = 6, PER_INSTRUCTION = 32 };
    const __m256i ones = _mm256_set1_epi8(1), ones16 = _mm256_set1_epi16(1);
    __m256i x = ones, sum = _mm256_setzero_si256();
    for (size_t round = 0; round < n; round++) {
        __m256i acc[N_ACC];
        for (int i = 0; i < N_ACC; i++)
            acc[i] = hidden(_mm256_setzero_si256());
        for (int j = 0; j < PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC; j++)
            for (int i = 0; i < N_ACC; i++) {
                x = hidden(x);
                acc[i] = _mm256_add_epi16(acc[i], _mm256_maddubs_epi16(x, ones));
            }
        for (int i = 0; i < N_ACC; i++)
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(acc[i], ones16));
    }
    return sum_lanes(sum);
}

uint64_t pn_peak_f32_avx2(size_t n) {
    enum { N_ACC = 12, PER_INSTRUCTION = 8 };
    const __m256 ones = _mm256_set1_ps(1.0f);
    __m256 acc[N_ACC];
    for (int i = 0; i < N_ACC; i++)
        acc[i] = _mm256_castsi256_ps(hidden(_mm256_setzero_si256()));
    for (size_t j = 0; j < n * (PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC); j++)
        for (int i = 0; i < N_ACC; i++)
            acc[i] = _mm256_fmadd_ps(ones, ones, acc[i]);
    __m256i sum = _mm256_cvtps_epi32(acc[0]);
    for (int i = 1; i < N_ACC; i++)
        sum = _mm256_add_epi32(sum, _mm256_cvtps_epi32(acc[i]));
    return sum_lanes(sum);
}
