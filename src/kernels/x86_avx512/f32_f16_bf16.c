/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/decode.h"

void pn_decode_f16_avx512(const void *src, float *dst, size_t n) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, pn_load_half(bytes + 2 * i));
    if (i < n) pn_store_tail(dst + i, n - i, pn_load_half_tail(bytes + 2 * i, n - i));
}

PN_AVX512_INLINE __m512 widen_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

void pn_decode_bf16_avx512(const void *src, float *dst, size_t n) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, widen_bf16(_mm256_loadu_si256((const __m256i *)(bytes + 2 * i))));
    if (i < n)
        pn_store_tail(dst + i, n - i,
                      widen_bf16(_mm256_maskz_loadu_epi16(pn_tail_mask(n - i), bytes + 2 * i)));
}
