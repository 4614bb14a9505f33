/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

#include <math.h>
#include <string.h>

size_t pn_ops_scratch_floats(size_t max_col, size_t max_group) {
    size_t panel = PN_PANEL_ROWS * max_col,
           scores = max_group * (PN_KV_BLOCK + 2); /* with a maximum and a sum each */
    return panel > scores ? panel : scores;
}

/* Scores and running softmax state of the query heads that share one KV head. */
struct heads {
    const float *q; /* [n, dim] */
    float *out;     /* [n, dim], unnormalised until the end */
    size_t n, dim;
    float *scores;    /* [n, PN_KV_BLOCK] */
    float *max, *sum; /* [n] */
};

/* Makes room for a new maximum: everything summed so far shrinks by exp(old - new). */
static void raise_max(const pn_kernels *kernels, struct heads *heads, size_t h, float block_max) {
    if (block_max <= heads->max[h]) return;
    float shrink = heads->max[h];
    kernels->exp_sum_f32(&shrink, 1, block_max);
    kernels->scale_f32(heads->out + h * heads->dim, shrink, heads->dim);
    heads->sum[h] *= shrink;
    heads->max[h] = block_max;
}

static void add_block(const pn_kernels *kernels, const pn_attention_job *job, struct heads *heads,
                      int kv_head, size_t block, size_t begin, size_t end) {
    const pn_kv *kv = job->kv;
    bool half = kv->shape.type == PN_KV_F16;
    size_t n_key = end - begin, skip = (begin - block * PN_KV_BLOCK) * heads->dim * kv->element_bytes;
    const void *keys = (const char *)pn_kv_keys(kv, job->layer, kv_head, block) + skip;
    const void *values = (const char *)pn_kv_values(kv, job->layer, kv_head, block) + skip;
    if (half)
        kernels->attn_scores_f16(heads->q, heads->n, keys, n_key, heads->dim, job->scale, heads->scores,
                                 PN_KV_BLOCK);
    else
        kernels->attn_scores_f32(heads->q, heads->n, keys, n_key, heads->dim, job->scale, heads->scores,
                                 PN_KV_BLOCK);
    for (size_t h = 0; h < heads->n; h++) {
        float *scores = heads->scores + h * PN_KV_BLOCK;
        raise_max(kernels, heads, h, kernels->max_f32(scores, n_key));
        heads->sum[h] += kernels->exp_sum_f32(scores, n_key, heads->max[h]);
    }
    if (half)
        kernels->attn_mix_f16(heads->scores, PN_KV_BLOCK, heads->n, values, n_key, heads->dim, heads->out);
    else
        kernels->attn_mix_f32(heads->scores, PN_KV_BLOCK, heads->n, values, n_key, heads->dim, heads->out);
}

static void attend(const pn_kernels *kernels, const pn_attention_job *job, struct heads *heads, int kv_head,
                   size_t position) {
    memset(heads->out, 0, heads->n * heads->dim * sizeof *heads->out);
    for (size_t h = 0; h < heads->n; h++) {
        heads->max[h] = -INFINITY;
        heads->sum[h] = 0.0f;
    }
    size_t end = position + 1, begin = job->window && end > job->window ? end - job->window : 0;
    for (size_t block = begin / PN_KV_BLOCK; block * PN_KV_BLOCK < end; block++) {
        size_t from = block * PN_KV_BLOCK, to = from + PN_KV_BLOCK;
        add_block(kernels, job, heads, kv_head, block, from > begin ? from : begin, to < end ? to : end);
    }
    for (size_t h = 0; h < heads->n; h++)
        kernels->scale_f32(heads->out + h * heads->dim, 1.0f / heads->sum[h], heads->dim);
}

struct attention {
    const pn_ops *ops;
    const pn_attention_job *job;
};

/* Later tokens see more keys. Taking tokens alternately from the front and the back gives every contiguous
   share of the units about the same work. */
static size_t balanced_token(size_t unit, size_t n_tok) {
    return unit % 2 == 0 ? unit / 2 : n_tok - 1 - unit / 2;
}

/* Units are (token, query head); neighbours that share a KV head are done together, so that its keys are read
 * once. */
static void do_units(void *arg, size_t begin, size_t end, int worker) {
    const struct attention *a = arg;
    const pn_attention_job *job = a->job;
    size_t n_head = (size_t)job->n_head, dim = (size_t)job->kv->shape.head_dim;
    size_t group = n_head / (size_t)job->kv->shape.n_head_kv;
    float *scratch = a->ops->scratch + (size_t)worker * a->ops->scratch_stride;
    for (size_t unit = begin; unit < end;) {
        size_t token = balanced_token(unit / n_head, job->n_tok), head = unit % n_head;
        size_t n = group - head % group;
        if (n > end - unit) n = end - unit;
        size_t at = (token * n_head + head) * dim;
        struct heads heads = {.q = job->q + at,
                              .out = job->out + at,
                              .n = n,
                              .dim = dim,
                              .scores = scratch,
                              .max = scratch + group * PN_KV_BLOCK,
                              .sum = scratch + group * (PN_KV_BLOCK + 1)};
        attend(a->ops->kernels, job, &heads, (int)(head / group), job->position + token);
        unit += n;
    }
}

void pn_ops_attention(const pn_ops *ops, const pn_attention_job *job) {
    struct attention a = {.ops = ops, .job = job};
    pn_pool_run(ops->pool, do_units, &a, job->n_tok * (size_t)job->n_head, 1);
}
