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

pn_status pn_quota_limit(const pn_model *model, pn_session_options *o, pn_error *err) {
    if (o->kv_bytes == 0) return PN_OK;
    pn_kv_type least = o->kv_type;
    const size_t dim = (size_t)model->info.head_dim, n_chunk = (size_t)o->n_chunk;
    while (pn_kv_next_type(least, dim) != least)
        least = pn_kv_next_type(least, dim);
    size_t fits = 0, beyond = (size_t)o->n_ctx + 1;
    while (beyond - fits > 1) {
        const size_t n = fits + (beyond - fits) / 2;
        if (bytes_at(model, least, n, n_chunk < n ? n_chunk : n) <= o->kv_bytes)
            fits = n;
        else
            beyond = n;
    }
    if (fits == 0)
        return pn_fail(err, PN_ERR_LIMIT,
                       "a quota of %llu bytes of keys and values holds no token: one block takes %llu",
                       (unsigned long long)o->kv_bytes, (unsigned long long)bytes_at(model, least, 1, 1));
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
