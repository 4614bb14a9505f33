/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/calibrate.h"

#include "base/mem.h"

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
    pn_kv_store *store;
    pn_kv kv;
    const pn_sequences *sequences;
    float *x; /* [n_seq, seq_len, n_embd] the residual stream before the layer at hand */
    pn_activations activations;
};

/* ---- opening ---- */

pn_status pn_calibration_open(const char *path, pn_pool *pool, pn_calibration **out, pn_error *err) {
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
    if (status != PN_OK) {
        pn_calibration_close(c);
        return status;
    }
    *out = c;
    return PN_OK;
}

static size_t stream_bytes(const pn_calibration *c) {
    return c->sequences->len * (size_t)c->decoder->h.n_embd * sizeof(float);
}

void pn_calibration_close(pn_calibration *c) {
    if (!c) return;
    if (c->x) pn_pages_free(PN_MEM_SCRATCH, c->x, c->sequences->n * stream_bytes(c));
    pn_activations_free(&c->activations);
    pn_kv_done(&c->kv);
    pn_kv_store_free(c->store);
    pn_scratch_done(&c->scratch);
    pn_decoder_free(c->decoder);
    pn_free(c);
}

const pn_decoder *pn_calibration_decoder(const pn_calibration *c) {
    return c->decoder;
}

const pn_gguf *pn_calibration_file(const pn_calibration *c) {
    return pn_weights_file(c->weights);
}

const pn_kernels *pn_calibration_kernels(const pn_calibration *c) {
    return c->kernels;
}

/* ---- memory ---- */

static size_t max_columns(const pn_hparams *h) {
    const size_t n_embd = (size_t)h->n_embd, heads = (size_t)h->n_head * (size_t)h->head_dim,
                 n_ff = (size_t)h->n_ff, most = heads > n_ff ? heads : n_ff;
    return n_embd > most ? n_embd : most;
}

/* Of one layer: they take turns. */
static pn_kv_shape kv_shape(const pn_calibration *c) {
    pn_kv_shape shape = pn_decoder_kv_shape(c->decoder, PN_KV_F32);
    shape.n_layer = 1;
    shape.window = 0; /* a sequence is there as a whole */
    return shape;
}

uint64_t pn_calibration_bytes(const pn_calibration *c, size_t n_seq, size_t seq_len) {
    const pn_kv_shape kv = kv_shape(c);
    const pn_layer *layer = &c->decoder->layers[0];
    uint64_t scratch = 0, matrices = 0, cache = 0;
    pn_kv_plan_bytes(&kv, seq_len, seq_len, &cache);
    pn_scratch_plan(c->decoder, PN_PRECISION_HIGH, seq_len, pn_pool_threads(c->pool), &scratch);
    for (int i = 0; i < PN_LAYER_MATRICES; i++)
        matrices += pn_weight_bytes(pn_layer_matrix_of(layer, i));
    matrices += matrices / 2 + matrices / 16; /* in 8 bits, with scales, of 16 */
    const uint64_t embedding = pn_weight_bytes(&c->decoder->embedding);
    return scratch + (embedding > matrices ? embedding : matrices) + cache +
           (uint64_t)n_seq * seq_len * (uint64_t)c->decoder->h.n_embd * sizeof(float) +
           pn_activations_bytes(max_columns(&c->decoder->h), PN_CALIBRATION_MAX_HELDOUT);
}

pn_status pn_calibration_begin(pn_calibration *c, const pn_sequences *sequences, pn_error *err) {
    const pn_kv_shape shape = kv_shape(c);
    const size_t len = sequences->len;
    c->sequences = sequences;
    PN_TRY(pn_scratch_init(&c->scratch, c->decoder, PN_PRECISION_HIGH, len, pn_pool_threads(c->pool), err));
    PN_TRY(pn_kv_store_create(&shape, &c->store, err));
    PN_TRY(pn_kv_init(&c->kv, c->store, len, len, err));
    PN_TRY(pn_kv_reserve(&c->kv, len, err));
    PN_TRY(
        pn_activations_create(max_columns(&c->decoder->h), PN_CALIBRATION_MAX_HELDOUT, &c->activations, err));
    c->x = pn_pages_alloc(PN_MEM_SCRATCH, sequences->n * stream_bytes(c));
    if (!c->x) return pn_fail_memory(err, "calibration", sequences->n * stream_bytes(c));
    pn_calibration_rewind(c);
    return PN_OK;
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
    return c->x + sequence * c->sequences->len * (size_t)c->decoder->h.n_embd;
}

