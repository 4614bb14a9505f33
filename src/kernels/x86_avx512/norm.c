/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

#include <math.h>

PN_AVX512_INLINE float sum_of_squares(const float *x, size_t n) {
    __m512 sum = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        sum = _mm512_fmadd_ps(v, v, sum);
    }
    if (i < n) {
        __m512 v = pn_load_tail(x + i, n - i);
        sum = _mm512_fmadd_ps(v, v, sum);
    }
    return pn_sum_one(sum);
}

void pn_rms_norm_f32_avx512(const float *x, const float *weight, float eps, size_t n, float *out) {
    const __m512 factor = _mm512_set1_ps(1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps));
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + i), factor);
        _mm512_storeu_ps(out + i, _mm512_mul_ps(v, _mm512_loadu_ps(weight + i)));
    }
    if (i < n) {
        __m512 v = _mm512_mul_ps(pn_load_tail(x + i, n - i), factor);
        pn_store_tail(out + i, n - i, _mm512_mul_ps(v, pn_load_tail(weight + i, n - i)));
    }
}
