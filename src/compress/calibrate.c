/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/calibrate.h"

#include "base/mem.h"
#include "engine/engine.h"

#include <string.h>

const pn_matrix_place pn_matrix_places[PN_LAYER_MATRICES] = {
    {"attn_q.weight", offsetof(pn_layer, q), PN_SITE_QKV},
    {"attn_k.weight", offsetof(pn_layer, k), PN_SITE_QKV},
    {"attn_v.weight", offsetof(pn_layer, v), PN_SITE_QKV},
    {"attn_output.weight", offsetof(pn_layer, out), PN_SITE_OUT},
    {"ffn_gate.weight", offsetof(pn_layer, gate), PN_SITE_GATE_UP},
    {"ffn_up.weight", offsetof(pn_layer, up), PN_SITE_GATE_UP},
    {"ffn_down.weight", offsetof(pn_layer, down), PN_SITE_DOWN},
};

struct pn_calibration {
    pn_decoder *decoder;
    pn_weights *weights; /* the decoder's */
    const pn_kernels *kernels;
    pn_pool *pool;
    pn_scratch scratch;
    pn_kv kv;
    int32_t *tokens; /* [n_seq, seq_len] */
    size_t n_seq, seq_len;
    float *x; /* [n_seq, seq_len, n_embd] the residual stream before the layer at hand */
    pn_gram grams[PN_SITE_COUNT];
};

/* ---- text ---- */

static pn_status encode(const pn_calibration *c, const pn_calibration_options *o, pn_tokens *out,
                        pn_error *err) {
    pn_tokenizer *tokenizer;
    pn_vocab_roles roles;
    PN_TRY(pn_vocab_load(pn_weights_file(c->weights), c->decoder->n_vocab, &tokenizer, &roles, err));
    const pn_encode_options options = {.add_bos = true};
    pn_status status = pn_tokenizer_encode(tokenizer, o->text, o->text_len, &options, out, err);
    pn_tokenizer_free(tokenizer);
    return status;
}

/* Sequences at even distances; each begins with the token that the text begins with, as BOS where there is
 * one. */
static pn_status take_sequences(pn_calibration *c, const pn_calibration_options *o, pn_error *err) {
    pn_tokens text;
    PN_TRY(encode(c, o, &text, err));
    if (text.n < 2 * o->seq_len) {
        pn_status status =
            pn_fail(err, PN_ERR_ARGUMENT, "the calibration text has %zu tokens: at least %zu are needed",
                    text.n, 2 * o->seq_len);
        pn_tokens_free(&text);
        return status;
    }
    c->seq_len = o->seq_len;
    c->n_seq = o->n_seq < text.n / o->seq_len ? o->n_seq : text.n / o->seq_len;
    c->tokens = pn_alloc(PN_MEM_SCRATCH, c->n_seq * c->seq_len, sizeof *c->tokens);
    for (size_t i = 0; c->tokens && i < c->n_seq; i++) {
        size_t from = i * (text.n / c->n_seq);
        memcpy(c->tokens + i * c->seq_len, text.ids + from, c->seq_len * sizeof *c->tokens);
        c->tokens[i * c->seq_len] = text.ids[0];
    }
    pn_tokens_free(&text);
    return c->tokens ? PN_OK : pn_fail_memory(err, "calibration tokens", c->n_seq * c->seq_len);
}

/* ---- running ---- */

static pn_forward forward_of(pn_calibration *c, const pn_watch *watch) {
    int n = pn_pool_threads(c->pool);
    return (pn_forward){.decoder = c->decoder,
                        .kernels = c->kernels,
                        .pool = c->pool,
                        .threads = {n, n},
                        .scratch = &c->scratch,
                        .kv = &c->kv,
                        .watch = watch};
}

static float *stream_of(const pn_calibration *c, size_t sequence) {
    return c->x + sequence * c->seq_len * (size_t)c->decoder->h.n_embd;
}

static size_t stream_bytes(const pn_calibration *c) {
    return c->seq_len * (size_t)c->decoder->h.n_embd * sizeof(float);
}

/* A layer over all sequences; what comes out is kept, or not. */
static void run_layer(pn_calibration *c, const pn_layer *layer, int index, const pn_watch *watch, bool keep) {
    const pn_forward f = forward_of(c, watch);
    for (size_t i = 0; i < c->n_seq; i++) {
        memcpy(c->scratch.x, stream_of(c, i), stream_bytes(c));
        pn_decoder_layer(&f, layer, index, c->seq_len);
        if (keep) memcpy(stream_of(c, i), c->scratch.x, stream_bytes(c));
    }
}

void pn_calibration_rewind(pn_calibration *c) {
    const pn_forward f = forward_of(c, NULL);
    pn_weights_load(c->weights, &c->decoder->embedding, c->pool);
    for (size_t i = 0; i < c->n_seq; i++) {
        pn_decoder_embed(&f, c->tokens + i * c->seq_len, c->seq_len);
        memcpy(stream_of(c, i), c->scratch.x, stream_bytes(c));
    }
    pn_weights_unload(c->weights, &c->decoder->embedding);
}

