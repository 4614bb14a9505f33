/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

/* Hides from the compiler what a vector holds: it would compute equal sums only once. */
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

uint64_t pn_peak_codes_avx512vnni(size_t n) {
    enum { N_ACC = 12, PER_INSTRUCTION = 64 };
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i acc[N_ACC];
    for (int i = 0; i < N_ACC; i++)
        acc[i] = hidden(_mm512_setzero_si512());
    for (size_t j = 0; j < n * (PN_PEAK_ROUND / PER_INSTRUCTION / N_ACC); j++)
        for (int i = 0; i < N_ACC; i++)
            acc[i] = _mm512_dpbusd_epi32(acc[i], ones, ones);
    __m512i sum = acc[0];
    for (int i = 1; i < N_ACC; i++)
        sum = _mm512_add_epi32(sum, acc[i]);
    return sum_lanes(sum);
}
