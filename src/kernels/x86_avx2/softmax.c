/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

float pn_max_f32_avx2(const float *x, size_t n) {
    float max = x[0];
    size_t i = 0;
    if (n >= 8) {
        __m256 m = _mm256_loadu_ps(x);
        for (i = 8; i + 8 <= n; i += 8)
            m = _mm256_max_ps(_mm256_loadu_ps(x + i), m);
        float lanes[8];
        _mm256_storeu_ps(lanes, m);
        max = lanes[0];
        for (int j = 1; j < 8; j++)
            max = lanes[j] > max ? lanes[j] : max;
    }
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max + 0.0f; /* as scalar: a zero is +0 */
}

float pn_exp_sum_f32_avx2(float *x, size_t n, float shift) {
    const __m256 shift8 = _mm256_set1_ps(shift);
    __m256 sum = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 e = pn_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift8));
        _mm256_storeu_ps(x + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    if (i < n) {
        __m256 e = pn_exp(_mm256_sub_ps(pn_load_tail(x + i, n - i), shift8));
        e = _mm256_and_ps(e, _mm256_castsi256_ps(pn_tail_mask(n - i)));
        pn_store_tail(x + i, n - i, e);
        sum = _mm256_add_ps(sum, e);
    }
    return pn_sum_one(sum);
}
