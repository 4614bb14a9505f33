/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over a text: chunks, of these passes, of these pieces of a few positions, for which the logits of
   one model, or of two, are held at the same time. */
#include "engine/engine.h"
#include "eval/reference.h"
#include "eval/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define DEFAULT_CTX 512
#define PASS        256 /* tokens that are computed together */
#define PIECE       32  /* positions whose logits are held */

/* What a position came to. */
struct score {
    double log_prob, base_log_prob, divergence;
    bool same_top;
    pn_summary summary; /* the model's, where it is saved; the base's, where it was read */
};

/* A model with its timeline and the logits of a piece. */
struct side {
    pn_model *model;
    pn_session *session;
    float *logits; /* [PIECE, n_vocab] */
};

struct run {
    const pn_perplexity_options *options;
    size_t n_ctx, n_chunks, n_vocab;
    struct side model, base; /* base.model may be NULL */
    pn_reference reference;  /* of no bytes where there is none */
    pn_reference_writer *writer;
    pn_tokens tokens;
    bool wants_bos;
    int32_t *chunk;     /* [n_ctx] its tokens */
    float *divergences; /* [n_chunks * pn_scored_count] */
    pn_spread loss, base_loss, loss_ratio, divergence, same_top;
    struct score scores[PIECE];
    size_t first; /* position in the chunk that scores[0] belongs to */
};

static bool has_reference(const struct run *r) {
    return r->reference.map.data != NULL;
}

/* ---- one piece ---- */

static pn_softmax softmax_at(const struct run *r, const struct side *side, size_t i) {
    return pn_softmax_of(side->model->kernels, side->logits + i * r->n_vocab, r->n_vocab);
}

/* In [0, 1), another for every position and evenly spread: the golden ratio's multiples. */
static double offset_of(size_t position) {
    return fmod((double)position * 0.6180339887498949, 1);
}

static void score_positions(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    struct run *r = arg;
    const pn_kernels *kernels = r->model.model->kernels;
    for (size_t i = begin; i < end; i++) {
        struct score *s = &r->scores[i];
        const int32_t target = r->chunk[r->first + i + 1];
        pn_softmax model = softmax_at(r, &r->model, i);
        s->log_prob = pn_softmax_log(&model, target);
        if (r->base.model) {
            pn_softmax base = softmax_at(r, &r->base, i);
            s->base_log_prob = pn_softmax_log(&base, target);
            s->divergence = pn_divergence(kernels, &base, &model);
            s->same_top = pn_softmax_best(&base) == pn_softmax_best(&model);
        } else if (has_reference(r)) {
            s->base_log_prob = (double)s->summary.target;
            s->divergence = pn_summary_divergence(&s->summary, &model);
            s->same_top = s->summary.ids[0] == pn_softmax_best(&model);
        }
        if (r->writer) s->summary = pn_summary_of(kernels, &model, target, offset_of(r->loss.n + i));
    }
}

static pn_status read_summaries(struct run *r, size_t chunk, size_t n, pn_error *err) {
    for (size_t i = 0; i < n; i++)
        if (!pn_reference_get(&r->reference, chunk, r->first - pn_scored_first(r->n_ctx) + i,
                              &r->scores[i].summary))
            return pn_fail(err, PN_ERR_FORMAT, "%s holds numbers that are no probabilities: make it again",
                           r->options->reference);
    return PN_OK;
}

static bool is_finite(const pn_summary *s) {
    bool finite = true;
    for (size_t i = 0; i < s->n_top + s->n_drawn; i++)
        finite &= isfinite(s->log_probs[i]);
    return finite;
}

/* In order of the text, so that sums do not depend on who computed what. */
static pn_status take_scores(struct run *r, size_t n, pn_error *err) {
    for (size_t i = 0; i < n; i++) {
        const struct score *s = &r->scores[i];
        if (!isfinite(s->log_prob) || !isfinite(s->base_log_prob) || !isfinite(s->divergence) ||
            (r->writer && !is_finite(&s->summary)))
            return pn_fail(err, PN_ERR_NUMERIC,
                           "a model gave a logit that is no number: its file is damaged");
        r->divergences[r->loss.n] = (float)s->divergence;
        pn_spread_add(&r->loss, -s->log_prob);
        pn_spread_add(&r->base_loss, -s->base_log_prob);
        pn_spread_add(&r->loss_ratio, s->base_log_prob - s->log_prob);
        pn_spread_add(&r->divergence, s->divergence);
        pn_spread_add(&r->same_top, s->same_top);
        if (r->writer) pn_reference_add(r->writer, &s->summary);
    }
    return PN_OK;
}

