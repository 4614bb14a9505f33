/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <string.h>

/* An answer in the making. */
struct answer {
    pn_session *session;
    const pn_generate_options *o;
    pn_stream stream;
    pn_rng rng;
    size_t max_tokens;
    int32_t *ids; /* grows */
    size_t n, cap;
    pn_finish finish;
    bool slides;        /* when the context is full */
    size_t n_keep, cut; /* tokens of the text that stay, and that were cut after them */
};

static pn_status check(const pn_session *s, size_t n_prompt, const pn_generate_options *o, pn_error *err) {
    if (n_prompt == 0)
        return pn_fail(err, PN_ERR_ARGUMENT, "the prompt is empty: there is nothing to continue");
    if (o->max_tokens < 0)
        return pn_fail(err, PN_ERR_ARGUMENT, "max_tokens is %d: expected 0 (no limit) or more",
                       o->max_tokens);
    for (size_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !*o->stop[i])
            return pn_fail(err, PN_ERR_ARGUMENT, "stop string %zu is empty: it would end every answer",
                           i + 1);
    return pn_sampling_check(&o->sampling, (size_t)s->model->decoder->n_vocab, err);
}

static pn_status keep_token(struct answer *a, int32_t id, pn_error *err) {
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 64;
        int32_t *ids = pn_realloc(a->ids, cap, sizeof *ids);
        if (!ids) return pn_fail_memory(err, "answer tokens", cap * sizeof *ids);
        a->ids = ids;
        a->cap = cap;
    }
    a->ids[a->n++] = id;
    PN_TRY(
        pn_tokenizer_decode_token(a->session->model->tokenizer, id, false, false, &a->stream.pending, err));
    return pn_stream_advance(&a->stream, err);
}

/* Samples one token from a row of logits, after a timeline of n_history tokens, and shows it; *over when the
   answer ends with it or before it. */
static pn_status sample(struct answer *a, const float *logits, size_t n_history, int32_t *id, bool *over,
                        pn_error *err) {
    pn_session *s = a->session;
    PN_TRY(pn_sampler_next(s->sampler, &a->o->sampling, logits, s->tokens, n_history, &a->rng, id, err));
    if (s->profiling) pn_profile_lap(&s->profile, PN_OP_SAMPLE);
    if (a->o->on_token) a->o->on_token(a->o->user, *id, logits);
    *over = true;
    if (!a->o->ignore_eos && pn_tokenizer_is_end(s->model->tokenizer, *id)) {
        a->finish = PN_FINISH_STOP;
        return PN_OK;
    }
    PN_TRY(keep_token(a, *id, err));
    if (a->stream.stopped_by)
        a->finish = PN_FINISH_STOP;
    else if (a->stream.refused || pn_session_take_cancel(s))
        a->finish = PN_FINISH_CANCELLED;
    else if (a->n >= a->max_tokens || (n_history >= s->n_ctx && !a->slides))
        a->finish = PN_FINISH_LENGTH;
    else
        *over = false;
    return PN_OK;
}

/* Guesses at what follows the token that is about to be computed, as many as the context, max_tokens and the
   scratch leave room for. */
static size_t guess(const struct answer *a, int32_t id, int32_t *draft) {
    pn_session *s = a->session;
    size_t n = s->kv.n_tokens, room = s->n_ctx - n - 1, max = PN_DRAFT_MAX;
    if (!s->lookup) return 0;
    if (room < max) max = room;
    if (s->scratch.n_chunk - 1 < max) max = s->scratch.n_chunk - 1;
    if (a->max_tokens - a->n < max) max = a->max_tokens - a->n;
    s->tokens[n] = id; /* the token is not computed yet, but is part of the text */
    return pn_lookup_draft(s->lookup, s->options.lookup == PN_LOOKUP_ON, s->tokens, n + 1, max, draft);
}

/* Computes *id with guesses after it, and samples from the logits after each token for as long as the sample
   is the guess; what was guessed wrong is taken back. *id is then the token sampled last. */
static pn_status step(struct answer *a, int32_t *id, bool *over, pn_generate_result *r, pn_error *err) {
    pn_session *s = a->session;
    int32_t tokens[PN_DRAFT_MAX + 1] = {*id};
    size_t n_draft = guess(a, *id, tokens + 1), first = s->kv.n_tokens,
           n_vocab = (size_t)s->model->decoder->n_vocab;
    const pn_top top = a->o->on_token ? (pn_top){0} : pn_sampling_top(&a->o->sampling);
    double start = pn_clock_seconds();
    PN_TRY(pn_session_extend(s, tokens, n_draft + 1, top, err));
    double seconds = pn_clock_seconds() - start;
    size_t i = 0;
    pn_status status;
    for (;; i++) {
        status = sample(a, s->logits + i * n_vocab, first + i + 1, id, over, err);
        if (status != PN_OK || *over || i == n_draft || *id != tokens[i + 1]) break;
    }
    pn_session_take_back(s, n_draft - i);
    if (s->lookup) pn_lookup_learn(s->lookup, n_draft + 1, i, seconds);
    r->n_drafted += n_draft;
    r->n_accepted += i;
    return status;
}