/* ---- observing ---- */

struct observation {
    pn_calibration *c;
    const pn_layer *layer;
};

static void see_input(void *user, const pn_weight *first, const float *x, size_t n_col, size_t n_tok) {
    const struct observation *o = user;
    (void)n_col;
    for (int i = 0; i < PN_LAYER_MATRICES; i++) {
        const pn_weight *matrix =
            (const pn_weight *)(const void *)((const char *)o->layer + pn_matrix_places[i].offset);
        if (matrix == first)
            pn_gram_add(&o->c->grams[pn_matrix_places[i].site], o->c->kernels, o->c->pool, x, n_tok);
    }
}

static void unload(pn_calibration *c, int index) {
    for (int i = 0; i < PN_LAYER_MATRICES; i++)
        pn_weights_unload(c->weights, pn_layer_matrix(&c->decoder->layers[index], i));
}

void pn_calibration_observe(pn_calibration *c, int index, bool on) {
    pn_layer *layer = &c->decoder->layers[index];
    struct observation o = {c, layer};
    const pn_watch watch = {see_input, &o};
    for (int i = 0; i < PN_LAYER_MATRICES; i++)
        pn_weights_load(c->weights, pn_layer_matrix(layer, i), c->pool);
    for (int site = 0; site < PN_SITE_COUNT; site++)
        pn_gram_clear(&c->grams[site]);
    run_layer(c, layer, index, &watch, on);
    if (on) unload(c, index);
}

void pn_calibration_advance(pn_calibration *c, const pn_layer *with, int index) {
    run_layer(c, with, index, NULL, true);
    unload(c, index);
}

const pn_layer *pn_calibration_layer(const pn_calibration *c, int index) {
    return &c->decoder->layers[index];
}

pn_gram *pn_calibration_gram(pn_calibration *c, pn_site site) {
    return &c->grams[site];
}

int pn_calibration_n_layer(const pn_calibration *c) {
    return c->decoder->h.n_layer;
}

const pn_kernels *pn_calibration_kernels(const pn_calibration *c) {
    return c->kernels;
}

/* ---- opening ---- */

static pn_status make_room(pn_calibration *c, pn_error *err) {
    const pn_hparams *h = &c->decoder->h;
    const pn_kv_shape shape = pn_decoder_kv_shape(c->decoder, PN_KV_F32);
    const size_t columns[PN_SITE_COUNT] = {(size_t)h->n_embd, (size_t)h->n_head * (size_t)h->head_dim,
                                           (size_t)h->n_embd, (size_t)h->n_ff};
    PN_TRY(pn_scratch_init(&c->scratch, c->decoder, PN_PRECISION_HIGH, c->seq_len, pn_pool_threads(c->pool),
                           err));
    PN_TRY(pn_kv_init(&c->kv, &shape, c->seq_len, err));
    PN_TRY(pn_kv_reserve(&c->kv, c->seq_len, err));
    for (int site = 0; site < PN_SITE_COUNT; site++)
        PN_TRY(pn_gram_create(columns[site], &c->grams[site], err));
    c->x = pn_pages_alloc(PN_MEM_SCRATCH, c->n_seq * stream_bytes(c));
    return c->x ? PN_OK : pn_fail_memory(err, "calibration", c->n_seq * stream_bytes(c));
}

pn_status pn_calibration_open(const char *path, const pn_calibration_options *o, pn_pool *pool,
                              pn_calibration **out, pn_error *err) {
    pn_calibration *c = pn_alloc(PN_MEM_SCRATCH, 1, sizeof *c);
    if (!c) return pn_fail_memory(err, "calibration", sizeof *c);
    c->pool = pool;
    c->kernels = pn_kernels_host();
    pn_weights *weights = NULL;
    pn_status status = pn_weights_open(path, &weights, err);
    if (status == PN_OK) {
        status = pn_decoder_bind(weights, &c->decoder, err);
        if (status == PN_OK)
            c->weights = weights;
        else
            pn_weights_close(weights);
    }
    if (status == PN_OK) status = take_sequences(c, o, err);
    if (status == PN_OK) status = make_room(c, err);
    if (status != PN_OK) {
        pn_calibration_close(c);
        return status;
    }
    pn_calibration_rewind(c);
    *out = c;
    return PN_OK;
}

void pn_calibration_close(pn_calibration *c) {
    if (!c) return;
    if (c->x) pn_pages_free(PN_MEM_SCRATCH, c->x, c->n_seq * stream_bytes(c));
    for (int site = 0; site < PN_SITE_COUNT; site++)
        pn_gram_free(&c->grams[site]);
    if (c->kv.blocks) pn_kv_done(&c->kv);
    pn_scratch_done(&c->scratch);
    pn_free(c->tokens);
    pn_decoder_free(c->decoder);
    pn_free(c);
}
