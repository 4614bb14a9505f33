/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/decode.h"

/* dst[0..32) = d * the values that the nibbles of 16 bytes point to: low ones, then high ones. */
PN_AVX2_INLINE void put_values(float *dst, const uint8_t qs[16], __m256 d) {
    const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)pn_iq4_values));
    _Alignas(32) int8_t v[32];
    pn_store_codes(v, _mm256_shuffle_epi8(values, pn_nibbles(qs)));
    for (int i = 0; i < 32; i += 8)
        pn_put_eight(dst + i, pn_load_eight_i8(v + i), d);
}

void pn_decode_iq4_nl_avx2(const void *src, float *dst, size_t n) {
    const pn_block_iq4_nl *block = src;
    for (; n > 0; n -= 32, dst += 32, block++)
        put_values(dst, block->qs, pn_broadcast_half(block->d));
}

void pn_decode_iq4_xs_avx2(const void *src, float *dst, size_t n) {
    const pn_block_iq4_xs *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        __m256 d = pn_broadcast_half(block->d);
        unsigned scales_h = pn_block_u16(block->scales_h);
        for (int i = 0; i < 8; i++) {
            int low = block->scales_l[i / 2] >> (i % 2 * 4) & 15;
            int high = (int)(scales_h >> (2 * i) & 3);
            __m256 dl = _mm256_mul_ps(d, _mm256_set1_ps((float)((low | high << 4) - 32)));
            put_values(dst + 32 * i, block->qs + 16 * i, dl);
        }
    }
}
