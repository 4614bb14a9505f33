/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/dot_tile.h"

PN_AVX512_INLINE void scores_tile(const float *q, size_t n_head, const void *keys, size_t n_key, bool half,
                                  size_t dim, __m512 s[PN_TILE_MAX]) {
    for (size_t h = 0; h < n_head; h++) {
        for (size_t j = 0; j < n_key; j++)
            s[h * n_key + j] = _mm512_setzero_ps();
    }
    pn_tile(keys, n_key, dim, half, q, n_head, dim, dim, s);
}

/* n_head heads (a constant up to 3) x eight keys. */
PN_AVX512_INLINE void scores_eight_keys(const float *q, size_t n_head, const void *keys, bool half,
                                        size_t dim, __m256 scale, float *scores, size_t scores_stride) {
    __m512 s[PN_TILE_MAX];
    scores_tile(q, n_head, keys, 8, half, dim, s);
    for (size_t h = 0; h < n_head; h++)
        _mm256_storeu_ps(scores + h * scores_stride, _mm256_mul_ps(pn_sum_eight(s + 8 * h), scale));
}

/* Four heads x four keys. */
PN_AVX512_INLINE void scores_4x4(const float *q, const void *keys, bool half, size_t dim, __m256 scale,
                                 float *scores, size_t scores_stride) {
    __m512 s[PN_TILE_MAX];
    scores_tile(q, 4, keys, 4, half, dim, s);
    for (size_t h = 0; h < 4; h += 2) {
        __m256 two = _mm256_mul_ps(pn_sum_eight(s + 4 * h), scale);
        _mm_storeu_ps(scores + h * scores_stride, _mm256_castps256_ps128(two));
        _mm_storeu_ps(scores + (h + 1) * scores_stride, _mm256_extractf128_ps(two, 1));
    }
}

PN_AVX512_INLINE void attn_scores(const float *q, size_t n_head, const void *keys, bool half, size_t n_key,
                                  size_t dim, float scale, float *scores, size_t scores_stride) {
    const size_t key_bytes = dim * (half ? sizeof(uint16_t) : sizeof(float));
    const __m256 scale8 = _mm256_set1_ps(scale);
    size_t j = 0;
    for (; j + 8 <= n_key; j += 8) {
        const char *key = (const char *)keys + j * key_bytes;
        float *s = scores + j;
        size_t h = 0;
        for (; h + 4 <= n_head; h += 4) {
            float *s4 = s + h * scores_stride;
            scores_4x4(q + h * dim, key, half, dim, scale8, s4, scores_stride);
            scores_4x4(q + h * dim, key + 4 * key_bytes, half, dim, scale8, s4 + 4, scores_stride);
        }
        q += h * dim;
        s += h * scores_stride;
        if (n_head - h == 3) scores_eight_keys(q, 3, key, half, dim, scale8, s, scores_stride);
        if (n_head - h == 2) scores_eight_keys(q, 2, key, half, dim, scale8, s, scores_stride);
        if (n_head - h == 1) scores_eight_keys(q, 1, key, half, dim, scale8, s, scores_stride);
        q -= h * dim;
    }
    for (; j < n_key; j++) {
        const char *key = (const char *)keys + j * key_bytes;
        for (size_t h = 0; h < n_head; h++)
            scores[h * scores_stride + j] = pn_tile_1x1(key, half, q + h * dim, dim) * scale;
    }
}

void pn_attn_scores_f16_avx512(const float *q, size_t n_head, const uint16_t *keys, size_t n_key, size_t dim,
                               float scale, float *scores, size_t scores_stride) {
    attn_scores(q, n_head, keys, true, n_key, dim, scale, scores, scores_stride);
}

void pn_attn_scores_f32_avx512(const float *q, size_t n_head, const float *keys, size_t n_key, size_t dim,
                               float scale, float *scores, size_t scores_stride) {
    attn_scores(q, n_head, keys, false, n_key, dim, scale, scores, scores_stride);
}

/* One strip of the mix: n_head heads x n_vec vectors of sixteen elements (both constants up to 4), all keys.
   Each element takes its products one after the other in order of the keys, as in scalar, so strips of any
   shape agree. */
