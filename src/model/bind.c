/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor names to struct fields, once, so that the forward pass never looks up a string. */
#include "model/decoder.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>

typedef struct tensor_name {
    char text[64];
} tensor_name;

static tensor_name layer_tensor(int layer, const char *suffix) {
    tensor_name name;
    snprintf(name.text, sizeof name.text, "blk.%d.%s", layer, suffix);
    return name;
}

static pn_status matrix(pn_weights *w, int layer, const char *suffix, int n_row, int n_col, pn_weight *out,
                        pn_error *err) {
    return pn_weights_find_matrix(w, layer_tensor(layer, suffix).text, (size_t)n_row, (size_t)n_col,
                                  PN_REQUIRED, out, err);
}

static pn_status vector(pn_weights *w, int layer, const char *suffix, int n, pn_presence presence,
                        const float **out, pn_error *err) {
    return pn_weights_find_vector(w, layer_tensor(layer, suffix).text, (size_t)n, presence, out, err);
}

static pn_status bind_attention(pn_weights *w, const pn_hparams *h, int i, pn_layer *l, pn_error *err) {
    int n_q = h->n_head * h->head_dim, n_kv = h->n_head_kv * h->head_dim;
    PN_TRY(vector(w, i, "attn_norm.weight", h->n_embd, PN_REQUIRED, &l->attn_norm, err));
    PN_TRY(matrix(w, i, "attn_q.weight", n_q, h->n_embd, &l->q, err));
    PN_TRY(matrix(w, i, "attn_k.weight", n_kv, h->n_embd, &l->k, err));
    PN_TRY(matrix(w, i, "attn_v.weight", n_kv, h->n_embd, &l->v, err));
    PN_TRY(matrix(w, i, "attn_output.weight", h->n_embd, n_q, &l->out, err));
    PN_TRY(vector(w, i, "attn_q.bias", n_q, PN_OPTIONAL, &l->q_bias, err));
    PN_TRY(vector(w, i, "attn_k.bias", n_kv, PN_OPTIONAL, &l->k_bias, err));
    PN_TRY(vector(w, i, "attn_v.bias", n_kv, PN_OPTIONAL, &l->v_bias, err));
    PN_TRY(vector(w, i, "attn_output.bias", h->n_embd, PN_OPTIONAL, &l->out_bias, err));
    if (h->qk_norm) {
        PN_TRY(vector(w, i, "attn_q_norm.weight", h->head_dim, PN_REQUIRED, &l->q_norm, err));
        PN_TRY(vector(w, i, "attn_k_norm.weight", h->head_dim, PN_REQUIRED, &l->k_norm, err));
    }
    if (h->post_norm)
        PN_TRY(vector(w, i, "post_attention_norm.weight", h->n_embd, PN_REQUIRED, &l->attn_post_norm, err));
    return PN_OK;
}

static pn_status bind_layer(pn_weights *w, const pn_hparams *h, int i, pn_layer *l, pn_error *err) {
    l->kind = pn_layer_kind_of(h, i);
    PN_TRY(bind_attention(w, h, i, l, err));
    PN_TRY(vector(w, i, "ffn_norm.weight", h->n_embd, PN_REQUIRED, &l->ffn_norm, err));
    PN_TRY(matrix(w, i, "ffn_gate.weight", h->n_ff, h->n_embd, &l->gate, err));
    PN_TRY(matrix(w, i, "ffn_up.weight", h->n_ff, h->n_embd, &l->up, err));
    PN_TRY(matrix(w, i, "ffn_down.weight", h->n_embd, h->n_ff, &l->down, err));
    if (h->post_norm)
        PN_TRY(vector(w, i, "post_ffw_norm.weight", h->n_embd, PN_REQUIRED, &l->ffn_post_norm, err));
    return PN_OK;
}

