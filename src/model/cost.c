/* SPDX-License-Identifier: Apache-2.0 */
/* What computing tokens takes: bytes read, which bound decode, and multiply-adds, which bound prefill. */
#include "model/decoder.h"

static uint64_t matrix_bytes(const pn_weight *weight) {
    return weight->n_panel * weight->panel_bytes;
}

uint64_t pn_decoder_bytes_per_token(const pn_decoder *d) {
    uint64_t sum = matrix_bytes(&d->head);
    if (d->head.data != d->embedding.data) sum += d->embedding.panel_bytes / PN_PANEL_ROWS;
    for (int i = 0; i < d->h.n_layer; i++) {
        const pn_layer *l = &d->layers[i];
        const pn_weight *const matrices[] = {&l->q, &l->k, &l->v, &l->out, &l->gate, &l->up, &l->down};
        for (size_t m = 0; m < sizeof matrices / sizeof matrices[0]; m++)
            sum += matrix_bytes(matrices[m]);
    }
    return sum;
}

uint64_t pn_layer_kv_bytes(const pn_decoder *d, int layer, pn_kv_type type, uint64_t depth, uint64_t n_tok) {
    const pn_hparams *h = &d->h;
    uint64_t n = depth, window = (uint64_t)h->window;
    if (d->layers[layer].kind == PN_LAYER_LOCAL && n > window - 1)
        n = window - 1; /* before the first of the tokens */
    const pn_kv_shape all = pn_decoder_kv_shape(d, type), one = {.n_layer = 1,
                                                                 .n_head_kv = h->n_head_kv,
                                                                 .head_dim = h->head_dim,
                                                                 .type = pn_kv_layer_type(&all, layer, type)};
    return (n + n_tok) * pn_kv_token_bytes(&one);
}

uint64_t pn_decoder_kv_bytes_read(const pn_decoder *d, pn_kv_type type, uint64_t depth) {
    uint64_t sum = 0;
    for (int i = 0; i < d->h.n_layer; i++)
        sum += pn_layer_kv_bytes(d, i, type, depth, 1);
    return sum;
}

/* Sum over n tokens after `depth` others of the positions each sees: all up to its own, or with a window the
   newest of them. */
static uint64_t positions_seen(uint64_t depth, uint64_t n, uint64_t window) {
    uint64_t growing = n; /* tokens that still see everything */
    if (window > 0) growing = window <= depth ? 0 : window - depth < n ? window - depth : n;
    return growing * depth + growing * (growing + 1) / 2 + (n - growing) * window;
}

uint64_t pn_layer_attention_macs(const pn_hparams *h, pn_layer_kind kind, uint64_t depth, uint64_t n_tok) {
    uint64_t window = kind == PN_LAYER_LOCAL ? (uint64_t)h->window : 0;
    return 2 * (uint64_t)h->n_head * (uint64_t)h->head_dim * positions_seen(depth, n_tok, window);
}

uint64_t pn_decoder_macs(const pn_decoder *d, uint64_t depth, uint64_t n_tok) {
    uint64_t sum = (uint64_t)d->head.n_row * d->head.n_col; /* of the last token alone */
    for (int i = 0; i < d->h.n_layer; i++) {
        const pn_layer *l = &d->layers[i];
        const pn_weight *const matrices[] = {&l->q, &l->k, &l->v, &l->out, &l->gate, &l->up, &l->down};
        for (size_t m = 0; m < sizeof matrices / sizeof matrices[0]; m++)
            sum += n_tok * matrices[m]->n_row * matrices[m]->n_col;
        sum += pn_layer_attention_macs(&d->h, l->kind, depth, n_tok);
    }
    return sum;
}
