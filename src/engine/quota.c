/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of keys and values that one session may hold. Its text begins in the type that was asked for; when
   the next block would pass the quota, all full ones are packed to fewer bits, and again, down to 4. The
   context is no longer than what fits then, so that nothing is refused on the way. */
#include "engine/engine.h"

#include "kv/step_down.h"

static uint64_t bytes_at(const pn_model *model, pn_kv_type type, size_t n_ctx, size_t n_chunk) {
    const pn_kv_shape shape = pn_decoder_kv_shape(model->decoder, type);
    uint64_t bytes = UINT64_MAX;
    pn_kv_plan_bytes(&shape, n_ctx, n_chunk, &bytes);
    return bytes;
}

/* The most tokens, up to n_ctx, whose keys and values take no more than `bytes` in the type. */
static size_t tokens_within(const pn_model *model, pn_kv_type type, size_t n_ctx, size_t n_chunk,
                            uint64_t bytes) {
    size_t fits = 0, beyond = n_ctx + 1;
    while (beyond - fits > 1) {
        const size_t n = fits + (beyond - fits) / 2;
        if (bytes_at(model, type, n, n_chunk < n ? n_chunk : n) <= bytes)
            fits = n;
        else
            beyond = n;
    }
    return fits;
}

static pn_kv_type last_type(pn_kv_type type, size_t head_dim) {
    while (pn_kv_next_type(type, head_dim) != type)
        type = pn_kv_next_type(type, head_dim);
    return type;
}

pn_status pn_quota_limit(const pn_model *model, bool any_chunk, pn_session_options *o, pn_error *err) {
    if (o->kv_bytes == 0) return PN_OK;
    const pn_kv_type last = last_type(o->kv_type, (size_t)model->info.head_dim);
    const size_t n_ctx = (size_t)o->n_ctx;
    size_t fits = tokens_within(model, last, n_ctx, (size_t)o->n_chunk, o->kv_bytes);
    if (fits < n_ctx && any_chunk &&
        o->n_chunk > PN_KV_BLOCK) { /* the tokens of a chunk are not packed yet */
        o->n_chunk = PN_KV_BLOCK;
        fits = tokens_within(model, last, n_ctx, (size_t)o->n_chunk, o->kv_bytes);
    }
    if (fits == 0)
        return pn_fail(err, PN_ERR_LIMIT,
                       "a quota of %llu bytes of keys and values holds no token: one block takes %llu",
                       (unsigned long long)o->kv_bytes, (unsigned long long)bytes_at(model, last, 1, 1));
    o->n_ctx = (int)fits;
    return PN_OK;
}

/* Blocks are taken when the first of their tokens comes, and, to be packed, with the last. */
static bool takes_blocks(const pn_session *s, size_t n) {
    const size_t had = s->kv.n_tokens, block = PN_KV_BLOCK;
    return (n + block - 1) / block != (had + block - 1) / block || n / block != had / block;
}

void pn_quota_keep(pn_session *s, size_t n) {
    size_t n_packed;
    if (s->options.kv_bytes == 0 || !takes_blocks(s, n)) return;
    while (pn_kv_bytes_for(&s->kv, n) > s->options.kv_bytes &&
           pn_kv_step_down(&s->kv, s->model->kernels, &n_packed)) {
        s->n_step_downs++;
        s->n_stepped = n_packed;
    }
}
