/* SPDX-License-Identifier: Apache-2.0 */
/* Each block in two passes: its 256 codes as bytes, then bytes to floats run by run. */
#include "kernels/x86_avx2/decode.h"

PN_AVX2_INLINE __m256i load_bytes(const uint8_t bytes[32]) {
    return _mm256_loadu_si256((const __m256i *)bytes);
}

/* (bytes >> shift) & mask, byte by byte; mask must not hold bits that a 16-bit shift brings in from the
 * neighbour. */
PN_AVX2_INLINE __m256i bits_at(__m256i bytes, int shift, char mask) {
    return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(mask));
}

/* `value` in the bytes that have the given bit set, else 0. */
PN_AVX2_INLINE __m256i value_if(__m256i bytes, __m256i bit, char value) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(value));
}

PN_AVX2_INLINE __m256 negative(__m256 x) {
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

/* out[0..16) = d * (the 16 signed bytes). */
PN_AVX2_INLINE void scale_sixteen(__m128i bytes, __m256 d, float out[16]) {
    int8_t b[16];
    _mm_storeu_si128((__m128i *)b, bytes);
    pn_put_eight(out, pn_load_eight_i8(b), d);
    pn_put_eight(out + 8, pn_load_eight_i8(b + 8), d);
}

/* 16 runs of 16 weights: dst = dl * code. */
PN_AVX2_INLINE void put_sixteen_runs(float *dst, const int8_t codes[256], const float dl[16]) {
    for (int i = 0; i < 16; i++) {
        __m256 d = _mm256_broadcast_ss(dl + i);
        pn_put_eight(dst + 16 * i, pn_load_eight_i8(codes + 16 * i), d);
        pn_put_eight(dst + 16 * i + 8, pn_load_eight_i8(codes + 16 * i + 8), d);
    }
}

/* The 128 two-bit codes of 32 bytes. */
PN_AVX2_INLINE void two_bits(const uint8_t qs[32], __m256i out[4]) {
    __m256i q = load_bytes(qs);
    out[0] = bits_at(q, 0, 3);
    out[1] = bits_at(q, 2, 3);
    out[2] = bits_at(q, 4, 3);
    out[3] = bits_at(q, 6, 3);
}

void pn_decode_q2_k_avx2(const void *src, float *dst, size_t n) {
    const __m128i low = _mm_set1_epi8(15);
    const pn_block_q2_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        __m128i scales = _mm_loadu_si128((const __m128i *)block->scales);
        __m256 d, dmin;
        pn_broadcast_two_halves(block->d_dmin, &d, &dmin);
        float dl[16], ml[16];
        scale_sixteen(_mm_and_si128(scales, low), d, dl);
        scale_sixteen(_mm_and_si128(_mm_srli_epi16(scales, 4), low), negative(dmin), ml);
        __m256i q[8];
        two_bits(block->qs, q);
        two_bits(block->qs + 32, q + 4);
        int8_t codes[256];
        for (int i = 0; i < 8; i++)
            pn_store_codes(codes + 32 * i, q[i]);
        for (int i = 0; i < 16; i++) {
            __m256 di = _mm256_broadcast_ss(dl + i), mi = _mm256_broadcast_ss(ml + i);
            pn_put_eight_add(dst + 16 * i, pn_load_eight_i8(codes + 16 * i), di, mi);
            pn_put_eight_add(dst + 16 * i + 8, pn_load_eight_i8(codes + 16 * i + 8), di, mi);
        }
    }
}

/* The 16 scales, 6 bits each, less 32. */
PN_AVX2_INLINE __m128i q3_k_scales(const uint8_t packed[12]) {
    int32_t high;
    memcpy(&high, packed + 8, sizeof high);
    __m128i low = _mm_loadl_epi64((const __m128i *)packed);
    low = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    __m128i pairs = _mm_srlv_epi32(_mm_set1_epi32(high), _mm_setr_epi32(0, 2, 4, 6));
    pairs = _mm_slli_epi16(_mm_and_si128(pairs, _mm_set1_epi8(3)), 4);
    return _mm_sub_epi8(_mm_or_si128(low, pairs), _mm_set1_epi8(32));
}

void pn_decode_q3_k_avx2(const void *src, float *dst, size_t n) {
    const __m256i four = _mm256_set1_epi8(4);
    const pn_block_q3_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float dl[16];
        scale_sixteen(q3_k_scales(block->scales), pn_broadcast_half(block->d), dl);
        __m256i q[8], hmask = load_bytes(block->hmask), bit = _mm256_set1_epi8(1);
        two_bits(block->qs, q);
        two_bits(block->qs + 32, q + 4);
        int8_t codes[256];
        for (int i = 0; i < 8; i++, bit = _mm256_add_epi8(bit, bit)) {
            __m256i code = _mm256_or_si256(q[i], value_if(hmask, bit, 4));
            pn_store_codes(codes + 32 * i, _mm256_sub_epi8(code, four));
        }
        put_sixteen_runs(dst, codes, dl);
    }
}

