/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/decode.h"

void pn_decode_f16_avx2(const void *src, float *dst, size_t n) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(bytes + 2 * i))));
    for (; i < n; i++)
        dst[i] = pn_block_half(bytes + 2 * i);
}

void pn_decode_bf16_avx2(const void *src, float *dst, size_t n) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(bytes + 2 * i)));
        _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
    }
    for (; i < n; i++)
        dst[i] = pn_bf16_to_f32(pn_block_u16(bytes + 2 * i));
}
