/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a token inside the model: embedding, layers of attention and gated feed-forward over a residual
   stream, final norm, output head. */
#include "model/decoder.h"

#include <math.h>

/* One batch on its way through. */
struct pass {
    const pn_forward *f;
    const pn_hparams *h;
    pn_scratch *s;
    pn_ops ops;
    size_t n_tok, position;
};

static void observe(const struct pass *p, int layer) {
    const pn_observer *observer = p->f->observer;
    if (observer) observer->fn(observer->user, layer, p->s->x, p->n_tok, (size_t)p->h->n_embd);
}

static void embed(const struct pass *p, const int32_t *tokens) {
    const pn_weight *table = &p->f->decoder->embedding;
    void (*decode)(const void *, float *, size_t) = pn_kernels_decoder(p->f->kernels, table->type);
    for (size_t t = 0; t < p->n_tok; t++) {
        float *x = p->s->x + t * table->n_col;
        decode(table->data + (size_t)tokens[t] * table->row_bytes, x, table->n_col);
        if (p->h->embedding_scale != 1.0f) p->f->kernels->scale_f32(x, p->h->embedding_scale, table->n_col);
    }
}

/* (cos, sin) of every position of the batch and pair, for one kind of layer. */
static float *cos_sin_of(const struct pass *p, pn_layer_kind kind) {
    return p->s->cos_sin + (size_t)kind * p->s->n_chunk * (size_t)p->h->rope_dim;
}

static void rotate(const struct pass *p) {
    size_t n = (size_t)p->h->rope_dim / 2;
    for (int kind = 0; kind < PN_LAYER_KIND_COUNT; kind++) {
        if (kind == PN_LAYER_LOCAL && p->h->window == 0) continue;
        const float *frequencies = p->f->decoder->rope_frequencies + (size_t)kind * n;
        float *out = cos_sin_of(p, (pn_layer_kind)kind);
        for (size_t t = 0; t < p->n_tok; t++)
            for (size_t i = 0; i < n; i++) {
                float angle = (float)(p->position + t) * frequencies[i];
                *out++ = cosf(angle);
                *out++ = sinf(angle);
            }
    }
}

static void matmul(const struct pass *p, const pn_weight *weight, const float *bias, const float *x,
                   float *out) {
    pn_matmul_job job = {weight, bias, out};
    pn_ops_matmul(&p->ops, &job, 1, x, p->n_tok);
}

static void norm(const struct pass *p, const float *weight, const float *x, float *out) {
    pn_ops_rms_norm(&p->ops, x, weight, p->h->norm_eps, (size_t)p->h->n_embd, p->n_tok, out);
}

/* x += post_norm(part), the norm only where the model has one. */
static void add_part(const struct pass *p, const float *post_norm, float *part) {
    if (post_norm) norm(p, post_norm, part, part);
    pn_ops_add(&p->ops, p->s->x, part, (size_t)p->h->n_embd, p->n_tok);
}

static void attention_part(const struct pass *p, const pn_layer *l, int layer) {
    const pn_hparams *h = p->h;
    pn_scratch *s = p->s;
    norm(p, l->attn_norm, s->x, s->normed);
    pn_matmul_job qkv[] = {{&l->q, l->q_bias, s->q}, {&l->k, l->k_bias, s->k}, {&l->v, l->v_bias, s->v}};
    pn_ops_matmul(&p->ops, qkv, 3, s->normed, p->n_tok);
    pn_rope_job rope = {.q = s->q,
                        .k = s->k,
                        .v = s->v,
                        .q_norm = l->q_norm,
                        .k_norm = l->k_norm,
                        .norm_eps = h->norm_eps,
                        .cos_sin = cos_sin_of(p, l->kind),
                        .rope_dim = h->rope_dim,
                        .halves = h->rope_halves,
                        .n_head = h->n_head,
                        .layer = layer,
                        .position = p->position,
                        .n_tok = p->n_tok,
                        .kv = p->f->kv};
    pn_ops_rope_and_store(&p->ops, &rope);
    pn_attention_job attention = {.q = s->q,
                                  .out = s->attended,
                                  .n_head = h->n_head,
                                  .layer = layer,
                                  .position = p->position,
                                  .n_tok = p->n_tok,
                                  .window = l->kind == PN_LAYER_LOCAL ? (size_t)h->window : 0,
                                  .scale = h->attention_scale,
                                  .kv = p->f->kv};
    pn_ops_attention(&p->ops, &attention);
    matmul(p, &l->out, l->out_bias, s->attended, s->normed);
    add_part(p, l->attn_post_norm, s->normed);
}

static void feed_forward_part(const struct pass *p, const pn_layer *l) {
    pn_scratch *s = p->s;
    norm(p, l->ffn_norm, s->x, s->normed);
    pn_matmul_job gate_up[] = {{&l->gate, NULL, s->gate}, {&l->up, NULL, s->up}};
    pn_ops_matmul(&p->ops, gate_up, 2, s->normed, p->n_tok);
    pn_ops_gated_unit(&p->ops, p->h->activation, s->gate, s->up, (size_t)p->h->n_ff, p->n_tok);
    matmul(p, &l->down, NULL, s->gate, s->normed);
    add_part(p, l->ffn_post_norm, s->normed);
}

/* Only the last token's logits are wanted: a prompt's other tokens never meet the head. */
static void head(const struct pass *p, float *logits) {
    const pn_decoder *d = p->f->decoder;
    size_t n = (size_t)p->h->n_embd;
    const float *last = p->s->x + (p->n_tok - 1) * n;
    pn_ops_rms_norm(&p->ops, last, d->output_norm, p->h->norm_eps, n, 1, p->s->normed);
    pn_matmul_job job = {&d->head, NULL, logits};
    pn_ops_matmul(&p->ops, &job, 1, p->s->normed, 1);
}

bool pn_decoder_forward(const pn_forward *f, const int32_t *tokens, size_t n_tok, float *logits) {
    struct pass p = {.f = f,
                     .h = &f->decoder->h,
                     .s = f->scratch,
                     .ops = {.kernels = f->kernels,
                             .pool = f->pool,
                             .scratch = f->scratch->worker,
                             .scratch_stride = f->scratch->worker_stride},
                     .n_tok = n_tok,
                     .position = f->kv->n_tokens};
    embed(&p, tokens);
    rotate(&p);
    observe(&p, -1);
    for (int layer = 0; layer < p.h->n_layer; layer++) {
        if (f->cancel && atomic_load(f->cancel)) return false;
        attention_part(&p, &f->decoder->layers[layer], layer);
        feed_forward_part(&p, &f->decoder->layers[layer]);
        observe(&p, layer);
    }
    f->kv->n_tokens += n_tok;
    if (logits) head(&p, logits);
    return true;
}
