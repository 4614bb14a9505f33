/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

#include <math.h>

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

/* ---- attention: eight rows at a time, so that one tree of shuffles finds eight maxima or sums ---- */

enum { ROWS = 8, VECTORS = PN_ATTN_KEYS / 8 };

/* 2^x for x <= PN_ATTN_SLACK by x = n + f, |f| <= 1/2: 2^f by a polynomial with relative error 3.0e-9
   (minimax, with 2^0 = 1), times 2^n made of its bits. Below 2^-126 the result is 0, without the trap into
   microcode that a denormal one costs; NaN stays NaN. */
PN_AVX2_INLINE __m256 exp2_of(__m256 x) {
    /* Added to x, leaves n + 127 in the lowest bits. */
    const __m256 rounder = _mm256_set1_ps(0x1.8p+23f + 127.0f);
    x = _mm256_max_ps(_mm256_set1_ps(-127.0f), x); /* the operands' order lets NaN through */
    __m256 n = _mm256_add_ps(x, rounder);
    __m256 f = _mm256_sub_ps(x, _mm256_sub_ps(n, rounder));
    __m256 p = _mm256_set1_ps(0x1.416b6p-13f);
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.5f082ep-10f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.3b2dep-7f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.c6af7cp-5f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.ebfbdcp-3f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.62e43p-1f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(n), 23)));
}

PN_AVX2_INLINE __m256 join(__m256 a, __m256 b, bool max) {
    return max ? _mm256_max_ps(a, b) : _mm256_add_ps(a, b);
}

/* In each half: v[0], v[1], v[2], v[3]. */
PN_AVX2_INLINE __m256 reduce_four(const __m256 *v, bool max) {
    __m256 a = join(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]), max);
    __m256 b = join(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]), max);
    return join(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee), max);
}

/* The maxima or sums of v[0] to v[7]. */
PN_AVX2_INLINE __m256 reduce(const __m256 v[ROWS], bool max) {
    __m256 a = reduce_four(v, max), b = reduce_four(v + 4, max);
    return join(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31), max);
}

/* Scores of vector i, -infinity for keys that are not visible; NULL: all are. */
PN_AVX2_INLINE __m256 load_scores(const float *scores, size_t i, const __m256 *visible) {
    __m256 v = _mm256_loadu_ps(scores + 8 * i);
    return visible ? _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, visible[i]) : v;
}

PN_AVX2_INLINE __m256 max_of_row(const float *scores, const __m256 *visible) {
    __m256 m = load_scores(scores, 0, visible);
    for (size_t i = 1; i < VECTORS; i++)
        m = _mm256_max_ps(m, load_scores(scores, i, visible));
    return m;
}

PN_AVX2_INLINE __m256 exp2_row(float *scores, const __m256 *visible, float max) {
    __m256 sum = _mm256_setzero_ps();
    for (size_t i = 0; i < VECTORS; i++) {
        __m256 e = exp2_of(_mm256_sub_ps(load_scores(scores, i, visible), _mm256_set1_ps(max)));
        sum = _mm256_add_ps(sum, e);
        if (visible) e = _mm256_blendv_ps(_mm256_loadu_ps(scores + 8 * i), e, visible[i]);
        _mm256_storeu_ps(scores + 8 * i, e);
    }
    return sum;
}

PN_AVX2_INLINE __m256 load_rows(const float *x, size_t n) {
    return n == ROWS ? _mm256_loadu_ps(x) : pn_load_tail(x, n);
}

PN_AVX2_INLINE void store_rows(float *x, size_t n, __m256 v) {
    if (n == ROWS)
        _mm256_storeu_ps(x, v);
    else
        pn_store_tail(x, n, v);
}

/* The first n <= ROWS rows. */
PN_AVX2_INLINE void softmax_rows(float *scores, size_t n, const __m256 *visible, float *max, float *sum,
                                 float *shrink) {
    __m256 v[ROWS];
    for (size_t r = 0; r < ROWS; r++)
        v[r] = r < n ? max_of_row(scores + r * PN_ATTN_KEYS, visible) : _mm256_setzero_ps();
    __m256 old = load_rows(max, n), m = reduce(v, true);
    __m256 enough = _mm256_add_ps(old, _mm256_set1_ps(PN_ATTN_SLACK));
    m = _mm256_blendv_ps(m, old, _mm256_cmp_ps(m, enough, _CMP_LE_OQ));
    __m256 factor = exp2_of(_mm256_sub_ps(old, m));
    store_rows(max, n, m);
    store_rows(shrink, n, factor);
    for (size_t r = 0; r < n; r++)
        v[r] = exp2_row(scores + r * PN_ATTN_KEYS, visible, max[r]);
    store_rows(sum, n, _mm256_fmadd_ps(load_rows(sum, n), factor, reduce(v, false)));
}

PN_AVX2_INLINE void softmax(float *scores, size_t n_row, const __m256 *visible, float *max, float *sum,
                            float *shrink) {
    size_t r = 0;
    for (; r + ROWS <= n_row; r += ROWS)
        softmax_rows(scores + r * PN_ATTN_KEYS, ROWS, visible, max + r, sum + r, shrink + r);
    if (r < n_row) softmax_rows(scores + r * PN_ATTN_KEYS, n_row - r, visible, max + r, sum + r, shrink + r);
}

void pn_attn_softmax_avx2(float *scores, size_t n_row, size_t begin, size_t end, float *max, float *sum,
                          float *shrink) {
    if (end - begin == PN_ATTN_KEYS) {
        softmax(scores, n_row, NULL, max, sum, shrink);
        return;
    }
    __m256 visible[VECTORS];
    for (size_t i = 0; i < VECTORS; i++) {
        int32_t lanes[8];
        for (size_t j = 0; j < 8; j++)
            lanes[j] = begin <= 8 * i + j && 8 * i + j < end ? -1 : 0;
        memcpy(&visible[i], lanes, sizeof lanes);
    }
    softmax(scores, n_row, visible, max, sum, shrink);
}
