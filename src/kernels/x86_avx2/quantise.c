/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

#include <math.h>

/* Greatest magnitude; NaN when a number is not finite. */
static float greatest_of(const float *x) {
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX));
    const __m256 infinity = _mm256_set1_ps(INFINITY);
    __m256 greatest = _mm256_setzero_ps(), finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    for (size_t i = 0; i < PN_STEP; i += 8) {
        __m256 a = _mm256_and_ps(_mm256_loadu_ps(x + i), magnitude);
        greatest = _mm256_max_ps(greatest, a);
        finite = _mm256_and_ps(finite, _mm256_cmp_ps(a, infinity, _CMP_LT_OQ));
    }
    if (_mm256_movemask_ps(finite) != 0xff) return NAN;
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(greatest), _mm256_extractf128_ps(greatest, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static int32_t sum_of(__m256i q) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(s) + _mm_extract_epi32(s, 1);
}

/* Bytes 0 to 31 in order, from 16-bit integers of elements 0-3 8-11 4-7 12-15 and 16-19 24-27 20-23 28-31. */
static void store_bytes(int8_t *dst, __m256i first, __m256i second) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order);
    _mm256_storeu_si256((__m256i *)dst, bytes);
}

static void quantise_step(const float *x, const pn_inputs *inputs, size_t at, int8_t *low, int8_t *high) {
    const float limit = inputs->n_plane == 2 ? 32639.0f : 127.0f, greatest = greatest_of(x);
    const bool finite = !isnan(greatest), zero = !finite || greatest < 1e-30f;
    const float scale = !finite ? NAN
                        : zero  ? 0.0f
                                : greatest / limit,
                inverse = zero ? 0.0f : limit / greatest;
    __m256i q[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};
    for (size_t i = 0; i < 4 && !zero; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inverse)));
    __m256i q01 = _mm256_packs_epi32(q[0], q[1]), q23 = _mm256_packs_epi32(q[2], q[3]);
    __m256i low01 = _mm256_srai_epi16(_mm256_slli_epi16(q01, 8), 8);
    __m256i low23 = _mm256_srai_epi16(_mm256_slli_epi16(q23, 8), 8);
    store_bytes(low, low01, low23);
    if (inputs->n_plane == 2)
        store_bytes(high, _mm256_srai_epi16(_mm256_sub_epi16(q01, low01), 8),
                    _mm256_srai_epi16(_mm256_sub_epi16(q23, low23), 8));
    const int32_t sum0 = sum_of(_mm256_add_epi32(q[0], q[1])), sum1 = sum_of(_mm256_add_epi32(q[2], q[3]));
    inputs->scale[at] = scale;
    inputs->sum[at] = scale * (float)(sum0 + sum1);
    inputs->bias[at] = -128 * (sum0 + sum1);
    inputs->half[2 * at] = -128 * sum0;
    inputs->half[2 * at + 1] = -128 * sum1;
}

void pn_quantise_avx2(const float *x, size_t first, size_t n_tok, const pn_inputs *inputs) {
    const size_t n_step = inputs->n_step, row = n_step * PN_STEP;
    for (size_t t = 0; t < n_tok; t++) {
        int8_t *codes = inputs->codes + (first + t) * (size_t)inputs->n_plane * row;
        for (size_t s = 0; s < n_step; s++)
            quantise_step(x + t * row + s * PN_STEP, inputs, (first + t) * n_step + s, codes + s * PN_STEP,
                          codes + row + s * PN_STEP);
    }
}
