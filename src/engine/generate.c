/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <string.h>

/* An answer in the making. */
struct answer {
    pn_session *session;
    const pn_generate_options *o;
    pn_stream stream;
    pn_rng rng;
    int32_t *ids; /* grows */
    size_t n, cap;
    pn_finish finish;
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

/* Samples one token and shows it; *over when the answer ends with it or before it. */
static pn_status sample(struct answer *a, int32_t *id, bool *over, pn_error *err) {
    pn_session *s = a->session;
    PN_TRY(
        pn_sampler_next(s->sampler, &a->o->sampling, s->logits, s->tokens, s->kv.n_tokens, &a->rng, id, err));
    *over = true;
    if (!a->o->ignore_eos && pn_tokenizer_is_end(s->model->tokenizer, *id)) {
        a->finish = PN_FINISH_STOP;
        return PN_OK;
    }
    PN_TRY(keep_token(a, *id, err));
    if (a->stream.stopped)
        a->finish = PN_FINISH_STOP;
    else if (a->stream.refused || pn_session_take_cancel(s))
        a->finish = PN_FINISH_CANCELLED;
    else if ((a->o->max_tokens && a->n >= (size_t)a->o->max_tokens) || s->kv.n_tokens >= s->n_ctx)
        a->finish = PN_FINISH_LENGTH;
    else
        *over = false;
    return PN_OK;
}

static pn_status decode(struct answer *a, double start, pn_generate_result *r, pn_error *err) {
    bool over = false;
    int32_t id = 0;
    PN_TRY(sample(a, &id, &over, err));
    double first = pn_clock_seconds();
    while (!over) {
        pn_status status = pn_session_append(a->session, id, err);
        if (status == PN_ERR_CANCELLED) {
            a->finish = PN_FINISH_CANCELLED;
            break;
        }
        PN_TRY(status);
        PN_TRY(sample(a, &id, &over, err));
    }
    r->ttft_seconds = first - start;
    r->decode_seconds = pn_clock_seconds() - first;
    return PN_OK;
}

static pn_status hand_over(struct answer *a, pn_generate_result *r, pn_error *err) {
    PN_TRY(pn_stream_finish(&a->stream, err));
    r->text.data = pn_buf_take(&a->stream.text, &r->text.len);
    if (!r->text.data) return pn_fail_memory(err, "answer text", a->stream.text.len);
    r->tokens = (pn_tokens){a->ids, a->n};
    r->finish = a->finish;
    a->ids = NULL;
    return PN_OK;
}

/* Cancelling in prefill is no failure: the answer is empty and says so. */
static pn_status run(struct answer *a, const int32_t *prompt, size_t n_prompt, pn_generate_result *r,
                     pn_error *err) {
    double start = pn_clock_seconds();
    pn_status status = pn_session_sync(a->session, prompt, n_prompt, a->o->on_prefill, a->o->user, err);
    r->n_reused = a->session->n_reused;
    r->prefill_seconds = a->session->prefill_seconds;
    if (status == PN_ERR_CANCELLED)
        a->finish = PN_FINISH_CANCELLED;
    else if (status != PN_OK)
        return status;
    else
        PN_TRY(decode(a, start, r, err));
    return hand_over(a, r, err);
}

pn_status pn_generate(pn_session *session, const int32_t *prompt, size_t n_prompt,
                      const pn_generate_options *options, pn_generate_result *result, pn_error *err) {
    pn_generate_options plain = {.sampling = pn_sampling_default()};
    if (!options) options = &plain;
    PN_TRY(check(session, n_prompt, options, err));
    struct answer a = {.session = session, .o = options};
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
