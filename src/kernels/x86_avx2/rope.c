/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

/* Four pairs (a, b) with four pairs (cos, sin): even lanes a c - b s, odd lanes b c + a s. */
PN_AVX2_INLINE __m256 rotate_pairs(__m256 x, __m256 cs) {
    __m256 swapped = _mm256_permute_ps(x, 0xb1);
    return _mm256_fmaddsub_ps(x, _mm256_moveldup_ps(cs), _mm256_mul_ps(swapped, _mm256_movehdup_ps(cs)));
}

void pn_rope_pairs_f32_avx2(float *x, const float *cos_sin, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, rotate_pairs(_mm256_loadu_ps(x + i), _mm256_loadu_ps(cos_sin + i)));
    if (i < n)
        pn_store_tail(x + i, n - i,
                      rotate_pairs(pn_load_tail(x + i, n - i), pn_load_tail(cos_sin + i, n - i)));
}

/* Splits eight pairs (cos, sin), in lo and hi, into eight cosines and eight sines. */
PN_AVX2_INLINE void split_pairs(__m256 lo, __m256 hi, __m256 *cos, __m256 *sin) {
    __m256 a = _mm256_permute2f128_ps(lo, hi, 0x20), b = _mm256_permute2f128_ps(lo, hi, 0x31);
    *cos = _mm256_shuffle_ps(a, b, 0x88);
    *sin = _mm256_shuffle_ps(a, b, 0xdd);
}

void pn_rope_halves_f32_avx2(float *x, const float *cos_sin, size_t n) {
    const size_t half = n / 2;
    float *y = x + half;
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        __m256 c, s, a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(y + i);
        split_pairs(_mm256_loadu_ps(cos_sin + 2 * i), _mm256_loadu_ps(cos_sin + 2 * i + 8), &c, &s);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
    for (; i < half; i++) {
        float a = x[i], b = y[i], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        x[i] = a * c - b * s;
        y[i] = a * s + b * c;
    }
}
