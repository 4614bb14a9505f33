/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

float pn_exp_sum_f32_avx512(float *x, size_t n, float shift) {
    const __m512 shift16 = _mm512_set1_ps(shift);
    __m512 sum = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 e = pn_exp(_mm512_sub_ps(_mm512_loadu_ps(x + i), shift16));
        _mm512_storeu_ps(x + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    if (i < n) {
        __m512 e = pn_exp(_mm512_sub_ps(pn_load_tail(x + i, n - i), shift16));
        pn_store_tail(x + i, n - i, e);
        sum = _mm512_mask_add_ps(sum, pn_tail_mask(n - i), sum, e);
    }
    return pn_sum_one(sum);
}
