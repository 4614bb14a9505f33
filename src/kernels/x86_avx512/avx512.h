/* SPDX-License-Identifier: Apache-2.0 */
/* Shared pieces of the AVX-512 kernels: tails, the fixed horizontal sum, exp. The folder is compiled with
   -mavx512f -mavx512bw -mavx512dq -mavx512vl and the flags of x86_avx2; only folders with more than these
   may include its headers. */
#ifndef PN_KERNELS_AVX512_H
#define PN_KERNELS_AVX512_H

#include "kernels/isa.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define PN_AVX512_INLINE static inline __attribute__((always_inline))

/* The first n < 16 lanes. What a mask leaves out is neither read nor written, whatever page it lies in. */
PN_AVX512_INLINE __mmask16 pn_tail_mask(size_t n) {
    return (__mmask16)((1u << n) - 1u);
}

/* The first n < 16 floats, zeros after them. */
PN_AVX512_INLINE __m512 pn_load_tail(const float *x, size_t n) {
    return _mm512_maskz_loadu_ps(pn_tail_mask(n), x);
}
PN_AVX512_INLINE void pn_store_tail(float *out, size_t n, __m512 v) {
    _mm512_mask_storeu_ps(out, pn_tail_mask(n), v);
}

/* Sixteen halves as floats, and the first n < 16. */
PN_AVX512_INLINE __m512 pn_load_half(const void *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}
PN_AVX512_INLINE __m512 pn_load_half_tail(const void *x, size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(pn_tail_mask(n), x));
}

/* Four bytes in every lane. */
PN_AVX512_INLINE __m512i pn_broadcast_four(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

/* The horizontal sum: lane i + lane (i + 8) of sixteen, then the same with 4, 2 and 1. */
PN_AVX512_INLINE float pn_sum_one(__m512 a) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* exp by x = n ln 2 + r, |r| <= ln 2 / 2: the polynomial of x86_avx2, times 2^n rounded once. -infinity gives
   0, NaN stays NaN; the error is below 1 ulp. */
PN_AVX512_INLINE __m512 pn_exp(__m512 x) {
    /* e^-104 rounds to 0 and e^89 to infinity; the operands' order lets NaN through. */
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), x);
    __m512 n = _mm512_cvtepi32_ps(_mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f))));
    /* ln 2 as a part of 15 bits, whose product with n is exact, and the rest. */
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 p = _mm512_set1_ps(0x1.6a23dp-10f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.123a2p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5558f2p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555492p-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.fffffcp-2f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    return _mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
}

#endif
