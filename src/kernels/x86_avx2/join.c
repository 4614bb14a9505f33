/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/x86_avx2/avx2.h"

#include "quant/split.h"

/* Low halves of bytes in the first half of a step, high ones in the second, as scalar/join.c. */
void pn_join_split_avx2(const uint8_t *high, const uint8_t *low, size_t n_step, size_t scale_bytes,
                        uint8_t *panel) {
    const __m256i nibble = _mm256_set1_epi8(15);
    for (size_t s = 0; s < n_step; s++) {
        for (size_t b = 0; b < PN_SPLIT_CODES; b += 32) {
            const __m256i h = _mm256_loadu_si256((const __m256i *)(high + b));
            const __m256i l = _mm256_loadu_si256((const __m256i *)(low + b));
            const __m256i first = _mm256_slli_epi16(_mm256_and_si256(h, nibble), 4);
            const __m256i second = _mm256_and_si256(_mm256_srli_epi16(l, 4), nibble);
            _mm256_storeu_si256((__m256i *)(panel + b), _mm256_or_si256(first, _mm256_and_si256(l, nibble)));
            _mm256_storeu_si256((__m256i *)(panel + PN_SPLIT_CODES + b),
                                _mm256_or_si256(_mm256_andnot_si256(nibble, h), second));
        }
        memcpy(panel + 2 * PN_SPLIT_CODES, high + PN_SPLIT_CODES, scale_bytes);
        high += PN_SPLIT_CODES + 2 * scale_bytes;
        low += PN_SPLIT_CODES;
        panel += 2 * PN_SPLIT_CODES + scale_bytes;
    }
}