static pn_status bind_ends(pn_weights *w, pn_decoder *d, pn_error *err) {
    size_t n_embd = (size_t)d->h.n_embd;
    bool tied = !pn_weights_has(w, "output.weight");
    PN_TRY((tied ? pn_weights_find_head : pn_weights_find_matrix)(w, "token_embd.weight", 0, n_embd,
                                                                  PN_REQUIRED, &d->embedding, err));
    if (d->embedding.n_row > INT32_MAX)
        return pn_fail(err, PN_ERR_FORMAT, "token_embd.weight has %zu rows: token ids are 32-bit",
                       d->embedding.n_row);
    d->n_vocab = (int)d->embedding.n_row;
    PN_TRY(pn_weights_find_vector(w, "output_norm.weight", n_embd, PN_REQUIRED, &d->output_norm, err));
    d->head = d->embedding;
    return tied ? PN_OK
                : pn_weights_find_head(w, "output.weight", d->embedding.n_row, n_embd, PN_REQUIRED, &d->head,
                                       err);
}

/* The rotation of pair i per position: 1 / base^(2i / dim), divided by the file's own factors for long
   contexts (Llama 3) and by the linear scale. Rounded to float as the reference implementations do. */
static pn_status bind_rope(pn_weights *w, pn_decoder *d, pn_error *err) {
    size_t n = (size_t)d->h.rope_dim / 2;
    const float *factors;
    PN_TRY(pn_weights_find_vector(w, "rope_freqs.weight", n, PN_OPTIONAL, &factors, err));
    for (size_t i = 0; factors && i < n; i++)
        if (!(factors[i] > 0 && isfinite(factors[i])))
            return pn_fail(err, PN_ERR_FORMAT, "rope_freqs.weight[%zu] is %g: expected a positive number", i,
                           (double)factors[i]);
    d->rope_frequencies = pn_alloc(PN_MEM_OTHER, PN_LAYER_KIND_COUNT * n, sizeof *d->rope_frequencies);
    if (!d->rope_frequencies) return pn_fail_memory(err, "RoPE frequencies", n * sizeof *d->rope_frequencies);
    for (int kind = 0; kind < PN_LAYER_KIND_COUNT; kind++)
        for (size_t i = 0; i < n; i++) {
            double f = 1.0 / pow(d->h.rope[kind].base, 2.0 * (double)i / (double)d->h.rope_dim);
            if (factors) f /= (double)factors[i];
            d->rope_frequencies[(size_t)kind * n + i] = (float)(f / d->h.rope[kind].scale);
        }
    return PN_OK;
}

static pn_status bind_all(pn_weights *w, pn_decoder *d, pn_error *err) {
    PN_TRY(pn_arch_read(pn_weights_file(w), &d->h, err));
    PN_TRY(bind_ends(w, d, err));
    PN_TRY(bind_rope(w, d, err));
    d->layers = pn_alloc(PN_MEM_OTHER, (size_t)d->h.n_layer, sizeof *d->layers);
    if (!d->layers) return pn_fail_memory(err, "layer table", (uint64_t)d->h.n_layer * sizeof *d->layers);
    for (int i = 0; i < d->h.n_layer; i++)
        PN_TRY(bind_layer(w, &d->h, i, &d->layers[i], err));
    return pn_weights_check_all_used(w, err);
}

pn_status pn_decoder_bind(pn_weights *weights, pn_decoder **out, pn_error *err) {
    pn_decoder *d = pn_alloc(PN_MEM_OTHER, 1, sizeof *d);
    if (!d) return pn_fail_memory(err, "decoder", sizeof *d);
    pn_status status = bind_all(weights, d, err);
    if (status != PN_OK) {
        pn_decoder_free(d);
        return status;
    }
    d->weights = weights;
    *out = d;
    return PN_OK;
}

pn_status pn_decoder_create(pn_weights *weights, pn_pool *pool, pn_decoder **out, pn_error *err) {
    PN_TRY(pn_decoder_bind(weights, out, err));
    pn_weights_pack(weights, pool);
    return PN_OK;
}

void pn_decoder_free(pn_decoder *d) {
    if (!d) return;
    pn_weights_close(d->weights);
    pn_free(d->rope_frequencies);
    pn_free(d->layers);
    pn_free(d);
}

pn_kv_shape pn_decoder_kv_shape(const pn_decoder *d, pn_kv_type type) {
    return (pn_kv_shape){.n_layer = d->h.n_layer,
                         .n_head_kv = d->h.n_head_kv,
                         .head_dim = d->h.head_dim,
                         .type = type,
                         .window = d->h.window,
                         .window_pattern = d->h.window_pattern,
                         .floors = d->kv_floors};
}