static pn_status score_piece(struct run *r, size_t chunk, size_t first, size_t n, pn_error *err) {
    r->first = first;
    PN_TRY(pn_session_logits_at(r->model.session, first, n, r->model.logits, err));
    if (r->base.model) PN_TRY(pn_session_logits_at(r->base.session, first, n, r->base.logits, err));
    if (has_reference(r)) PN_TRY(read_summaries(r, chunk, n, err));
    pn_pool_run(r->model.model->pool, score_positions, r, n, 1);
    return take_scores(r, n, err);
}

/* ---- one chunk ---- */

static void report(const struct run *r, size_t chunk, size_t n_done) {
    if (r->options->progress)
        r->options->progress(r->options->user, chunk * r->n_ctx + n_done, r->n_chunks * r->n_ctx);
}

static pn_status begin_chunk(struct run *r, size_t chunk, pn_error *err) {
    memcpy(r->chunk, r->tokens.ids + chunk * r->n_ctx, r->n_ctx * sizeof *r->chunk);
    if (r->wants_bos) r->chunk[0] = r->model.model->roles.bos;
    uint64_t hash = pn_tokens_hash(r->chunk, r->n_ctx);
    if (has_reference(r) && pn_reference_tokens_hash(&r->reference, chunk) != hash)
        return pn_fail(err, PN_ERR_ARGUMENT, "%s was made of another text: chunk %zu has other tokens",
                       r->options->reference, chunk + 1);
    if (r->writer) pn_reference_begin_chunk(r->writer, hash);
    return PN_OK;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static pn_status score_chunk(struct run *r, size_t chunk, pn_error *err) {
    const size_t first = pn_scored_first(r->n_ctx), end = r->n_ctx - 1; /* nothing follows the last token */
    PN_TRY(begin_chunk(r, chunk, err));
    for (size_t at = 0; at < end;) {
        size_t n = least(PASS, (at < first ? first : end) - at);
        PN_TRY(pn_session_sync(r->model.session, r->chunk, at + n, NULL, NULL, err));
        if (r->base.model) PN_TRY(pn_session_sync(r->base.session, r->chunk, at + n, NULL, NULL, err));
        for (size_t done = 0; at >= first && done < n; done += PIECE) {
            PN_TRY(score_piece(r, chunk, at + done, least(PIECE, n - done), err));
            report(r, chunk, at + least(done + PIECE, n));
        }
        at += n;
        report(r, chunk, at);
    }
    report(r, chunk, r->n_ctx);
    return PN_OK;
}

/* ---- before ---- */

static uint64_t vocabulary_hash(const pn_model *model) {
    uint64_t hash = 0;
    for (int32_t id = 0; id < model->info.n_vocab; id++) {
        pn_str piece = pn_tokenizer_piece(model->tokenizer, id);
        hash = XXH3_64bits_withSeed(piece.data, piece.len, hash);
    }
    return hash;
}

static pn_status check_vocabulary(const struct run *r, uint64_t n_vocab, uint64_t hash, const char *name,
                                  pn_error *err) {
    if (n_vocab != r->n_vocab)
        return pn_fail(err, PN_ERR_ARGUMENT, "the model has %zu tokens, %s has %llu: they cannot be compared",
                       r->n_vocab, name, (unsigned long long)n_vocab);
    if (hash != vocabulary_hash(r->model.model))
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "the vocabularies of the model and of %s differ: they cannot be compared", name);
    return PN_OK;
}

