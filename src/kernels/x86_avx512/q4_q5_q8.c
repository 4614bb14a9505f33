/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/decode.h"

PN_AVX512_INLINE void put_nibbles(float *dst, const uint8_t qs[16], __m512 weights) {
    __m512i q = pn_load_sixteen_u8(qs);
    pn_put_looked_up(dst, q, weights);
    pn_put_looked_up(dst + 16, _mm512_srli_epi32(q, 4), weights);
}

void pn_decode_q4_0_avx512(const void *src, float *dst, size_t n) {
    const __m512 q = _mm512_sub_ps(pn_count(), _mm512_set1_ps(8));
    const pn_block_q4_0 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++)
        put_nibbles(dst, block->qs, _mm512_mul_ps(pn_broadcast_half(block->d), q));
}

/* d and m are converted one by one: to convert them together and to part them takes one shuffle more. */
void pn_decode_q4_1_avx512(const void *src, float *dst, size_t n) {
    const __m512 q = pn_count();
    const pn_block_q4_1 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        __m512 d = pn_broadcast_half(block->d_m), m = pn_broadcast_half(block->d_m + 2);
        put_nibbles(dst, block->qs, _mm512_fmadd_ps(d, q, m));
    }
}

void pn_decode_q5_0_avx512(const void *src, float *dst, size_t n) {
    const __m512i low = _mm512_set1_epi32(15), sixteen = _mm512_set1_epi32(16);
    const pn_block_q5_0 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        /* The code less 16 is its low bits, less 16 where the fifth is not set. */
        __mmask16 not0 = (__mmask16)~pn_block_u16(block->qh), not1 = (__mmask16)~pn_block_u16(block->qh + 2);
        __m512 d = pn_broadcast_half(block->d);
        __m512i q = pn_load_sixteen_u8(block->qs), q0 = _mm512_and_si512(q, low),
                q1 = _mm512_srli_epi32(q, 4);
        q0 = _mm512_mask_sub_epi32(q0, not0, q0, sixteen);
        q1 = _mm512_mask_sub_epi32(q1, not1, q1, sixteen);
        _mm512_storeu_ps(dst, _mm512_mul_ps(d, _mm512_cvtepi32_ps(q0)));
        _mm512_storeu_ps(dst + 16, _mm512_mul_ps(d, _mm512_cvtepi32_ps(q1)));
    }
}

void pn_decode_q5_1_avx512(const void *src, float *dst, size_t n) {
    const __m512i low = _mm512_set1_epi32(15), sixteen = _mm512_set1_epi32(16);
    const pn_block_q5_1 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        __mmask16 fifth0 = (__mmask16)pn_block_u16(block->qh),
                  fifth1 = (__mmask16)pn_block_u16(block->qh + 2);
        __m512 d = pn_broadcast_half(block->d_m), m = pn_broadcast_half(block->d_m + 2);
        __m512i q = pn_load_sixteen_u8(block->qs), q0 = _mm512_and_si512(q, low),
                q1 = _mm512_srli_epi32(q, 4);
        q0 = _mm512_mask_or_epi32(q0, fifth0, q0, sixteen);
        q1 = _mm512_mask_or_epi32(q1, fifth1, q1, sixteen);
        _mm512_storeu_ps(dst, _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(q0), m));
        _mm512_storeu_ps(dst + 16, _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(q1), m));
    }
}

void pn_decode_q8_0_avx512(const void *src, float *dst, size_t n) {
    const pn_block_q8_0 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        __m512 d = pn_broadcast_half(block->d);
        _mm512_storeu_ps(dst, _mm512_mul_ps(d, pn_load_sixteen_i8(block->qs)));
        _mm512_storeu_ps(dst + 16, _mm512_mul_ps(d, pn_load_sixteen_i8(block->qs + 16)));
    }
}
