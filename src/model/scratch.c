/* SPDX-License-Identifier: Apache-2.0 */
#include "model/decoder.h"

#include "base/mem.h"

enum { X, NORMED, Q, K, V, ATTENDED, GATE, UP, COS_SIN, WORKERS, N_PARTS };

/* Parts begin on cache lines. */
#define ROUND_FLOATS 16u

static size_t max_of(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t worker_floats(const pn_decoder *d) {
    const pn_hparams *h = &d->h;
    size_t max_col =
        max_of(max_of((size_t)h->n_embd, (size_t)h->n_ff), (size_t)h->n_head * (size_t)h->head_dim);
    size_t n = pn_ops_scratch_floats(max_col, (size_t)(h->n_head / h->n_head_kv));
    return (n + ROUND_FLOATS - 1) / ROUND_FLOATS * ROUND_FLOATS;
}

/* Floats of each part, and of all; false on overflow. */
static bool lay_out(const pn_decoder *d, size_t n_chunk, int n_threads, uint64_t parts[N_PARTS],
                    uint64_t *total) {
    const pn_hparams *h = &d->h;
    uint64_t n_q = (uint64_t)h->n_head * (uint64_t)h->head_dim,
             n_kv = (uint64_t)h->n_head_kv * (uint64_t)h->head_dim;
    const uint64_t per_token[WORKERS] = {[X] = (uint64_t)h->n_embd,
                                         [NORMED] = (uint64_t)h->n_embd,
                                         [Q] = n_q,
                                         [K] = n_kv,
                                         [V] = n_kv,
                                         [ATTENDED] = n_q,
                                         [GATE] = (uint64_t)h->n_ff,
                                         [UP] = (uint64_t)h->n_ff,
                                         [COS_SIN] = PN_LAYER_KIND_COUNT * (uint64_t)h->rope_dim};
    *total = 0;
    for (int i = 0; i < N_PARTS; i++) {
        bool fits = i == WORKERS ? pn_mul_u64(worker_floats(d), (uint64_t)n_threads, &parts[i])
                                 : pn_mul_u64(per_token[i], n_chunk, &parts[i]);
        if (!fits || !pn_add_u64(parts[i], ROUND_FLOATS - 1, &parts[i])) return false;
        parts[i] = parts[i] / ROUND_FLOATS * ROUND_FLOATS;
        if (!pn_add_u64(*total, parts[i], total)) return false;
    }
    return true;
}

bool pn_scratch_plan(const pn_decoder *d, size_t n_chunk, int n_threads, uint64_t *bytes) {
    uint64_t parts[N_PARTS], total;
    return lay_out(d, n_chunk, n_threads, parts, &total) && pn_mul_u64(total, sizeof(float), bytes);
}

pn_status pn_scratch_init(pn_scratch *scratch, const pn_decoder *d, size_t n_chunk, int n_threads,
                          pn_error *err) {
    uint64_t parts[N_PARTS], total;
    if (!lay_out(d, n_chunk, n_threads, parts, &total) || total > SIZE_MAX / sizeof(float))
        return pn_fail(err, PN_ERR_LIMIT, "a prefill chunk of %zu tokens does not fit in memory", n_chunk);
    pn_scratch s = {.n_chunk = n_chunk, .worker_stride = worker_floats(d)};
    s.memory = pn_alloc(PN_MEM_SCRATCH, (size_t)total, sizeof(float));
    if (!s.memory) return pn_fail_memory(err, "activations", total * sizeof(float));
    float *at = s.memory;
    float **const places[N_PARTS] = {[X] = &s.x,           [NORMED] = &s.normed, [Q] = &s.q,
                                     [K] = &s.k,           [V] = &s.v,           [ATTENDED] = &s.attended,
                                     [GATE] = &s.gate,     [UP] = &s.up,         [COS_SIN] = &s.cos_sin,
                                     [WORKERS] = &s.worker};
    for (int i = 0; i < N_PARTS; i++) {
        *places[i] = at;
        at += parts[i];
    }
    *scratch = s;
    return PN_OK;
}

void pn_scratch_done(pn_scratch *scratch) {
    pn_free(scratch->memory);
    *scratch = (pn_scratch){0};
}