static pn_status open_reference(struct run *r, pn_error *err) {
    const char *path = r->options->reference;
    PN_TRY(pn_reference_open(path, &r->reference, err));
    const pn_reference_head *head = &r->reference.head;
    PN_TRY(check_vocabulary(r, head->n_vocab, head->vocabulary, path, err));
    if (r->options->n_ctx != 0 && (uint32_t)r->options->n_ctx != head->n_ctx)
        return pn_fail(err, PN_ERR_ARGUMENT, "%s was made in chunks of %u tokens, %d were asked for", path,
                       head->n_ctx, r->options->n_ctx);
    if (r->options->n_chunks > head->n_chunks)
        return pn_fail(err, PN_ERR_ARGUMENT, "%s holds %u chunks, %zu were asked for", path, head->n_chunks,
                       r->options->n_chunks);
    r->n_ctx = head->n_ctx;
    r->n_chunks = head->n_chunks;
    return PN_OK;
}

static pn_status check_context(const struct run *r, pn_error *err) {
    int trained = r->model.model->info.n_ctx_train;
    if (r->base.model && r->base.model->info.n_ctx_train < trained) trained = r->base.model->info.n_ctx_train;
    if (r->n_ctx < PN_REFERENCE_CTX_MIN || r->n_ctx > (size_t)trained || r->n_ctx > PN_REFERENCE_CTX_MAX)
        return pn_fail(err, PN_ERR_ARGUMENT, "chunks of %d tokens were asked for: %d to %d are possible here",
                       (int)r->n_ctx, PN_REFERENCE_CTX_MIN, trained);
    return PN_OK;
}

static pn_status cut_text(struct run *r, const char *text, size_t len, pn_error *err) {
    PN_TRY(pn_tokenize(r->model.model, text, len, PN_TOKENIZE_BOS, &r->tokens, err));
    const size_t n = r->tokens.n / r->n_ctx;
    r->wants_bos = r->tokens.n > 0 && r->tokens.ids[0] == r->model.model->roles.bos;
    if (n == 0)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "the text has %zu tokens, fewer than a chunk of %zu: take a longer text, or smaller "
                       "chunks",
                       r->tokens.n, r->n_ctx);
    if (has_reference(r) && r->options->n_chunks == 0 && n < r->n_chunks)
        return pn_fail(err, PN_ERR_ARGUMENT, "%s was made of another text: it holds %zu chunks, this has %zu",
                       r->options->reference, r->n_chunks, n);
    if (r->n_chunks == 0 || r->n_chunks > n) r->n_chunks = n;
    if (r->options->n_chunks > 0) r->n_chunks = least(r->n_chunks, r->options->n_chunks);
    return PN_OK;
}

static pn_status start_side(const struct run *r, struct side *side, pn_error *err) {
    const pn_session_options options = {.n_ctx = (int)r->n_ctx,
                                        .n_chunk = PASS,
                                        .kv_type = r->options->kv_type,
                                        .precision = r->options->precision,
                                        .lookup = PN_LOOKUP_OFF};
    PN_TRY(pn_session_create(side->model, &options, &side->session, err));
    side->logits = pn_alloc(PN_MEM_SCRATCH, PIECE * r->n_vocab, sizeof *side->logits);
    return side->logits ? PN_OK : pn_fail_memory(err, "logits", PIECE * r->n_vocab * sizeof *side->logits);
}

static void copy_name(char out[128], const char *name) {
    size_t len = strnlen(name, 127);
    memcpy(out, name, len);
    out[len] = '\0';
}

static pn_status start_writer(struct run *r, pn_error *err) {
    const pn_model *model = r->model.model;
    if (r->n_chunks > UINT32_MAX)
        return pn_fail(err, PN_ERR_LIMIT, "%zu chunks are too many for a reference", r->n_chunks);
    pn_reference_head head = {.n_vocab = (uint32_t)r->n_vocab,
                              .n_ctx = (uint32_t)r->n_ctx,
                              .n_chunks = (uint32_t)r->n_chunks,
                              .precision = r->options->precision,
                              .vocabulary = vocabulary_hash(model)};
    copy_name(head.name, model->info.name);
    return pn_reference_create(r->options->save_reference, &head, &r->writer, err);
}

