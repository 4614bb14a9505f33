/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/sequences.h"

#include "base/mem.h"
#include "engine/engine.h"

#include <string.h>

pn_status pn_sequences_make(size_t n, size_t len, pn_sequences *out, pn_error *err) {
    *out = (pn_sequences){.n = n, .len = len, .n_heldout = (n + 7) / 8};
    out->ids = pn_alloc(PN_MEM_SCRATCH, n * len, sizeof *out->ids);
    return out->ids ? PN_OK : pn_fail_memory(err, "calibration tokens", n * len * sizeof *out->ids);
}

void pn_sequences_free(pn_sequences *s) {
    pn_free(s->ids);
    *s = (pn_sequences){0};
}

/* ---- of a text ---- */

static size_t common_divisor(size_t a, size_t b) {
    while (b > 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* i * step mod n visits all places, and neighbours in i are far apart: near the golden section of n. */
static size_t spreading_step(size_t n) {
    size_t step = n * 618 / 1000 + 1;
    while (common_divisor(step, n) != 1)
        step++;
    return step;
}

pn_status pn_sequences_from_text(const pn_gguf *file, int n_vocab, pn_str text, size_t n_seq, size_t seq_len,
                                 pn_sequences *out, pn_error *err) {
    pn_tokenizer *tokenizer;
    pn_vocab_roles roles;
    pn_tokens all;
    PN_TRY(pn_vocab_load(file, n_vocab, &tokenizer, &roles, err));
    const pn_encode_options options = {.add_bos = true};
    pn_status status = pn_tokenizer_encode(tokenizer, text.data, text.len, &options, &all, err);
    pn_tokenizer_free(tokenizer);
    PN_TRY(status);
    const size_t possible = all.n / seq_len, n = n_seq < possible ? n_seq : possible;
    if (n < 2)
        status = pn_fail(err, PN_ERR_ARGUMENT, "the calibration text has %zu tokens: at least %zu are needed",
                         all.n, 2 * seq_len);
    else
        status = pn_sequences_make(n, seq_len, out, err);
    for (size_t i = 0; status == PN_OK && i < n; i++) {
        const size_t place = i * spreading_step(n) % n;
        int32_t *ids = out->ids + i * seq_len;
        memcpy(ids, all.ids + place * (all.n / n), seq_len * sizeof *ids);
        ids[0] = all.ids[0];
    }
    pn_tokens_free(&all);
    return status;
}

/* ---- of a model ---- */

struct speaking {
    pn_progress_fn progress;
    void *user;
    size_t n_done, n_total;
};

static int32_t first_token(const pn_model *model) {
    if (model->roles.bos >= 0) return model->roles.bos;
    return model->roles.eos >= 0 ? model->roles.eos : 0;
}

static pn_status speak(pn_session *session, uint64_t seed, int32_t *ids, size_t len, pn_error *err) {
    pn_generate_options options = {
        .max_tokens = (int)len - 1, .sampling = pn_sampling_default(), .ignore_eos = true};
    options.sampling.temperature = 1;
    options.sampling.top_k = 0;
    options.sampling.top_p = 1;
    options.sampling.min_p = 0;
    options.sampling.seed = seed;
    options.sampling.has_seed = true;
    pn_generate_result result;
    PN_TRY(pn_generate(session, ids, 1, &options, &result, err));
    const size_t n = result.tokens.n < len - 1 ? result.tokens.n : len - 1;
    memcpy(ids + 1, result.tokens.ids, n * sizeof *ids);
    for (size_t i = n + 1; i < len; i++)
        ids[i] = ids[0];
    pn_generate_result_free(&result);
    return PN_OK;
}

static pn_status speak_all(pn_model *model, uint64_t seed, pn_sequences *s, struct speaking *at,
                           pn_error *err) {
    const pn_session_options options = {.n_ctx = (int)s->len};
    pn_session *session;
    PN_TRY(pn_session_create(model, &options, &session, err));
    pn_status status = PN_OK;
    for (size_t i = 0; i < s->n && status == PN_OK; i++) {
        s->ids[i * s->len] = first_token(model);
        status = speak(session, seed + i, s->ids + i * s->len, s->len, err);
        at->n_done += s->len;
        if (at->progress) at->progress(at->user, at->n_done, at->n_total);
    }
    pn_session_free(session);
    return status;
}

pn_status pn_sequences_from_model(const char *path, int n_threads, uint64_t seed, size_t n_seq,
                                  size_t seq_len, pn_progress_fn progress, void *user, pn_sequences *out,
                                  pn_error *err) {
    const pn_model_options options = {.n_threads = n_threads, .prefix_cache = PN_PREFIX_CACHE_OFF};
    struct speaking at = {progress, user, 0, n_seq * seq_len};
    pn_model *model;
    PN_TRY(pn_model_open(path, &options, &model, err));
    pn_status status = pn_sequences_make(n_seq, seq_len, out, err);
    if (status == PN_OK) status = speak_all(model, seed, out, &at, err);
    if (status != PN_OK) pn_sequences_free(out);
    pn_model_close(model);
    return status;
}
