/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

#include <math.h>

PN_AVX2_INLINE float sum_of_squares(const float *x, size_t n) {
    __m256 sum = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        sum = _mm256_fmadd_ps(v, v, sum);
    }
    if (i < n) {
        __m256 v = pn_load_tail(x + i, n - i);
        sum = _mm256_fmadd_ps(v, v, sum);
    }
    return pn_sum_one(sum);
}

void pn_rms_norm_f32_avx2(const float *x, const float *weight, float eps, size_t n, float *out) {
    const float factor = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    const __m256 factor8 = _mm256_set1_ps(factor);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor8);
        _mm256_storeu_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
    }
    for (; i < n; i++)
        out[i] = x[i] * factor * weight[i];
}
