/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/scalar/dot.h"

void pn_attn_scores_f32_scalar(const float *q, size_t n_head, const float *keys, size_t n_key, size_t dim,
                               float scale, float *scores, size_t scores_stride) {
    for (size_t h = 0; h < n_head; h++) {
        for (size_t j = 0; j < n_key; j++)
            scores[h * scores_stride + j] = scale * pn_dot_scalar(q + h * dim, keys + j * dim, dim);
    }
}

void pn_attn_scores_f16_scalar(const float *q, size_t n_head, const uint16_t *keys, size_t n_key, size_t dim,
                               float scale, float *scores, size_t scores_stride) {
    for (size_t j = 0; j < n_key; j++) {
        const uint16_t *key = keys + j * dim;
        for (size_t h = 0; h < n_head; h++) {
            float s[8] = {0};
            for (size_t d = 0; d < dim; d++)
                s[d % 8] += q[h * dim + d] * pn_f16_to_f32(key[d]);
            scores[h * scores_stride + j] =
                scale * (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
        }
    }
}

void pn_attn_mix_f32_scalar(const float *p, size_t p_stride, size_t n_head, const float *values, size_t n_key,
                            size_t dim, float *acc) {
    for (size_t j = 0; j < n_key; j++) {
        for (size_t h = 0; h < n_head; h++) {
            for (size_t d = 0; d < dim; d++)
                acc[h * dim + d] += p[h * p_stride + j] * values[j * dim + d];
        }
    }
}

void pn_attn_mix_f16_scalar(const float *p, size_t p_stride, size_t n_head, const uint16_t *values,
                            size_t n_key, size_t dim, float *acc) {
    for (size_t j = 0; j < n_key; j++) {
        for (size_t d = 0; d < dim; d++) {
            float value = pn_f16_to_f32(values[j * dim + d]);
            for (size_t h = 0; h < n_head; h++)
                acc[h * dim + d] += p[h * p_stride + j] * value;
        }
    }
}