void pn_calibration_rewind(pn_calibration *c) {
    const pn_forward f = forward_of(c, NULL);
    pn_weights_load(c->weights, &c->decoder->embedding, c->pool);
    for (size_t i = 0; i < c->sequences->n; i++) {
        pn_decoder_embed(&f, c->sequences->ids + i * c->sequences->len, c->sequences->len);
        memcpy(stream_of(c, i), c->scratch.x, stream_bytes(c));
    }
    pn_weights_unload(c->weights, &c->decoder->embedding);
}

const pn_layer *pn_calibration_enter(pn_calibration *c, int index) {
    pn_layer *layer = &c->decoder->layers[index];
    for (int i = 0; i < PN_LAYER_MATRICES; i++)
        pn_weights_load(c->weights, pn_layer_matrix(layer, i), c->pool);
    return layer;
}

void pn_calibration_leave(pn_calibration *c, int index) {
    for (int i = 0; i < PN_LAYER_MATRICES; i++)
        pn_weights_unload(c->weights, pn_layer_matrix(&c->decoder->layers[index], i));
}

/* A sequence through a part of a layer, in scratch.x. */
static void run_sequence(pn_calibration *c, const pn_forward *f, const pn_layer *layer, pn_part part,
                         const float *inputs) {
    memcpy(c->scratch.x, inputs, stream_bytes(c));
    if (part == PN_PART_ATTENTION)
        pn_decoder_attention(f, layer, 0, c->sequences->len);
    else
        pn_decoder_feed_forward(f, layer, c->sequences->len);
}

void pn_calibration_run(pn_calibration *c, const pn_layer *layer, pn_part part, size_t n_seq,
                        const float *inputs, const pn_watch *watch, float *outputs) {
    const pn_forward f = forward_of(c, watch);
    const size_t n = stream_bytes(c) / sizeof(float);
    for (size_t i = 0; i < n_seq; i++) {
        run_sequence(c, &f, layer, part, inputs ? inputs + i * n : stream_of(c, i));
        memcpy(outputs + i * n, c->scratch.x, stream_bytes(c));
    }
}

void pn_calibration_take(pn_calibration *c, size_t n_seq, const float *outputs) {
    memcpy(c->x, outputs, n_seq * stream_bytes(c));
}

void pn_calibration_advance(pn_calibration *c, const pn_layer *layer, pn_part part) {
    pn_calibration_run(c, layer, part, c->sequences->n, NULL, NULL, c->x);
}

/* ---- gathering ---- */

struct gathering {
    pn_calibration *c;
    const pn_weight *first; /* of the site's matrices */
    size_t sequence;        /* at hand */
};

static bool see_inputs(void *user, const pn_weight *first, const float *x, size_t n_col, size_t n_tok) {
    const struct gathering *g = user;
    (void)n_col;
    if (first != g->first) return true;
    const pn_sequences *s = g->c->sequences;
    if (g->sequence < s->n - s->n_heldout)
        pn_activations_add(&g->c->activations, g->c->kernels, g->c->pool, x, n_tok);
    else
        pn_activations_keep(&g->c->activations, x, n_tok);
    return false;
}

static const pn_weight *first_of(const pn_layer *layer, pn_site site) {
    int i = 0;
    while (pn_matrix_places[i].site != site)
        i++;
    return pn_layer_matrix_of(layer, i);
}

static pn_status finish(pn_calibration *c, const pn_activations **out, pn_error *err) {
    *out = &c->activations;
    return pn_activations_finish(&c->activations, c->kernels, c->pool, err);
}

pn_status pn_calibration_gather(pn_calibration *c, const pn_layer *layer, pn_site site,
                                const pn_activations **out, pn_error *err) {
    struct gathering g = {c, first_of(layer, site), 0};
    const pn_watch watch = {see_inputs, &g};
    const pn_forward f = forward_of(c, &watch);
    pn_activations_begin(&c->activations, g.first->n_col);
    for (; g.sequence < c->sequences->n; g.sequence++)
        run_sequence(c, &f, layer, pn_part_of(site), stream_of(c, g.sequence));
    return finish(c, out, err);
}

pn_status pn_calibration_gather_head(pn_calibration *c, const pn_activations **out, pn_error *err) {
    struct gathering g = {c, &c->decoder->head, 0};
    const pn_watch watch = {see_inputs, &g};
    const pn_forward f = forward_of(c, &watch);
    pn_activations_begin(&c->activations, g.first->n_col);
    for (; g.sequence < c->sequences->n; g.sequence++) {
        memcpy(c->scratch.x, stream_of(c, g.sequence), stream_bytes(c));
        pn_decoder_logits(&f, 0, c->sequences->len, NULL);
    }
    return finish(c, out, err);
}
