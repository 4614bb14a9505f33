/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of this instruction set, in files named as in src/quant, and what they share. Each does the same
   roundings as the type's own decode. fma is right for d * q + m because d * q is exact: a half has 11
   significant bits, an integer scale at most 6, a code at most 5, together less than the 24 of a float. */
#ifndef PN_KERNELS_AVX2_DECODE_H
#define PN_KERNELS_AVX2_DECODE_H

#include "kernels/x86_avx2/avx2.h"
#include "quant/blocks.h"

/* X(type id, function) */
#define PN_AVX2_DECODERS(X)                                                                                  \
    X(1, pn_decode_f16_avx2)                                                                                 \
    X(2, pn_decode_q4_0_avx2)                                                                                \
    X(3, pn_decode_q4_1_avx2)                                                                                \
    X(6, pn_decode_q5_0_avx2)                                                                                \
    X(7, pn_decode_q5_1_avx2)                                                                                \
    X(8, pn_decode_q8_0_avx2)                                                                                \
    X(10, pn_decode_q2_k_avx2)                                                                               \
    X(11, pn_decode_q3_k_avx2)                                                                               \
    X(12, pn_decode_q4_k_avx2)                                                                               \
    X(13, pn_decode_q5_k_avx2)                                                                               \
    X(14, pn_decode_q6_k_avx2)                                                                               \
    X(20, pn_decode_iq4_nl_avx2)                                                                             \
    X(23, pn_decode_iq4_xs_avx2)                                                                             \
    X(30, pn_decode_bf16_avx2)

#define PN_AVX2_DECLARE(id, decode) void decode(const void *src, float *dst, size_t n);
PN_AVX2_DECODERS(PN_AVX2_DECLARE)
#undef PN_AVX2_DECLARE

/* One half as a float in all lanes. */
PN_AVX2_INLINE __m256 pn_broadcast_half(const uint8_t h[2]) {
    return _mm256_cvtph_ps(_mm_set1_epi16((short)pn_block_u16(h)));
}

/* Two halves that lie side by side, each in all lanes: one conversion for both. */
PN_AVX2_INLINE void pn_broadcast_two_halves(const uint8_t h[4], __m256 *first, __m256 *second) {
    int32_t both;
    memcpy(&both, h, sizeof both);
    __m256 f = _mm256_cvtph_ps(_mm_set1_epi32(both));
    *first = _mm256_moveldup_ps(f);
    *second = _mm256_movehdup_ps(f);
}

/* Eight bytes as 32-bit integers: unsigned, and as floats signed. Loading them from memory is what makes it
   cheap: the widening of a register's upper bytes would need further shuffles. */
PN_AVX2_INLINE __m256i pn_load_eight_u8(const uint8_t *bytes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
}
PN_AVX2_INLINE __m256 pn_load_eight_i8(const int8_t *bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)bytes)));
}

/* The 32 nibbles of 16 bytes: low ones, then high ones. */
PN_AVX2_INLINE __m256i pn_nibbles(const uint8_t qs[16]) {
    __m128i q = _mm_loadu_si128((const __m128i *)qs);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Puts 32 codes in memory, for pn_load_eight_i8. The empty asm keeps the compiler from undoing the detour. */
PN_AVX2_INLINE void pn_store_codes(int8_t out[32], __m256i codes) {
    _mm256_storeu_si256((__m256i *)out, codes);
    __asm__ volatile("" : "+m"(*(int8_t(*)[32])out));
}

/* dst[0..8) = d * q, and d * q + m. */
PN_AVX2_INLINE void pn_put_eight(float *dst, __m256 q, __m256 d) {
    _mm256_storeu_ps(dst, _mm256_mul_ps(d, q));
}
PN_AVX2_INLINE void pn_put_eight_add(float *dst, __m256 q, __m256 d, __m256 m) {
    _mm256_storeu_ps(dst, _mm256_fmadd_ps(d, q, m));
}

#endif
