/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/coded_attention.h"
#include "kernels/isa.h"

#include <math.h>
#include <string.h>

/* out [n_row, n] += a [n_row, k] * b [k, n], for every element in order of k; b of half or float. */
static void add_product(const float *a, size_t a_stride, size_t n_row, const void *b, bool half, size_t k,
                        size_t n, float *out) {
    for (size_t i = 0; i < k; i++) {
        for (size_t c = 0; c < n; c++) {
            size_t at = i * n + c;
            float x = half ? pn_f16_to_f32(((const uint16_t *)b)[at]) : ((const float *)b)[at];
            for (size_t r = 0; r < n_row; r++)
                out[r * n + c] += a[r * a_stride + i] * x;
        }
    }
}

static void attn_scores(const float *q, size_t n_row, const void *keys, bool half, size_t dim,
                        float *scores) {
    memset(scores, 0, n_row * PN_ATTN_KEYS * sizeof *scores);
    add_product(q, dim, n_row, keys, half, dim, PN_ATTN_KEYS, scores);
}

void pn_attn_scores_f16_scalar(const float *q, size_t n_row, const uint16_t *keys, size_t dim, float *scores,
                               const void *ahead) {
    (void)ahead;
    attn_scores(q, n_row, keys, true, dim, scores);
}

void pn_attn_scores_f32_scalar(const float *q, size_t n_row, const float *keys, size_t dim, float *scores,
                               const void *ahead) {
    (void)ahead;
    attn_scores(q, n_row, keys, false, dim, scores);
}

void pn_attn_mix_f16_scalar(const float *p, size_t n_row, const uint16_t *values, size_t n_key, size_t dim,
                            float *acc, const void *ahead) {
    (void)ahead;
    add_product(p, PN_ATTN_KEYS, n_row, values, true, n_key, dim, acc);
}

void pn_attn_mix_f32_scalar(const float *p, size_t n_row, const float *values, size_t n_key, size_t dim,
                            float *acc, const void *ahead) {
    (void)ahead;
    add_product(p, PN_ATTN_KEYS, n_row, values, false, n_key, dim, acc);
}

static void multiply_codes(const pn_coded_product *p) {
    for (size_t i = 0; i < p->k; i++)
        for (size_t c = 0; c < p->n; c++) {
            const float x = (float)pn_kv_run_code(p->codes + i * p->row_bytes, p->n, p->bits, c);
            for (size_t r = 0; r < p->n_row; r++)
                p->out[r * p->out_stride + c] += p->a[r * PN_CODED_CHUNK + i] * x;
        }
}

PN_CODED_SLOTS(scalar)

void pn_attn_softmax_scalar(float *scores, size_t n_row, size_t begin, size_t end, float *max, float *sum,
                            float *shrink) {
    for (size_t r = 0; r < n_row; r++, scores += PN_ATTN_KEYS) {
        float m = scores[begin], s[8] = {0};
        for (size_t j = begin + 1; j < end; j++)
            m = scores[j] > m ? scores[j] : m;
        if (m <= max[r] + PN_ATTN_SLACK) m = max[r];
        for (size_t j = begin; j < end; j++) {
            scores[j] = exp2f(scores[j] - m);
            s[j % 8] += scores[j];
        }
        shrink[r] = exp2f(max[r] - m);
        sum[r] = sum[r] * shrink[r] + (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
        max[r] = m;
    }
}
