/* SPDX-License-Identifier: Apache-2.0 */
#include "model/decoder.h"

#include "base/mem.h"

enum { X, PART, Q, K, V, ATTENDED, GATE, UP, COS_SIN, WORKERS, PARTIALS, INPUTS, N_PARTS };

/* Parts begin on cache lines. */
#define ROUND_FLOATS 16u

static size_t max_of(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The most columns of any matrix. */
static size_t max_columns(const pn_hparams *h) {
    return max_of(max_of((size_t)h->n_embd, (size_t)h->n_ff), (size_t)h->n_head * (size_t)h->head_dim);
}

static size_t worker_floats(const pn_hparams *h) {
    size_t n = pn_ops_scratch_floats(max_columns(h), (size_t)(h->n_head / h->n_head_kv), (size_t)h->head_dim);
    return (n + ROUND_FLOATS - 1) / ROUND_FLOATS * ROUND_FLOATS;
}

static bool part_floats(const pn_hparams *h, int part, pn_precision precision, size_t n_chunk, int n_threads,
                        uint64_t per_token, uint64_t *out) {
    if (part == WORKERS) return pn_mul_u64(worker_floats(h), (uint64_t)n_threads, out);
    if (part == PARTIALS) {
        *out = pn_ops_partial_floats((size_t)h->n_head, (size_t)h->head_dim);
        return true;
    }
    if (part != INPUTS) return pn_mul_u64(per_token, n_chunk, out);
    uint64_t bytes;
    if (!pn_ops_inputs_bytes(pn_ops_planes(precision), max_columns(h), n_chunk, &bytes)) return false;
    *out = bytes / sizeof(float); /* whole steps, each a multiple of four bytes */
    return true;
}

/* Floats of each part, and of all; false on overflow. */
static bool lay_out(const pn_decoder *d, pn_precision precision, size_t n_chunk, int n_threads,
                    uint64_t parts[N_PARTS], uint64_t *total) {
    const pn_hparams *h = &d->h;
    uint64_t n_q = (uint64_t)h->n_head * (uint64_t)h->head_dim,
             n_kv = (uint64_t)h->n_head_kv * (uint64_t)h->head_dim;
    const uint64_t per_token[N_PARTS] = {[X] = (uint64_t)h->n_embd,
                                         [PART] = (uint64_t)h->n_embd,
                                         [Q] = n_q,
                                         [K] = n_kv,
                                         [V] = n_kv,
                                         [ATTENDED] = n_q,
                                         [GATE] = (uint64_t)h->n_ff,
                                         [UP] = (uint64_t)h->n_ff,
                                         [COS_SIN] = PN_LAYER_KIND_COUNT * (uint64_t)h->rope_dim};
    *total = 0;
    for (int i = 0; i < N_PARTS; i++) {
        if (!part_floats(h, i, precision, n_chunk, n_threads, per_token[i], &parts[i]) ||
            !pn_add_u64(parts[i], ROUND_FLOATS - 1, &parts[i]))
            return false;
        parts[i] = parts[i] / ROUND_FLOATS * ROUND_FLOATS;
        if (!pn_add_u64(*total, parts[i], total)) return false;
    }
    return true;
}

bool pn_scratch_plan(const pn_decoder *d, pn_precision precision, size_t n_chunk, int n_threads,
                     uint64_t *bytes) {
    uint64_t parts[N_PARTS], total;
    return lay_out(d, precision, n_chunk, n_threads, parts, &total) &&
           pn_mul_u64(total, sizeof(float), bytes);
}

pn_status pn_scratch_init(pn_scratch *scratch, const pn_decoder *d, pn_precision precision, size_t n_chunk,
                          int n_threads, pn_error *err) {
    uint64_t parts[N_PARTS], total;
    if (!lay_out(d, precision, n_chunk, n_threads, parts, &total) || total > SIZE_MAX / sizeof(float))
        return pn_fail(err, PN_ERR_LIMIT, "a prefill chunk of %zu tokens does not fit in memory", n_chunk);
    pn_scratch s = {.n_chunk = n_chunk, .worker_stride = worker_floats(&d->h)};
    s.memory = pn_alloc(PN_MEM_SCRATCH, (size_t)total, sizeof(float));
    if (!s.memory) return pn_fail_memory(err, "activations", total * sizeof(float));
    float *at = s.memory, *inputs = NULL;
    float **const places[N_PARTS] = {[X] = &s.x,
                                     [PART] = &s.part,
                                     [Q] = &s.q,
                                     [K] = &s.k,
                                     [V] = &s.v,
                                     [ATTENDED] = &s.attended,
                                     [GATE] = &s.gate,
                                     [UP] = &s.up,
                                     [COS_SIN] = &s.cos_sin,
                                     [WORKERS] = &s.worker,
                                     [PARTIALS] = &s.partials,
                                     [INPUTS] = &inputs};
    for (int i = 0; i < N_PARTS; i++) {
        *places[i] = at;
        at += parts[i];
    }
    s.inputs = pn_ops_inputs(pn_ops_planes(precision), max_columns(&d->h), n_chunk, inputs);
    *scratch = s;
    return PN_OK;
}

void pn_scratch_done(pn_scratch *scratch) {
    pn_free(scratch->memory);
    *scratch = (pn_scratch){0};
}
