/* SPDX-License-Identifier: Apache-2.0 */
/* Shared pieces of the AVX2 kernels: tails, the fixed horizontal sum, exp. The folder is compiled with
   -mavx2 -mfma -mf16c -mbmi2; only x86_avxvnni, which may do the same, includes it
   besides. */
#ifndef PN_KERNELS_AVX2_H
#define PN_KERNELS_AVX2_H

#include "kernels/isa.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define PN_AVX2_INLINE static inline __attribute__((always_inline))

/* All ones in the first n < 8 lanes. */
PN_AVX2_INLINE __m256i pn_tail_mask(size_t n) {
    static const int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones_then_zeros + 8 - n));
}

/* The first n < 8 floats, zeros after them; reads nothing past them. */
PN_AVX2_INLINE __m256 pn_load_tail(const float *x, size_t n) {
    return _mm256_maskload_ps(x, pn_tail_mask(n));
}
PN_AVX2_INLINE void pn_store_tail(float *out, size_t n, __m256 v) {
    _mm256_maskstore_ps(out, pn_tail_mask(n), v);
}

/* Eight halves as floats, and the first n < 8. */
PN_AVX2_INLINE __m256 pn_load_half(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}
PN_AVX2_INLINE __m256 pn_load_half_tail(const uint16_t *x, size_t n) {
    uint16_t padded[8] = {0};
    memcpy(padded, x, n * sizeof *x);
    return pn_load_half(padded);
}

/* Horizontal sums in the order of the scalar dot product: ((0+1)+(2+3)) + ((4+5)+(6+7)). */
PN_AVX2_INLINE __m128 pn_sum_four(__m256 a, __m256 b, __m256 c, __m256 d) {
    __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
PN_AVX2_INLINE float pn_sum_one(__m256 a) {
    return _mm_cvtss_f32(pn_sum_four(a, a, a, a));
}

/* exp by x = n ln 2 + r, |r| <= ln 2 / 2: e^r by a polynomial with relative error 3.1e-9 (minimax, Remez
   exchange on e^r = 1 + r + r^2 p(r)), times 2^n in two factors, so that results below 2^-126 are rounded
   once and what is too great becomes infinity. -infinity gives 0, NaN stays NaN; the error is below 1 ulp. */
PN_AVX2_INLINE __m256 pn_exp(__m256 x) {
    /* e^-104 rounds to 0 and e^89 to infinity; the operands' order lets NaN through. */
    x = _mm256_max_ps(_mm256_set1_ps(-104.0f), x);
    x = _mm256_min_ps(_mm256_set1_ps(89.0f), x);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    /* ln 2 as a part of 15 bits, whose product with n is exact, and the rest. */
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 p = _mm256_set1_ps(0x1.6a23dp-10f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.123a2p-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5558f2p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555492p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffffcp-2f));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
    __m256i e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1), bias = _mm256_set1_epi32(127);
    __m256i f1 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i f2 = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(f1)), _mm256_castsi256_ps(f2));
}

#endif
