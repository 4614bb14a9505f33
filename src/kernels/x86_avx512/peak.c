/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

/* Hides from the compiler what a vector holds: it would compute equal sums only once, and make an addition of
   the multiplication of ones. */
PN_AVX512_INLINE __m512i hidden(__m512i x) {
    __asm__ volatile("" : "+v"(x));
    return x;
}

PN_AVX512_INLINE uint64_t sum_lanes(__m512i v) {
    uint32_t lanes[16];
    uint64_t sum = 0;
    memcpy(lanes, &v, sizeof lanes);
    for (int i = 0; i < 16; i++)
        sum += lanes[i];
    return sum;
}

/* Pairs of byte products are added in 16 bits, which hold a round's sums. */
uint64_t pn_peak_codes_avx512(size_t n) {
    enum { N_ACC = 6, PER_INSTRUCTION = 64 };
    const __m512i ones = _mm512_set1_epi8(1), ones16 = _mm512_set1_epi16(1);
    __m512i x = ones, sum = _mm512_setzero_si512();
    for (size_t round = 0; round < n; round++) {
        __m512i acc[N_ACC];
        for (int i = 0; i < N_ACC; i++)
            acc[i] = hidden(_mm512_setzero_si512());
        for (int j = 0; j < PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC; j++)
            for (int i = 0; i < N_ACC; i++) {
                x = hidden(x);
                acc[i] = _mm512_add_epi16(acc[i], _mm512_maddubs_epi16(x, ones));
            }
        for (int i = 0; i < N_ACC; i++)
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(acc[i], ones16));
    }
    return sum_lanes(sum);
}

uint64_t pn_peak_f32_avx512(size_t n) {
    enum { N_ACC = 12, PER_INSTRUCTION = 16 };
    const __m512 ones = _mm512_castsi512_ps(hidden(_mm512_castps_si512(_mm512_set1_ps(1.0f))));
    __m512 acc[N_ACC];
    for (int i = 0; i < N_ACC; i++)
        acc[i] = _mm512_castsi512_ps(hidden(_mm512_setzero_si512()));
    for (size_t j = 0; j < n * (PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC); j++)
        for (int i = 0; i < N_ACC; i++)
            acc[i] = _mm512_fmadd_ps(ones, ones, acc[i]);
    __m512i sum = _mm512_cvtps_epi32(acc[0]);
    for (int i = 1; i < N_ACC; i++)
        sum = _mm512_add_epi32(sum, _mm512_cvtps_epi32(acc[i]));
    return sum_lanes(sum);
}
