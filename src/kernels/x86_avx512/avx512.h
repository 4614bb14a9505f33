/* SPDX-License-Identifier: Apache-2.0 */
/* Shared pieces of the AVX-512 kernels: tails, the fixed horizontal sum, exp. The folder is compiled with
   -mavx512f -mavx512bw -mavx512dq -mavx512vl and the flags of x86_avx2; nothing else may include this header.
 */
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

/* Horizontal sums: lane i + lane (i + 8) of sixteen, then the same with 4, 2 and 1. Both functions add in
   this order, whatever the place of a vector among the eight. */
PN_AVX512_INLINE float pn_sum_one(__m512 a) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Two vectors whose halves become one: those of a, then those of b. Blending one operand spares a shuffle:
   only one port shuffles. */
PN_AVX512_INLINE __m512 pn_fold_halves(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}
/* As quarters of two results: [a0 a1], [b0 b1] become a0 + a1, b0 + b1, in each half. */
PN_AVX512_INLINE __m512 pn_fold_quarters(__m512 a, __m512 b) {
    const __m512i others = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, others, b));
}
PN_AVX512_INLINE __m512 pn_fold_pairs(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
}

/* The sums of v[0] to v[7]. */
PN_AVX512_INLINE __m256 pn_sum_eight(const __m512 *v) {
    /* Where the folding left each: 0 4 2 6 1 5 3 7, on even lanes. */
    const __m512i order = _mm512_setr_epi32(0, 8, 4, 12, 2, 10, 6, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 first = pn_fold_quarters(pn_fold_halves(v[0], v[1]), pn_fold_halves(v[2], v[3]));
    __m512 second = pn_fold_quarters(pn_fold_halves(v[4], v[5]), pn_fold_halves(v[6], v[7]));
    __m512 s = pn_fold_pairs(first, second);
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
    return _mm512_castps512_ps256(_mm512_permutexvar_ps(order, s));
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
