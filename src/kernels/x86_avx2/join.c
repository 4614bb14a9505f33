/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/x86_avx2/avx2.h"

#include "quant/split.h"

/* Low halves of bytes in the first half of a step, high ones in the second, as scalar/join.c. */
void pn_join_split_avx2(const uint8_t *high, const uint8_t *low, size_t n_col, uint8_t *panel) {
    const __m256i nibble = _mm256_set1_epi8(15);
    for (size_t s = 0; s < n_col / PN_STEP; s++) {
        for (size_t b = 0; b < PN_SPLIT_LOW_BYTES; b += 32) {
            const __m256i h = _mm256_loadu_si256((const __m256i *)(high + b));
            const __m256i l = _mm256_loadu_si256((const __m256i *)(low + b));
            const __m256i first = _mm256_slli_epi16(_mm256_and_si256(h, nibble), 4);
            const __m256i second = _mm256_and_si256(_mm256_srli_epi16(l, 4), nibble);
            _mm256_storeu_si256((__m256i *)(panel + b), _mm256_or_si256(first, _mm256_and_si256(l, nibble)));
            _mm256_storeu_si256((__m256i *)(panel + PN_SPLIT_LOW_BYTES + b),
                                _mm256_or_si256(_mm256_andnot_si256(nibble, h), second));
        }
        const __m256i scales = _mm256_loadu_si256((const __m256i *)(high + PN_SPLIT_LOW_BYTES));
        _mm256_storeu_si256((__m256i *)(panel + 2 * PN_SPLIT_LOW_BYTES), scales);
        high += PN_SPLIT_HIGH_BYTES;
        low += PN_SPLIT_LOW_BYTES;
        panel += 2 * PN_SPLIT_LOW_BYTES + 32;
    }
}
