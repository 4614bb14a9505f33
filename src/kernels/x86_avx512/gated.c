/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

PN_AVX512_INLINE __m512 times_sigmoid(__m512 x, __m512 y) {
    const __m512 one = _mm512_set1_ps(1.0f), minus_zero = _mm512_set1_ps(-0.0f);
    return _mm512_div_ps(x, _mm512_add_ps(one, pn_exp(_mm512_xor_ps(y, minus_zero))));
}

PN_AVX512_INLINE __m512 silu(__m512 x) {
    return times_sigmoid(x, x);
}

/* As scalar: x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)). */
PN_AVX512_INLINE __m512 gelu(__m512 x) {
    __m512 cubic = _mm512_fmadd_ps(_mm512_set1_ps(0.044715f), _mm512_mul_ps(x, x), _mm512_set1_ps(1.0f));
    return times_sigmoid(x, _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(1.5957691f), x), cubic));
}

void pn_silu_mul_f32_avx512(const float *gate, const float *up, size_t n, float *out) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_mul_ps(silu(_mm512_loadu_ps(gate + i)), _mm512_loadu_ps(up + i)));
    if (i < n) {
        __m512 g = pn_load_tail(gate + i, n - i), u = pn_load_tail(up + i, n - i);
        pn_store_tail(out + i, n - i, _mm512_mul_ps(silu(g), u));
    }
}

void pn_gelu_mul_f32_avx512(const float *gate, const float *up, size_t n, float *out) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_mul_ps(gelu(_mm512_loadu_ps(gate + i)), _mm512_loadu_ps(up + i)));
    if (i < n) {
        __m512 g = pn_load_tail(gate + i, n - i), u = pn_load_tail(up + i, n - i);
        pn_store_tail(out + i, n - i, _mm512_mul_ps(gelu(g), u));
    }
}
