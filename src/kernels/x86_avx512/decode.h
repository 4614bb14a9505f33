/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of this instruction set, in files named as in src/quant, and what they share; the other types keep
   the decoders of x86_avx2. Each does the same roundings as the type's own decode. fma is right for d * q + m
   because d * q is exact: a half has 11 significant bits, an integer scale at most 6, a code at most 5,
   together less than the 24 of a float.

   A code of four bits is looked up among the 16 weights that it can mean, which fill one register; they are
   computed once per run. The look-up ignores all but the low four bits of an index, which spares the mask.
   With five bits, conversion and fma are faster than looking up twice, since only one port shuffles. */
#ifndef PN_KERNELS_AVX512_DECODE_H
#define PN_KERNELS_AVX512_DECODE_H

#include "kernels/x86_avx512/avx512.h"
#include "quant/blocks.h"

/* X(type id, function) */
#define PN_AVX512_DECODERS(X)                                                                                \
    X(1, pn_decode_f16_avx512)                                                                               \
    X(2, pn_decode_q4_0_avx512)                                                                              \
    X(3, pn_decode_q4_1_avx512)                                                                              \
    X(6, pn_decode_q5_0_avx512)                                                                              \
    X(7, pn_decode_q5_1_avx512)                                                                              \
    X(8, pn_decode_q8_0_avx512)                                                                              \
    X(12, pn_decode_q4_k_avx512)                                                                             \
    X(13, pn_decode_q5_k_avx512)                                                                             \
    X(14, pn_decode_q6_k_avx512)                                                                             \
    X(30, pn_decode_bf16_avx512)

#define PN_AVX512_DECLARE(id, decode) void decode(const void *src, float *dst, size_t n);
PN_AVX512_DECODERS(PN_AVX512_DECLARE)
#undef PN_AVX512_DECLARE

/* What was stored is to be loaded from memory again: taking one element into all lanes, or widening bytes, is
   free in a load and a shuffle otherwise. The compiler would undo the detour. */
PN_AVX512_INLINE void pn_keep_in_memory(void *data) {
    __asm__ volatile("" : : "r"(data) : "memory");
}

/* One half as a float in all lanes. */
PN_AVX512_INLINE __m512 pn_broadcast_half(const uint8_t h[2]) {
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)pn_block_u16(h)));
}

/* 0 to 15. */
PN_AVX512_INLINE __m512 pn_count(void) {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Sixteen bytes as 32-bit integers: unsigned, and as floats signed. */
PN_AVX512_INLINE __m512i pn_load_sixteen_u8(const uint8_t *bytes) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)bytes));
}
PN_AVX512_INLINE __m512 pn_load_sixteen_i8(const int8_t *bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)bytes)));
}

/* dst[0..16) = the weights that the low four bits of sixteen codes mean. */
PN_AVX512_INLINE void pn_put_looked_up(float *dst, __m512i codes, __m512 weights) {
    _mm512_storeu_ps(dst, _mm512_permutexvar_ps(codes, weights));
}

#endif
