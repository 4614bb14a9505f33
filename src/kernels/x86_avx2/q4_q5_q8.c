/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/decode.h"

void pn_decode_q4_0_avx2(const void *src, float *dst, size_t n) {
    const __m256i low = _mm256_set1_epi32(15), eight = _mm256_set1_epi32(8);
    const pn_block_q4_0 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        __m256 d = pn_broadcast_half(block->d);
        for (int i = 0; i < 16; i += 8) {
            __m256i q = pn_load_eight_u8(block->qs + i);
            __m256i q0 = _mm256_sub_epi32(_mm256_and_si256(q, low), eight);
            __m256i q1 = _mm256_sub_epi32(_mm256_srli_epi32(q, 4), eight);
            pn_put_eight(dst + i, _mm256_cvtepi32_ps(q0), d);
            pn_put_eight(dst + 16 + i, _mm256_cvtepi32_ps(q1), d);
        }
    }
}

void pn_decode_q4_1_avx2(const void *src, float *dst, size_t n) {
    const __m256i low = _mm256_set1_epi32(15);
    const pn_block_q4_1 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        __m256 d, m;
        pn_broadcast_two_halves(block->d_m, &d, &m);
        for (int i = 0; i < 16; i += 8) {
            __m256i q = pn_load_eight_u8(block->qs + i);
            pn_put_eight_add(dst + i, _mm256_cvtepi32_ps(_mm256_and_si256(q, low)), d, m);
            pn_put_eight_add(dst + 16 + i, _mm256_cvtepi32_ps(_mm256_srli_epi32(q, 4)), d, m);
        }
    }
}

/* The 32 codes of five bits, less `offset`, one per byte. */
PN_AVX2_INLINE void five_bits(const uint8_t qs[16], const uint8_t qh[4], char offset, int8_t out[32]) {
    int32_t bits;
    memcpy(&bits, qh, sizeof bits);
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201u);
    __m256i high = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread), bit);
    high = _mm256_and_si256(_mm256_cmpeq_epi8(high, bit), _mm256_set1_epi8(16));
    __m256i q = _mm256_or_si256(pn_nibbles(qs), high);
    pn_store_codes(out, _mm256_sub_epi8(q, _mm256_set1_epi8(offset)));
}

void pn_decode_q5_0_avx2(const void *src, float *dst, size_t n) {
    const pn_block_q5_0 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        _Alignas(32) int8_t q[32];
        five_bits(block->qs, block->qh, 16, q);
        __m256 d = pn_broadcast_half(block->d);
        for (int i = 0; i < 32; i += 8)
            pn_put_eight(dst + i, pn_load_eight_i8(q + i), d);
    }
}

void pn_decode_q5_1_avx2(const void *src, float *dst, size_t n) {
    const pn_block_q5_1 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        _Alignas(32) int8_t q[32];
        five_bits(block->qs, block->qh, 0, q);
        __m256 d, m;
        pn_broadcast_two_halves(block->d_m, &d, &m);
        for (int i = 0; i < 32; i += 8)
            pn_put_eight_add(dst + i, pn_load_eight_i8(q + i), d, m);
    }
}

void pn_decode_q8_0_avx2(const void *src, float *dst, size_t n) {
    const pn_block_q8_0 *block = src;
    for (; n > 0; n -= 32, dst += 32, block++) {
        __m256 d = pn_broadcast_half(block->d);
        for (int i = 0; i < 32; i += 8)
            pn_put_eight(dst + i, pn_load_eight_i8(block->qs + i), d);
    }
}