PN_AVX512_INLINE void mix_strip(const float *p, size_t p_stride, size_t n_head, const void *values, bool half,
                                size_t n_key, size_t dim, size_t n_vec, float *acc) {
    __m512 s[16];
    for (size_t h = 0; h < n_head; h++) {
        for (size_t v = 0; v < n_vec; v++)
            s[h * n_vec + v] = _mm512_loadu_ps(acc + h * dim + 16 * v);
    }
    for (size_t j = 0; j < n_key; j++) {
        __m512 weight[4];
        for (size_t h = 0; h < n_head; h++)
            weight[h] = _mm512_set1_ps(p[h * p_stride + j]);
        for (size_t v = 0; v < n_vec; v++) {
            __m512 value = pn_row_load(values, dim, half, j, 16 * v);
            for (size_t h = 0; h < n_head; h++)
                s[h * n_vec + v] = _mm512_fmadd_ps(weight[h], value, s[h * n_vec + v]);
        }
    }
    for (size_t h = 0; h < n_head; h++) {
        for (size_t v = 0; v < n_vec; v++)
            _mm512_storeu_ps(acc + h * dim + 16 * v, s[h * n_vec + v]);
    }
}

/* The last n < 16 elements of one head. */
PN_AVX512_INLINE void mix_tail(const float *p, const void *values, bool half, size_t n_key, size_t dim,
                               size_t n, float *acc) {
    __m512 s = pn_load_tail(acc, n);
    for (size_t j = 0; j < n_key; j++)
        s = _mm512_fmadd_ps(_mm512_set1_ps(p[j]), pn_row_load_tail(values, dim, half, j, 0, n), s);
    pn_store_tail(acc, n, s);
}

/* n_head heads (a constant): strips of four vectors, then single vectors, then the tail. */
PN_AVX512_INLINE void mix_heads(const float *p, size_t p_stride, size_t n_head, const void *values, bool half,
                                size_t n_key, size_t dim, float *acc) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    const char *base = values;
    size_t d = 0;
    for (; d + 64 <= dim; d += 64)
        mix_strip(p, p_stride, n_head, base + d * size, half, n_key, dim, 4, acc + d);
    for (; d + 16 <= dim; d += 16)
        mix_strip(p, p_stride, n_head, base + d * size, half, n_key, dim, 1, acc + d);
    for (size_t h = 0; d < dim && h < n_head; h++)
        mix_tail(p + h * p_stride, base + d * size, half, n_key, dim, dim - d, acc + h * dim + d);
}

PN_AVX512_INLINE void attn_mix(const float *p, size_t p_stride, size_t n_head, const void *values, bool half,
                               size_t n_key, size_t dim, float *acc) {
    enum { KEYS = 64 }; /* so that the values stay in L1 while the strips pass over them */
    for (size_t j = 0; j < n_key; j += KEYS) {
        size_t n = n_key - j < KEYS ? n_key - j : KEYS, h = 0;
        const char *v = (const char *)values + j * dim * (half ? sizeof(uint16_t) : sizeof(float));
        for (; h + 4 <= n_head; h += 4)
            mix_heads(p + h * p_stride + j, p_stride, 4, v, half, n, dim, acc + h * dim);
        if (h + 3 == n_head) mix_heads(p + h * p_stride + j, p_stride, 3, v, half, n, dim, acc + h * dim);
        if (h + 2 == n_head) mix_heads(p + h * p_stride + j, p_stride, 2, v, half, n, dim, acc + h * dim);
        if (h + 1 == n_head) mix_heads(p + h * p_stride + j, p_stride, 1, v, half, n, dim, acc + h * dim);
    }
}

void pn_attn_mix_f16_avx512(const float *p, size_t p_stride, size_t n_head, const uint16_t *values,
                            size_t n_key, size_t dim, float *acc) {
    attn_mix(p, p_stride, n_head, values, true, n_key, dim, acc);
}

void pn_attn_mix_f32_avx512(const float *p, size_t p_stride, size_t n_head, const float *values, size_t n_key,
                            size_t dim, float *acc) {
    attn_mix(p, p_stride, n_head, values, false, n_key, dim, acc);
}
