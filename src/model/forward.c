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

struct embedding {
    const struct pass *p;
    const int32_t *tokens;
};

static void embed_tokens(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct embedding *e = arg;
    const struct pass *p = e->p;
    const pn_weight *table = &p->f->decoder->embedding;
    for (size_t t = begin; t < end; t++) {
        float *x = p->s->x + t * table->n_col;
        pn_weight_decode_row(table, (size_t)e->tokens[t], x);
        if (p->h->embedding_scale != 1.0f) p->f->kernels->scale_f32(x, p->h->embedding_scale, table->n_col);
    }
}

static void embed(const struct pass *p, const int32_t *tokens) {
    struct embedding e = {p, tokens};
    pn_ops_run(&p->ops, embed_tokens, &e, p->n_tok, 4);
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

static void lap(const struct pass *p, pn_op op) {
    pn_profile_lap(p->f->profile, op);
}

/* False: the watch has seen all it wanted. */
static bool matmuls(const struct pass *p, pn_op op, const pn_matmul_job *jobs, size_t n_jobs,
                    const pn_matmul_input *input) {
    if (!pn_ops_matmul(&p->ops, jobs, n_jobs, input, p->n_tok)) return false;
    lap(p, op);
    for (size_t j = 0; j < n_jobs; j++) {
        const pn_weight *w = jobs[j].weight;
        pn_profile_work(p->f->profile, op, p->n_tok * w->n_row * w->n_col, w->n_panel * w->panel_bytes);
    }
    return true;
}

/* The residual stream, normalised. */
static pn_matmul_input normed(const struct pass *p, const float *norm) {
    return (pn_matmul_input){.x = p->s->x, .norm = norm, .norm_eps = p->h->norm_eps, .rows = p->s->part};
}

/* x += post_norm(part), the norm only where the model has one. */
static void add_part(const struct pass *p, const float *post_norm) {
    size_t n = (size_t)p->h->n_embd;
    float *part = p->s->part;
    if (post_norm) pn_ops_rms_norm(&p->ops, part, post_norm, p->h->norm_eps, n, p->n_tok, part);
    pn_ops_add(&p->ops, p->s->x, part, n, p->n_tok);
    lap(p, PN_OP_ADD);
}

static void attention_part(const struct pass *p, const pn_layer *l, int layer) {
    const pn_hparams *h = p->h;
    pn_scratch *s = p->s;
    const pn_matmul_input input = normed(p, l->attn_norm);
    pn_matmul_job qkv[] = {{&l->q, l->q_bias, s->q}, {&l->k, l->k_bias, s->k}, {&l->v, l->v_bias, s->v}};
    if (!matmuls(p, PN_OP_QKV, qkv, 3, &input)) return;
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
    pn_ops_pack_kv(&p->ops, p->f->kv, layer, p->n_tok);
    lap(p, PN_OP_ROPE);
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
    lap(p, PN_OP_ATTENTION);
    pn_profile_work(
        p->f->profile, PN_OP_ATTENTION, pn_layer_attention_macs(h, l->kind, p->position, p->n_tok),
        pn_layer_kv_bytes(p->f->decoder, layer, p->f->kv->store->shape.type, p->position, p->n_tok));
    const pn_matmul_input attended = {.x = s->attended};
    const pn_matmul_job out = {&l->out, l->out_bias, s->part};
    if (!matmuls(p, PN_OP_OUT, &out, 1, &attended)) return;
    add_part(p, l->attn_post_norm);
}

static void feed_forward_part(const struct pass *p, const pn_layer *l) {
    pn_scratch *s = p->s;
    const pn_matmul_input input = normed(p, l->ffn_norm);
    const pn_matmul_job gate_up[] = {{&l->gate, NULL, s->gate}, {&l->up, NULL, s->up}};
    if (!matmuls(p, PN_OP_GATE_UP, gate_up, 2, &input)) return;
    const pn_matmul_input gated = {
        .x = s->gate, .up = s->up, .activation = p->h->activation, .rows = s->gate};
    const pn_matmul_job down = {&l->down, NULL, s->part};
    if (!matmuls(p, PN_OP_DOWN, &down, 1, &gated)) return;
    add_part(p, l->ffn_post_norm);
}

/* Of n tokens of the residual stream, which stays as it is, into scratch->part. */
static void final_norm(const pn_forward *f, const pn_ops *ops, size_t first, size_t n) {
    const pn_hparams *h = &f->decoder->h;
    size_t n_embd = (size_t)h->n_embd;
    pn_ops_rms_norm(ops, f->scratch->x + first * n_embd, f->decoder->output_norm, h->norm_eps, n_embd, n,
                    f->scratch->part);
    pn_profile_lap(f->profile, PN_OP_NORM);
}

/* The output head over the normed rows in scratch->part. */
static bool head(const pn_forward *f, const pn_ops *ops, float *logits, size_t n_logits, pn_top top) {
    const pn_weight *weight = &f->decoder->head;
    bool partial = false;
    if (n_logits == 1) {
        partial = pn_ops_head(ops, weight, f->scratch->part, top, logits);
    } else {
        pn_matmul_job job = {weight, NULL, logits};
        const pn_matmul_input input = {.x = f->scratch->part};
        pn_ops_matmul(ops, &job, 1, &input, n_logits);
    }
    pn_profile_lap(f->profile, PN_OP_HEAD);
    pn_profile_work(f->profile, PN_OP_HEAD, n_logits * weight->n_row * weight->n_col,
                    partial ? weight->n_panel * weight->panel_bytes : pn_weight_bytes(weight));
    return partial;
}

static pn_ops ops_of(const pn_forward *f, size_t n_tok) {
    return (pn_ops){.kernels = f->kernels,
                    .pool = f->pool,
                    .n_threads = n_tok <= PN_FEW_TOKENS ? f->threads.decode : f->threads.prefill,
                    .inputs = f->scratch->inputs.n_plane ? &f->scratch->inputs : NULL,
                    .scratch = f->scratch->worker,
                    .scratch_stride = f->scratch->worker_stride,
                    .partials = f->scratch->partials,
                    .head = &f->scratch->head,
                    .profile = f->profile,
                    .watch = f->watch};
}

static struct pass pass_of(const pn_forward *f, size_t n_tok) {
    return (struct pass){.f = f,
                         .h = &f->decoder->h,
                         .s = f->scratch,
                         .ops = ops_of(f, n_tok),
                         .n_tok = n_tok,
                         .position = f->kv->n_tokens};
}

void pn_decoder_embed(const pn_forward *f, const int32_t *tokens, size_t n_tok) {
    struct pass p = pass_of(f, n_tok);
    embed(&p, tokens);
}

void pn_decoder_attention(const pn_forward *f, const pn_layer *layer, int index, size_t n_tok) {
    struct pass p = pass_of(f, n_tok);
    rotate(&p);
    attention_part(&p, layer, index);
}

void pn_decoder_feed_forward(const pn_forward *f, const pn_layer *layer, size_t n_tok) {
    struct pass p = pass_of(f, n_tok);
    feed_forward_part(&p, layer);
}

bool pn_decoder_forward(const pn_forward *f, const int32_t *tokens, size_t n_tok, pn_logits *wanted) {
    struct pass p = pass_of(f, n_tok);
    lap(&p, PN_OP_OTHER); /* since the last pass */
    embed(&p, tokens);
    lap(&p, PN_OP_EMBED);
    rotate(&p);
    lap(&p, PN_OP_ROPE);
    observe(&p, -1);
    for (int layer = 0; layer < p.h->n_layer; layer++) {
        if (f->cancel && atomic_load(f->cancel)) return false;
        attention_part(&p, &f->decoder->layers[layer], layer);
        feed_forward_part(&p, &f->decoder->layers[layer]);
        observe(&p, layer);
    }
    pn_kv_commit(f->kv, n_tok);
    if (wanted->n == 0) return true;
    /* A prompt's other tokens never meet the head. */
    final_norm(f, &p.ops, n_tok - wanted->n, wanted->n);
    wanted->partial = head(f, &p.ops, wanted->logits, wanted->n, wanted->top);
    return true;
}

void pn_decoder_logits(const pn_forward *f, size_t first, size_t n, float *logits) {
    pn_ops ops = ops_of(f, n);
    final_norm(f, &ops, first, n);
    head(f, &ops, logits, n, (pn_top){0});
}

void pn_decoder_complete(const pn_forward *f, float *logits) {
    pn_ops ops = ops_of(f, 1);
    head(f, &ops, logits, 1, (pn_top){0});
}
