/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that treat every token by itself. */
#include "ops/ops.h"

/* With fewer tokens, or heads of them, it would cost more to hand them over than to do them. */
#define GRAIN 4

static void for_tokens(const pn_ops *ops, pn_pool_fn fn, void *arg, size_t n_tok) {
    pn_ops_run(ops, fn, arg, n_tok, GRAIN);
}

struct rows {
    const pn_kernels *kernels;
    const float *x, *y;
    float *out;
    size_t n;
    float eps;
};

static void norm_rows(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct rows *r = arg;
    for (size_t t = begin; t < end; t++)
        r->kernels->rms_norm_f32(r->x + t * r->n, r->y, r->eps, r->n, r->out + t * r->n);
}

void pn_ops_rms_norm(const pn_ops *ops, const float *x, const float *weight, float eps, size_t n,
                     size_t n_tok, float *out) {
    struct rows r = {.kernels = ops->kernels, .x = x, .y = weight, .out = out, .n = n, .eps = eps};
    for_tokens(ops, norm_rows, &r, n_tok);
}

static void add_rows(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct rows *r = arg;
    r->kernels->add_f32(r->out + begin * r->n, r->y + begin * r->n, (end - begin) * r->n);
}

void pn_ops_add(const pn_ops *ops, float *x, const float *y, size_t n, size_t n_tok) {
    struct rows r = {.kernels = ops->kernels, .y = y, .out = x, .n = n};
    for_tokens(ops, add_rows, &r, n_tok);
}

struct rope {
    const pn_kernels *kernels;
    const pn_rope_job *job;
};

static void rotate_heads(const struct rope *r, float *x, size_t n_head, const float *norm,
                         const float *cos_sin) {
    const pn_rope_job *job = r->job;
    size_t dim = (size_t)job->kv->store->shape.head_dim, rope_dim = (size_t)job->rope_dim;
    for (size_t h = 0; h < n_head; h++, x += dim) {
        if (norm) r->kernels->rms_norm_f32(x, norm, job->norm_eps, dim, x);
        if (job->halves)
            r->kernels->rope_halves_f32(x, cos_sin, rope_dim);
        else
            r->kernels->rope_pairs_f32(x, cos_sin, rope_dim);
    }
}

/* A unit is a KV head of one token, with the query heads that share it. */
static void rope_units(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct rope *r = arg;
    const pn_rope_job *job = r->job;
    const size_t n_head = (size_t)job->n_head, n_head_kv = (size_t)job->kv->store->shape.n_head_kv;
    const size_t dim = (size_t)job->kv->store->shape.head_dim, group = n_head / n_head_kv;
    for (size_t unit = begin; unit < end && job->n_tok <= PN_FEW_TOKENS;
         unit++) /* more fill lines together */
        pn_kv_expect_write(job->kv, job->layer, (int)(unit % n_head_kv), job->position + unit / n_head_kv);
    for (size_t unit = begin; unit < end; unit++) {
        const size_t t = unit / n_head_kv, head = unit % n_head_kv;
        const float *cos_sin = job->cos_sin + t * (size_t)job->rope_dim;
        float *k = job->k + unit * dim;
        rotate_heads(r, job->q + (t * n_head + head * group) * dim, group, job->q_norm, cos_sin);
        rotate_heads(r, k, 1, job->k_norm, cos_sin);
        pn_kv_write(job->kv, r->kernels, job->layer, (int)head, job->position + t, k, job->v + unit * dim);
    }
}

void pn_ops_rope_and_store(const pn_ops *ops, const pn_rope_job *job) {
    struct rope r = {.kernels = ops->kernels, .job = job};
    pn_ops_run(ops, rope_units, &r, job->n_tok * (size_t)job->kv->store->shape.n_head_kv, GRAIN);
}

struct packing {
    const pn_kernels *kernels;
    const pn_kv *kv;
    int layer;
};

/* A unit is one head of one block. */
static void pack_units(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct packing *p = arg;
    const size_t n_head = (size_t)p->kv->store->shape.n_head_kv;
    for (size_t unit = begin; unit < end; unit++)
        pn_kv_pack(p->kv, p->kernels, p->layer, (int)(unit % n_head), unit / n_head);
}

void pn_ops_pack_kv(const pn_ops *ops, const pn_kv *kv, int layer, size_t n_tok) {
    struct packing p = {ops->kernels, kv, layer};
    const size_t n = pn_kv_n_filled(kv, n_tok);
    if (n > 0) pn_ops_run(ops, pack_units, &p, n * (size_t)kv->store->shape.n_head_kv, 1);
}