static pn_status start(struct run *r, const char *text, size_t len, pn_error *err) {
    const pn_perplexity_options *o = r->options;
    if (o->base && o->reference)
        return pn_fail(err, PN_ERR_ARGUMENT, "a base and a reference exclude each other");
    r->n_vocab = (size_t)r->model.model->info.n_vocab;
    r->n_ctx = o->n_ctx != 0 ? (size_t)o->n_ctx : DEFAULT_CTX;
    if (o->base)
        PN_TRY(check_vocabulary(r, (uint64_t)o->base->info.n_vocab, vocabulary_hash(o->base),
                                o->base->info.name, err));
    if (o->reference) PN_TRY(open_reference(r, err));
    PN_TRY(check_context(r, err));
    PN_TRY(cut_text(r, text, len, err));
    r->chunk = pn_alloc(PN_MEM_OTHER, r->n_ctx, sizeof *r->chunk);
    r->divergences = pn_alloc(PN_MEM_OTHER, r->n_chunks * pn_scored_count(r->n_ctx), sizeof *r->divergences);
    if (!r->chunk || !r->divergences)
        return pn_fail_memory(err, "scores", r->n_chunks * r->n_ctx * sizeof *r->divergences);
    PN_TRY(start_side(r, &r->model, err));
    if (o->base) PN_TRY(start_side(r, &r->base, err));
    return o->save_reference ? start_writer(r, err) : PN_OK;
}

/* ---- after ---- */

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The value that `share` of n sorted ones do not pass, between two of them in proportion. */
static double quantile(const float *sorted, size_t n, double share) {
    double at = share * (double)(n - 1);
    size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;
    return (double)sorted[below] + (at - (double)below) * ((double)sorted[above] - (double)sorted[below]);
}

static void summarise(struct run *r, pn_perplexity_result *out) {
    const size_t n = r->loss.n;
    *out = (pn_perplexity_result){
        .n_ctx = (int)r->n_ctx, .n_chunks = r->n_chunks, .n_scored = n, .ppl = pn_spread_exp(&r->loss)};
    if (!r->base.model && !has_reference(r)) return;
    qsort(r->divergences, n, sizeof *r->divergences, compare_floats);
    out->base_ppl = pn_spread_exp(&r->base_loss);
    out->ppl_ratio = pn_spread_exp(&r->loss_ratio);
    out->kl = pn_spread_mean(&r->divergence);
    out->kl_p99 = quantile(r->divergences, n, 0.99);
    out->kl_max = (double)r->divergences[n - 1];
    out->same_top = pn_spread_mean(&r->same_top);
    out->base_precision = has_reference(r) ? r->reference.head.precision : r->options->precision;
    copy_name(out->base_name, has_reference(r) ? r->reference.head.name : r->base.model->info.name);
}

static void finish_side(struct side *side) {
    pn_free(side->logits);
    pn_session_free(side->session);
}

static void finish(struct run *r) {
    pn_reference_writer_free(r->writer);
    pn_reference_close(&r->reference);
    finish_side(&r->model);
    finish_side(&r->base);
    pn_tokens_free(&r->tokens);
    pn_free(r->chunk);
    pn_free(r->divergences);
}

static pn_status walk(struct run *r, const char *text, size_t len, pn_error *err) {
    PN_TRY(start(r, text, len, err));
    for (size_t chunk = 0; chunk < r->n_chunks; chunk++)
        PN_TRY(score_chunk(r, chunk, err));
    return r->writer ? pn_reference_finish(r->writer, err) : PN_OK;
}

pn_status pn_perplexity(pn_model *model, const char *text, size_t len, const pn_perplexity_options *options,
                        pn_perplexity_result *out, pn_error *err) {
    static const pn_perplexity_options defaults = {0};
    const pn_perplexity_options *o = options ? options : &defaults;
    if (!model || (!text && len > 0)) return pn_fail(err, PN_ERR_ARGUMENT, "a model and a text are needed");
    struct run r = {.options = o, .model.model = model, .base.model = o->base};
    pn_status status = walk(&r, text, len, err);
    if (status == PN_OK) summarise(&r, out);
    finish(&r);
    return status;
}
