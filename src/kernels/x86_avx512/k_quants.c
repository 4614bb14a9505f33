/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/decode.h"

/* d * scale and -dmin * min of the 8 runs of a Q4_K or Q5_K block, side by side in out[0..8) and out[8..16).
   As pn_k_scales, but without leaving the registers: start is d, dmin and the 12 packed bytes. */
PN_AVX512_INLINE void scale_eight(const void *start, float out[16]) {
    const __m128i low_bits = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    const __m128i high_bits = _mm_setr_epi32(0, 0x30303030, 0, 0x30303030);
    const __m512i each_eight = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512 sign = _mm512_castsi512_ps(_mm512_maskz_set1_epi32(0xff00, INT32_MIN));
    __m128i words = _mm_loadu_si128((const __m128i *)start);
    __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(words, 0xed), _mm_setr_epi32(0, 0, 0, 4));
    __m128i high = _mm_srli_epi32(_mm_shuffle_epi32(words, 0x94), 2);
    __m128i scale_min = _mm_or_si128(_mm_and_si128(low, low_bits), _mm_and_si128(high, high_bits));
    __m512 d_dmin = _mm512_permutexvar_ps(each_eight, _mm512_castps128_ps512(_mm_cvtph_ps(words)));
    __m512 factor = _mm512_xor_ps(d_dmin, sign);
    _mm512_storeu_ps(out, _mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(scale_min))));
    pn_keep_in_memory(out);
}

void pn_decode_q4_k_avx512(const void *src, float *dst, size_t n) {
    const __m512 count = pn_count();
    const pn_block_q4_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float scales[16];
        scale_eight(block, scales);
        const float *dl = scales, *ml = scales + 8;
        for (int i = 0; i < 8; i += 2) { /* runs i and i + 1 are the low and the high nibbles of 32 bytes */
            __m512 low = _mm512_fmadd_ps(_mm512_set1_ps(dl[i]), count, _mm512_set1_ps(ml[i]));
            __m512 high = _mm512_fmadd_ps(_mm512_set1_ps(dl[i + 1]), count, _mm512_set1_ps(ml[i + 1]));
            for (int j = 0; j < 32; j += 16) {
                __m512i q = pn_load_sixteen_u8(block->qs + 16 * i + j);
                pn_put_looked_up(dst + 32 * i + j, q, low);
                pn_put_looked_up(dst + 32 * i + 32 + j, _mm512_srli_epi32(q, 4), high);
            }
        }
    }
}

/* 64 codes in memory: loading is what makes widening cheap. */
PN_AVX512_INLINE void store_codes(int8_t out[64], __m512i codes) {
    _mm512_storeu_si512(out, codes);
    pn_keep_in_memory(out);
}

/* 32 bytes twice, the second time shifted right by `by` bits (16 bits at a time). */
PN_AVX512_INLINE __m512i twice(const uint8_t bytes[32], short by) {
    const __m512i shift = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(by), 1);
    return _mm512_srlv_epi16(_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)bytes)), shift);
}

PN_AVX512_INLINE __m512i and_bytes(__m512i v, char mask) {
    return _mm512_and_si512(v, _mm512_set1_epi8(mask));
}

void pn_decode_q5_k_avx512(const void *src, float *dst, size_t n) {
    const pn_block_q5_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float scales[16];
        scale_eight(block, scales);
        int8_t codes[256];
        __m512i high = twice(block->qh, 1);
        for (int i = 0; i < 4; i++, high = _mm512_srli_epi16(high, 2)) {
            __m512i fifth = _mm512_slli_epi16(and_bytes(high, 1), 4);
            store_codes(codes + 64 * i, _mm512_or_si512(and_bytes(twice(block->qs + 32 * i, 4), 15), fifth));
        }
        for (int i = 0; i < 8; i++) {
            __m512 d = _mm512_set1_ps(scales[i]), m = _mm512_set1_ps(scales[8 + i]);
            for (int j = 32 * i; j < 32 * i + 32; j += 16)
                _mm512_storeu_ps(dst + j, _mm512_fmadd_ps(d, pn_load_sixteen_i8(codes + j), m));
        }
    }
}

/* 64 codes from their low nibbles and their two high bits, less 32. */
PN_AVX512_INLINE __m512i six_bits(__m512i low, __m512i high) {
    __m512i code = _mm512_or_si512(and_bytes(low, 15), _mm512_slli_epi16(and_bytes(high, 3), 4));
    return _mm512_sub_epi8(code, _mm512_set1_epi8(32));
}

/* The 128 codes of half a block. */
PN_AVX512_INLINE void q6_k_codes(const uint8_t ql[64], const uint8_t qh[32], int8_t out[128]) {
    __m512i low = _mm512_loadu_si512(ql), high = twice(qh, 2);
    store_codes(out, six_bits(low, high));
    store_codes(out + 64, six_bits(_mm512_srli_epi16(low, 4), _mm512_srli_epi16(high, 4)));
}

void pn_decode_q6_k_avx512(const void *src, float *dst, size_t n) {
    const pn_block_q6_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float dl[16];
        _mm512_storeu_ps(dl, _mm512_mul_ps(pn_broadcast_half(block->d), pn_load_sixteen_i8(block->scales)));
        pn_keep_in_memory(dl);
        int8_t codes[256];
        q6_k_codes(block->ql, block->qh, codes);
        q6_k_codes(block->ql + 64, block->qh + 32, codes + 128);
        for (int i = 0; i < 16; i++) {
            __m512 q = pn_load_sixteen_i8(codes + 16 * i);
            _mm512_storeu_ps(dst + 16 * i, _mm512_mul_ps(_mm512_set1_ps(dl[i]), q));
        }
    }
}
