/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

#include <math.h>

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

/* ---- attention: eight rows at a time, so that one tree of shuffles finds eight maxima or sums ---- */

enum { ROWS = 8, VECTORS = PN_ATTN_KEYS / 16 };

/* 2^x for x <= PN_ATTN_SLACK by x = n + f, |f| <= 1/2: 2^f by a polynomial with relative error 3.0e-9
   (minimax, with 2^0 = 1), times 2^n made of its bits. Below 2^-126 the result is 0, without the trap into
   microcode that a denormal one costs; NaN stays NaN. */
PN_AVX512_INLINE __m512 exp2_of(__m512 x) {
    /* Added to x, leaves n + 127 in the lowest bits. */
    const __m512 rounder = _mm512_set1_ps(0x1.8p+23f + 127.0f);
    x = _mm512_max_ps(_mm512_set1_ps(-127.0f), x); /* the operands' order lets NaN through */
    __m512 n = _mm512_add_ps(x, rounder);
    __m512 f = _mm512_sub_ps(x, _mm512_sub_ps(n, rounder));
    __m512 p = _mm512_set1_ps(0x1.416b6p-13f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.5f082ep-10f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3b2dep-7f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c6af7cp-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebfbdcp-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e43p-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

PN_AVX512_INLINE __m512 join(__m512 a, __m512 b, bool max) {
    return max ? _mm512_max_ps(a, b) : _mm512_add_ps(a, b);
}

/* Two vectors whose halves become one: those of a, then those of b. Blending one operand spares a shuffle:
   only one port shuffles. */
PN_AVX512_INLINE __m512 fold_halves(__m512 a, __m512 b, bool max) {
    return join(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e), max);
}
/* The same with quarters in each half. */
PN_AVX512_INLINE __m512 fold_quarters(__m512 a, __m512 b, bool max) {
    const __m512i others = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    return join(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, others, b), max);
}
PN_AVX512_INLINE __m512 fold_pairs(__m512 a, __m512 b, bool max) {
    return join(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e), max);
}

/* The maxima or sums of v[0] to v[7]. */
PN_AVX512_INLINE __m256 reduce(const __m512 v[ROWS], bool max) {
    /* Where the folding left each: 0 4 2 6 1 5 3 7, on even lanes. */
    const __m512i order = _mm512_setr_epi32(0, 8, 4, 12, 2, 10, 6, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 first = fold_quarters(fold_halves(v[0], v[1], max), fold_halves(v[2], v[3], max), max);
    __m512 second = fold_quarters(fold_halves(v[4], v[5], max), fold_halves(v[6], v[7], max), max);
    __m512 s = fold_pairs(first, second, max);
    s = join(s, _mm512_permute_ps(s, 0xb1), max);
    return _mm512_castps512_ps256(_mm512_permutexvar_ps(order, s));
}

PN_AVX512_INLINE void load_scores(const float *scores, const __mmask16 *visible, __m512 v[VECTORS]) {
    for (size_t i = 0; i < VECTORS; i++)
        v[i] = _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), visible[i], scores + 16 * i);
}

PN_AVX512_INLINE __m512 max_of_row(const float *scores, const __mmask16 *visible) {
    __m512 v[VECTORS];
    load_scores(scores, visible, v);
    return _mm512_max_ps(_mm512_max_ps(v[0], v[1]), _mm512_max_ps(v[2], v[3]));
}

PN_AVX512_INLINE __m512 exp2_row(float *scores, const __mmask16 *visible, float max) {
    __m512 v[VECTORS];
    load_scores(scores, visible, v);
    for (size_t i = 0; i < VECTORS; i++) {
        v[i] = exp2_of(_mm512_sub_ps(v[i], _mm512_set1_ps(max)));
        _mm512_mask_storeu_ps(scores + 16 * i, visible[i], v[i]);
    }
    return _mm512_add_ps(_mm512_add_ps(v[0], v[1]), _mm512_add_ps(v[2], v[3]));
}

/* The first n <= ROWS rows. */
PN_AVX512_INLINE void softmax_rows(float *scores, size_t n, const __mmask16 *visible, float *max, float *sum,
                                   float *shrink) {
    const __mmask8 rows = (__mmask8)((1u << n) - 1u);
    __m512 v[ROWS];
    for (size_t r = 0; r < ROWS; r++)
        v[r] = r < n ? max_of_row(scores + r * PN_ATTN_KEYS, visible) : _mm512_setzero_ps();
    __m256 old = _mm256_maskz_loadu_ps(rows, max), m = reduce(v, true);
    __m256 enough = _mm256_add_ps(old, _mm256_set1_ps(PN_ATTN_SLACK));
    m = _mm256_blendv_ps(m, old, _mm256_cmp_ps(m, enough, _CMP_LE_OQ));
    __m256 factor = _mm512_castps512_ps256(exp2_of(_mm512_zextps256_ps512(_mm256_sub_ps(old, m))));
    _mm256_mask_storeu_ps(max, rows, m);
    _mm256_mask_storeu_ps(shrink, rows, factor);
    for (size_t r = 0; r < n; r++)
        v[r] = exp2_row(scores + r * PN_ATTN_KEYS, visible, max[r]);
    __m256 s = _mm256_maskz_loadu_ps(rows, sum);
    _mm256_mask_storeu_ps(sum, rows, _mm256_fmadd_ps(s, factor, reduce(v, false)));
}

void pn_attn_softmax_avx512(float *scores, size_t n_row, size_t begin, size_t end, float *max, float *sum,
                            float *shrink) {
    uint64_t keys = (~UINT64_C(0) << begin) & (~UINT64_C(0) >> (PN_ATTN_KEYS - end));
    __mmask16 visible[VECTORS];
    for (size_t i = 0; i < VECTORS; i++)
        visible[i] = (__mmask16)(keys >> (16 * i));
    size_t r = 0;
    for (; r + ROWS <= n_row; r += ROWS)
        softmax_rows(scores + r * PN_ATTN_KEYS, ROWS, visible, max + r, sum + r, shrink + r);
    if (r < n_row) softmax_rows(scores + r * PN_ATTN_KEYS, n_row - r, visible, max + r, sum + r, shrink + r);
}
