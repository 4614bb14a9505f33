/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/dot_tile.h"

/* Three heads x four keys at a time. */
PN_AVX2_INLINE void scores_4x3(const float *q, const void *keys, bool half, size_t dim, __m128 scale,
                               float *scores, size_t scores_stride) {
    __m256 s[12];
    for (int i = 0; i < 12; i++)
        s[i] = _mm256_setzero_ps();
    pn_tile_4x3(keys, dim, half, q, dim, dim, s);
    _mm_storeu_ps(scores, _mm_mul_ps(pn_sum_four(s[0], s[3], s[6], s[9]), scale));
    _mm_storeu_ps(scores + scores_stride, _mm_mul_ps(pn_sum_four(s[1], s[4], s[7], s[10]), scale));
    _mm_storeu_ps(scores + 2 * scores_stride, _mm_mul_ps(pn_sum_four(s[2], s[5], s[8], s[11]), scale));
}

PN_AVX2_INLINE void scores_8x1(const float *q, const void *keys, bool half, size_t dim, __m128 scale,
                               float *scores) {
    __m128 s[2];
    pn_tile_rows(keys, 8, dim, half, q, dim, s);
    _mm_storeu_ps(scores, _mm_mul_ps(s[0], scale));
    _mm_storeu_ps(scores + 4, _mm_mul_ps(s[1], scale));
}

PN_AVX2_INLINE void attn_scores(const float *q, size_t n_head, const void *keys, bool half, size_t n_key,
                                size_t dim, float scale, float *scores, size_t scores_stride) {
    const size_t key_bytes = dim * (half ? sizeof(uint16_t) : sizeof(float));
    const __m128 scale4 = _mm_set1_ps(scale);
    size_t j = 0;
    for (; j + 8 <= n_key; j += 8) {
        const char *key = (const char *)keys + j * key_bytes;
        size_t h = 0;
        for (; h + 3 <= n_head; h += 3) {
            float *s = scores + h * scores_stride + j;
            scores_4x3(q + h * dim, key, half, dim, scale4, s, scores_stride);
            scores_4x3(q + h * dim, key + 4 * key_bytes, half, dim, scale4, s + 4, scores_stride);
        }
        for (; h < n_head; h++)
            scores_8x1(q + h * dim, key, half, dim, scale4, scores + h * scores_stride + j);
    }
    for (; j < n_key; j++) {
        const char *key = (const char *)keys + j * key_bytes;
        for (size_t h = 0; h < n_head; h++)
            scores[h * scores_stride + j] = pn_tile_1x1(key, half, q + h * dim, dim) * scale;
    }
}

void pn_attn_scores_f16_avx2(const float *q, size_t n_head, const uint16_t *keys, size_t n_key, size_t dim,
                             float scale, float *scores, size_t scores_stride) {
    attn_scores(q, n_head, keys, true, n_key, dim, scale, scores, scores_stride);
}

void pn_attn_scores_f32_avx2(const float *q, size_t n_head, const float *keys, size_t n_key, size_t dim,
                             float scale, float *scores, size_t scores_stride) {
    attn_scores(q, n_head, keys, false, n_key, dim, scale, scores, scores_stride);
}

/* One strip of the mix: n_head heads x n_vec vectors of eight elements (both constants), all keys. Each
   element takes its products one after the other in order of the keys, as in scalar, so strips of any shape
   agree. */
PN_AVX2_INLINE void mix_strip(const float *p, size_t p_stride, size_t n_head, const void *values, bool half,
                              size_t n_key, size_t dim, size_t n_vec, float *acc) {
    __m256 s[12];
    for (size_t h = 0; h < n_head; h++) {
        for (size_t v = 0; v < n_vec; v++)
            s[h * n_vec + v] = _mm256_loadu_ps(acc + h * dim + 8 * v);
    }
    for (size_t j = 0; j < n_key; j++) {
        __m256 weight[4];
        for (size_t h = 0; h < n_head; h++)
            weight[h] = _mm256_broadcast_ss(p + h * p_stride + j);
        for (size_t v = 0; v < n_vec; v++) {
            __m256 value = pn_row_load(values, dim, half, j, 8 * v);
            for (size_t h = 0; h < n_head; h++)
                s[h * n_vec + v] = _mm256_fmadd_ps(weight[h], value, s[h * n_vec + v]);
        }
    }
    for (size_t h = 0; h < n_head; h++) {
        for (size_t v = 0; v < n_vec; v++)
            _mm256_storeu_ps(acc + h * dim + 8 * v, s[h * n_vec + v]);
    }
}

/* The last n < 8 elements of one head. */
PN_AVX2_INLINE void mix_tail(const float *p, const void *values, bool half, size_t n_key, size_t dim,
                             size_t n, float *acc) {
    __m256 s = pn_load_tail(acc, n);
    for (size_t j = 0; j < n_key; j++)
        s = _mm256_fmadd_ps(_mm256_broadcast_ss(p + j), pn_row_load_tail(values, dim, half, j, 0, n), s);
    pn_store_tail(acc, n, s);
}

/* n_head heads (a constant): strips of n_vec vectors, then single vectors, then the tail. */
PN_AVX2_INLINE void mix_heads(const float *p, size_t p_stride, size_t n_head, const void *values, bool half,
                              size_t n_key, size_t dim, size_t n_vec, float *acc) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    const char *base = values;
    size_t d = 0;
    for (; d + 8 * n_vec <= dim; d += 8 * n_vec)
        mix_strip(p, p_stride, n_head, base + d * size, half, n_key, dim, n_vec, acc + d);
    for (; d + 8 <= dim; d += 8)
        mix_strip(p, p_stride, n_head, base + d * size, half, n_key, dim, 1, acc + d);
    for (size_t h = 0; d < dim && h < n_head; h++)
        mix_tail(p + h * p_stride, base + d * size, half, n_key, dim, dim - d, acc + h * dim + d);
}

PN_AVX2_INLINE void attn_mix(const float *p, size_t p_stride, size_t n_head, const void *values, bool half,
                             size_t n_key, size_t dim, float *acc) {
    enum { KEYS = 64 }; /* so that the values stay in L1 while the strips pass over them */
    for (size_t j = 0; j < n_key; j += KEYS) {
        size_t n = n_key - j < KEYS ? n_key - j : KEYS, h = 0;
        const char *v = (const char *)values + j * dim * (half ? sizeof(uint16_t) : sizeof(float));
        for (; h + 3 <= n_head; h += 3)
            mix_heads(p + h * p_stride + j, p_stride, 3, v, half, n, dim, 4, acc + h * dim);
        if (h + 2 == n_head) mix_heads(p + h * p_stride + j, p_stride, 2, v, half, n, dim, 4, acc + h * dim);
        if (h + 1 == n_head) mix_heads(p + h * p_stride + j, p_stride, 1, v, half, n, dim, 8, acc + h * dim);
    }
}

void pn_attn_mix_f16_avx2(const float *p, size_t p_stride, size_t n_head, const uint16_t *values,
                          size_t n_key, size_t dim, float *acc) {
    attn_mix(p, p_stride, n_head, values, true, n_key, dim, acc);
}

void pn_attn_mix_f32_avx2(const float *p, size_t p_stride, size_t n_head, const float *values, size_t n_key,
                          size_t dim, float *acc) {
    attn_mix(p, p_stride, n_head, values, false, n_key, dim, acc);
}
