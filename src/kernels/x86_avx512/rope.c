/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

/* Eight pairs (a, b) with eight pairs (cos, sin): even lanes a c - b s, odd lanes b c + a s. */
PN_AVX512_INLINE __m512 rotate_pairs(__m512 x, __m512 cs) {
    __m512 swapped = _mm512_permute_ps(x, 0xb1);
    return _mm512_fmaddsub_ps(x, _mm512_moveldup_ps(cs), _mm512_mul_ps(swapped, _mm512_movehdup_ps(cs)));
}

void pn_rope_pairs_f32_avx512(float *x, const float *cos_sin, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, rotate_pairs(_mm512_loadu_ps(x + i), _mm512_loadu_ps(cos_sin + i)));
    if (i < n)
        pn_store_tail(x + i, n - i,
                      rotate_pairs(pn_load_tail(x + i, n - i), pn_load_tail(cos_sin + i, n - i)));
}

/* Splits sixteen pairs (cos, sin), in lo and hi, into sixteen cosines and sixteen sines. */
PN_AVX512_INLINE void split_pairs(__m512 lo, __m512 hi, __m512 *cos, __m512 *sin) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *cos = _mm512_permutex2var_ps(lo, even, hi);
    *sin = _mm512_permutex2var_ps(lo, _mm512_add_epi32(even, _mm512_set1_epi32(1)), hi);
}

void pn_rope_halves_f32_avx512(float *x, const float *cos_sin, size_t n) {
    const size_t half = n / 2;
    float *y = x + half;
    size_t i = 0;
    for (; i + 16 <= half; i += 16) {
        __m512 c, s, a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(y + i);
        split_pairs(_mm512_loadu_ps(cos_sin + 2 * i), _mm512_loadu_ps(cos_sin + 2 * i + 16), &c, &s);
        _mm512_storeu_ps(x + i, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
    }
    for (; i < half; i++) {
        float a = x[i], b = y[i], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        x[i] = a * c - b * s;
        y[i] = a * s + b * c;
    }
}