/* Cuts out so much of the text that one more token fits, and computes the rest again. */
static pn_status slide(struct answer *a, pn_generate_result *r, pn_error *err) {
    pn_session *s = a->session;
    const size_t cut = pn_overflow_cut(s->kv.n_tokens + a->cut, a->n_keep, s->n_ctx), n = cut - a->cut;
    a->cut = cut;
    r->n_slides++;
    return pn_overflow_sync(s, s->tokens, s->kv.n_tokens, a->n_keep, n, NULL, NULL, err);
}

static pn_status decode(struct answer *a, double start, pn_generate_result *r, pn_error *err) {
    pn_session *s = a->session;
    bool over = false;
    int32_t id = 0;
    PN_TRY(sample(a, pn_session_logits(s), s->kv.n_tokens, &id, &over, err));
    double first = pn_clock_seconds();
    while (!over) {
        pn_status status = s->kv.n_tokens == s->n_ctx ? slide(a, r, err) : PN_OK;
        if (status == PN_OK) status = step(a, &id, &over, r, err);
        if (status == PN_ERR_CANCELLED) {
            a->finish = PN_FINISH_CANCELLED;
            break;
        }
        PN_TRY(status);
    }
    r->ttft_seconds = first - start;
    r->decode_seconds = pn_clock_seconds() - first;
    if (s->lookup) r->lookup_break_even = pn_lookup_break_even(s->lookup);
    return PN_OK;
}

static pn_status hand_over(struct answer *a, pn_generate_result *r, pn_error *err) {
    PN_TRY(pn_stream_finish(&a->stream, err));
    r->text.data = pn_buf_take(&a->stream.text, &r->text.len);
    if (!r->text.data) return pn_fail_memory(err, "answer text", a->stream.text.len);
    r->tokens = (pn_tokens){a->ids, a->n};
    r->finish = a->finish;
    r->stopped_by = a->stream.stopped_by;
    a->ids = NULL;
    return PN_OK;
}

/* Where the prompt fits but keeps so much that nothing could be cut, the answer ends with the context. */
static pn_status begin_sliding(struct answer *a, const int32_t *prompt, size_t n_prompt, pn_error *err) {
    const size_t n_ctx = a->session->n_ctx,
                 asked = pn_session_n_keep(a->session, prompt, n_prompt, a->o->n_keep);
    if (a->session->options.overflow != PN_OVERFLOW_SLIDE) return PN_OK;
    const pn_status status = pn_overflow_keep(asked, n_ctx, &a->n_keep, err);
    if (status != PN_OK) return n_prompt < n_ctx ? PN_OK : status;
    a->slides = true;
    a->cut = pn_overflow_cut(n_prompt, a->n_keep, n_ctx);
    return PN_OK;
}

/* Cancelling in prefill is no failure: the answer is empty and says so. */
static pn_status run(struct answer *a, const int32_t *prompt, size_t n_prompt, pn_generate_result *r,
                     pn_error *err) {
    const double start = pn_clock_seconds();
    const size_t steps_before = a->session->n_step_downs;
    PN_TRY(begin_sliding(a, prompt, n_prompt, err));
    r->n_slides = a->cut > 0;
    pn_status status =
        pn_overflow_sync(a->session, prompt, n_prompt, a->n_keep, a->cut, a->o->on_prefill, a->o->user, err);
    r->n_reused = a->session->n_reused;
    r->n_prefilled = a->session->n_prefilled;
    r->prefill_seconds = a->session->prefill_seconds;
    if (status == PN_ERR_CANCELLED)
        a->finish = PN_FINISH_CANCELLED;
    else if (status != PN_OK)
        return status;
    else
        PN_TRY(decode(a, start, r, err));
    if (a->cut > 0) {
        r->cut_from = a->n_keep;
        r->cut_to = a->n_keep + a->cut;
    }
    r->n_step_downs = a->session->n_step_downs - steps_before;
    r->n_stepped = r->n_step_downs > 0 ? a->session->n_stepped : 0;
    r->kv_type = a->session->kv.type;
    return hand_over(a, r, err);
}

/* The most tokens of an answer: where the context slides there would be no end. */
static size_t most_tokens(const pn_session *s, const pn_generate_options *o) {
    if (o->max_tokens > 0) return (size_t)o->max_tokens;
    return s->options.overflow == PN_OVERFLOW_SLIDE ? s->n_ctx : SIZE_MAX;
}

pn_status pn_generate(pn_session *session, const int32_t *prompt, size_t n_prompt,
                      const pn_generate_options *options, pn_generate_result *result, pn_error *err) {
    pn_generate_options plain = {.sampling = pn_sampling_default()};
    if (!options) options = &plain;
    PN_TRY(check(session, n_prompt, options, err));
    struct answer a = {.session = session, .o = options, .max_tokens = most_tokens(session, options)};
    pn_generate_result r = {.n_prompt = n_prompt,
                            .seed =
                                options->sampling.has_seed ? options->sampling.seed : pn_rng_fresh_seed()};
    pn_rng_seed(&a.rng, r.seed);
    pn_stream_init(&a.stream, options);
    pn_status status = run(&a, prompt, n_prompt, &r, err);
    if (status == PN_OK)
        *result = r;
    else
        pn_text_free(&r.text);
    pn_session_take_cancel(session); /* one that came as the answer ended anyway was meant for it */
    pn_stream_done(&a.stream);
    pn_free(a.ids);
    return status;
}

void pn_generate_result_free(pn_generate_result *result) {
    if (!result) return;
    pn_text_free(&result->text);
    pn_tokens_free(&result->tokens);
}