/* d * scale and -dmin * min of the 8 runs of a Q4_K or Q5_K block. */
PN_AVX2_INLINE void scale_eight(const uint8_t d_dmin[4], const uint8_t packed[12], float dl[8], float ml[8]) {
    uint8_t scale[8], min[8];
    pn_k_scales(packed, scale, min);
    __m256 d, dmin;
    pn_broadcast_two_halves(d_dmin, &d, &dmin);
    pn_put_eight(dl, _mm256_cvtepi32_ps(pn_load_eight_u8(scale)), d);
    pn_put_eight(ml, _mm256_cvtepi32_ps(pn_load_eight_u8(min)), negative(dmin));
}

void pn_decode_q4_k_avx2(const void *src, float *dst, size_t n) {
    const __m256i low = _mm256_set1_epi32(15);
    const pn_block_q4_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float dl[8], ml[8];
        scale_eight(block->d_dmin, block->scales, dl, ml);
        for (int i = 0; i < 4; i++) { /* runs 2i and 2i + 1 are the low and the high nibbles of 32 bytes */
            __m256 d0 = _mm256_broadcast_ss(dl + 2 * i), d1 = _mm256_broadcast_ss(dl + 2 * i + 1);
            __m256 m0 = _mm256_broadcast_ss(ml + 2 * i), m1 = _mm256_broadcast_ss(ml + 2 * i + 1);
            for (int j = 0; j < 32; j += 8) {
                __m256i q = pn_load_eight_u8(block->qs + 32 * i + j);
                pn_put_eight_add(dst + 64 * i + j, _mm256_cvtepi32_ps(_mm256_and_si256(q, low)), d0, m0);
                pn_put_eight_add(dst + 64 * i + 32 + j, _mm256_cvtepi32_ps(_mm256_srli_epi32(q, 4)), d1, m1);
            }
        }
    }
}

void pn_decode_q5_k_avx2(const void *src, float *dst, size_t n) {
    const pn_block_q5_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float dl[8], ml[8];
        scale_eight(block->d_dmin, block->scales, dl, ml);
        __m256i qh = load_bytes(block->qh), bit = _mm256_set1_epi8(1);
        int8_t codes[256];
        for (int i = 0; i < 4; i++, bit = _mm256_slli_epi16(bit, 2)) {
            __m256i q = load_bytes(block->qs + 32 * i);
            __m256i high0 = value_if(qh, bit, 16), high1 = value_if(qh, _mm256_add_epi8(bit, bit), 16);
            pn_store_codes(codes + 64 * i, _mm256_or_si256(bits_at(q, 0, 15), high0));
            pn_store_codes(codes + 64 * i + 32, _mm256_or_si256(bits_at(q, 4, 15), high1));
        }
        for (int i = 0; i < 8; i++) {
            __m256 d = _mm256_broadcast_ss(dl + i), m = _mm256_broadcast_ss(ml + i);
            for (int j = 32 * i; j < 32 * i + 32; j += 8)
                pn_put_eight_add(dst + j, pn_load_eight_i8(codes + j), d, m);
        }
    }
}

/* A code from its low nibble and its two high bits, less 32. */
PN_AVX2_INLINE __m256i six_bits(__m256i low, __m256i high) {
    return _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), _mm256_set1_epi8(32));
}

void pn_decode_q6_k_avx2(const void *src, float *dst, size_t n) {
    const pn_block_q6_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float dl[16];
        scale_sixteen(_mm_loadu_si128((const __m128i *)block->scales), pn_broadcast_half(block->d), dl);
        int8_t codes[256];
        for (int half = 0; half < 2; half++) {
            __m256i low0 = load_bytes(block->ql + 64 * half), low1 = load_bytes(block->ql + 64 * half + 32);
            __m256i high[4];
            two_bits(block->qh + 32 * half, high);
            int8_t *out = codes + 128 * half;
            pn_store_codes(out, six_bits(bits_at(low0, 0, 15), high[0]));
            pn_store_codes(out + 32, six_bits(bits_at(low1, 0, 15), high[1]));
            pn_store_codes(out + 64, six_bits(bits_at(low0, 4, 15), high[2]));
            pn_store_codes(out + 96, six_bits(bits_at(low1, 4, 15), high[3]));
        }
        put_sixteen_runs(dst, codes, dl);
    }
}
