/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of vpmaddwd: pairs of 16-bit integers of even columns, and of odd ones, as they come out of four
   bytes by masking and shifting alone. */
#ifndef PN_KERNELS_AVX2_WIDE_H
#define PN_KERNELS_AVX2_WIDE_H

#include "kernels/x86_avx2/panel.h"

/* Signed bytes. */
PN_AVX2_INLINE __m256i pn_even_bytes(__m256i bytes) {
    return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
}
PN_AVX2_INLINE __m256i pn_odd_bytes(__m256i bytes) {
    return _mm256_srai_epi16(bytes, 8);
}

/* The integers of one step of one token: pair v is columns 4v and 4v + 2, pair 8 + v columns 4v + 1 and
   4v + 3. high is NULL with one plane. */
PN_AVX2_INLINE void pn_widen_inputs(const int8_t *low, const int8_t *high, int32_t pairs[16]) {
    __m256i l = pn_load_32(low), even = pn_even_bytes(l), odd = pn_odd_bytes(l);
    if (high) {
        __m256i h = pn_load_32(high);
        even = _mm256_add_epi16(even, _mm256_slli_epi16(h, 8));
        odd = _mm256_add_epi16(odd, _mm256_andnot_si256(_mm256_set1_epi16(255), h));
    }
    _mm256_storeu_si256((__m256i *)(void *)pairs, even);
    _mm256_storeu_si256((__m256i *)(void *)(pairs + 8), odd);
}

#endif
