/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

PN_AVX2_INLINE __m256 times_sigmoid(__m256 x, __m256 y) {
    const __m256 one = _mm256_set1_ps(1.0f), minus_zero = _mm256_set1_ps(-0.0f);
    return _mm256_div_ps(x, _mm256_add_ps(one, pn_exp(_mm256_xor_ps(y, minus_zero))));
}

PN_AVX2_INLINE __m256 silu(__m256 x) {
    return times_sigmoid(x, x);
}

/* As scalar: x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)). */
PN_AVX2_INLINE __m256 gelu(__m256 x) {
    __m256 cubic = _mm256_fmadd_ps(_mm256_set1_ps(0.044715f), _mm256_mul_ps(x, x), _mm256_set1_ps(1.0f));
    return times_sigmoid(x, _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(1.5957691f), x), cubic));
}

void pn_silu_mul_f32_avx2(const float *gate, const float *up, size_t n, float *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(silu(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    if (i < n) {
        __m256 g = pn_load_tail(gate + i, n - i), u = pn_load_tail(up + i, n - i);
        pn_store_tail(out + i, n - i, _mm256_mul_ps(silu(g), u));
    }
}

void pn_gelu_mul_f32_avx2(const float *gate, const float *up, size_t n, float *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(gelu(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    if (i < n) {
        __m256 g = pn_load_tail(gate + i, n - i), u = pn_load_tail(up + i, n - i);
        pn_store_tail(out + i, n - i, _mm256_mul_ps(gelu(g), u));
    }
}
