/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include "api_format.h"
#include "clock.h"
#include "prompts.h"
#include "scoring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
    job *job;
    const generation *g;
    sessions *sessions;
    const char *model_name;
    pn_model_info info;
    prompts prompts;
    json_t *choices; /* of an answer that is no stream */
    request_record record;
    api_error error;
    /* The choice at hand. */
    int index;
    bool first;           /* nothing of it was sent */
    scored_tokens scored; /* not sent yet */
    buffer echo;          /* the prompt's text */
    size_t n_carried;     /* bytes of the first of these that were sent */
    size_t text_offset;
    size_t n_sampled; /* with an end-of-generation token */
    bool failed;      /* no memory */
} answer;

/* ---- events ---- */

static answer_head head_of(const answer *a) {
    return (answer_head){
        .work = a->g, .model_name = a->model_name, .record = &a->record, .n_prompt = a->prompts.items[0].n};
}

static bool send_event(void *user, const char *name, json_t *data) {
    answer *a = user;
    char *text = data != NULL ? json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(8)) : NULL;
    buffer out = {0};
    const bool made = text != NULL && (name == NULL || buffer_printf(&out, "event: %s\n", name)) &&
                      buffer_printf(&out, "data: %s\n\n", text);
    if (!made) a->failed = true;
    const bool sent = made && job_begin(a->job, 200, true) && job_write(a->job, out.data, out.len);
    buffer_free(&out);
    free(text);
    json_decref(data);
    return sent;
}

/* Sends text with the first n_tokens of those that are scored; with r where the choice ends. */
static bool send_text(answer *a, const char *text, size_t len, size_t n_tokens, const pn_generate_result *r) {
    const answer_head head = head_of(a);
    const event_sink to = {send_event, a};
    const answer_part part = {.index = a->index,
                              .first = a->first,
                              .text = text,
                              .len = len,
                              .tokens = a->g->n_logprobs >= 0 ? &a->scored : NULL,
                              .n_tokens = n_tokens,
                              .text_offset = a->text_offset,
                              .finish = r != NULL ? a->record.finish : NULL,
                              .stopped_by = r != NULL ? r->stopped_by : NULL};
    a->first = false;
    const bool sent = a->g->format->send_piece(&head, &part, &to);
    for (size_t i = 0; i < len; i++)
        a->text_offset += ((unsigned char)text[i] & 0xC0) != 0x80;
    if (n_tokens > 0) logprobs_drop(&a->scored, n_tokens);
    a->scored.n_entries = 0; /* those that were sent take no room any more */
    return sent;
}

/* ---- one choice ---- */

/* How many of the scored tokens have been shown whole when len more bytes of text have; what is shown of the
   next one is carried over. */
static size_t count_shown(answer *a, size_t len) {
    size_t n = 0;
    a->n_carried += len;
    while (n < a->scored.n && a->scored.items[n].piece.len <= a->n_carried)
        a->n_carried -= a->scored.items[n++].piece.len;
    return n;
}

static bool on_text(void *user, const char *text, size_t len) {
    answer *a = user;
    if (a->failed || job_is_gone(a->job)) return false;
    return !a->g->stream || send_text(a, text, len, count_shown(a, len), NULL);
}

static void on_token(void *user, int32_t id, const float *logits) {
    answer *a = user;
    a->n_sampled++;
    if (!logprobs_add(&a->scored, a->sessions->model, logits, (size_t)a->info.n_vocab, id, a->g->n_logprobs))
        a->failed = true;
}

/* Of the scored tokens those that are no part of the answer's text are forgotten: a stop string's, and where
   the API does not show it, the one that ended the answer. */
static void drop_hidden(answer *a, const pn_generate_result *r) {
    const bool by_token = a->n_sampled > r->tokens.n;
    size_t n = a->scored.n;
    if (by_token && !a->g->format->shows_end) n--;
    if (!by_token && r->finish == PN_FINISH_STOP) {
        size_t bytes = a->g->stream ? a->n_carried : a->echo.len + r->text.len;
        for (n = 0; n < a->scored.n && a->scored.items[n].piece.len <= bytes; n++)
            bytes -= a->scored.items[n].piece.len;
    }
    logprobs_keep(&a->scored, n);
}

static bool finish_choice(answer *a, const pn_generate_result *r) {
    a->record.finish = r->finish == PN_FINISH_STOP ? "stop" : "length";
    drop_hidden(a, r);
    if (a->g->stream) return send_text(a, "", 0, a->scored.n, r);
    buffer text = {0};
    buffer_append(&text, a->echo.data, a->echo.len);
    buffer_append(&text, r->text.data, r->text.len);
    const answer_part part = {.index = a->index,
                              .text = text.data != NULL ? text.data : "",
                              .len = text.len,
                              .tokens = a->g->n_logprobs >= 0 ? &a->scored : NULL,
                              .n_tokens = a->scored.n,
                              .finish = a->record.finish,
                              .stopped_by = r->stopped_by};
    json_t *choice = text.failed ? NULL : a->g->format->choice(&part);
    if (choice == NULL || json_array_append_new(a->choices, choice) != 0) a->failed = true;
    buffer_free(&text);
    return !a->failed;
}

static void count(answer *a, const pn_generate_result *r, int k) {
    request_record *record = &a->record;
    if (a->g->echo && a->g->n_logprobs >= 0) { /* all of the prompt was computed before */
        record->n_prompt += k == 0 ? r->n_prompt : 0;
        record->n_prefilled += r->n_prompt;
    } else if (k == 0) { /* the others share its prompt */
        record->n_prompt += r->n_prompt;
        record->n_reused += r->n_reused;
    }
    record->n_prefilled += r->n_prefilled;
    record->n_completion += r->tokens.n;
    record->prefill_seconds += r->prefill_seconds;
    record->decode_seconds += r->decode_seconds;
    if (record->ttft_seconds == 0) record->ttft_seconds = r->ttft_seconds;
}

static void record_context(answer *a, const pn_session *session, const pn_generate_result *r) {
    pn_session_stats stats;
    pn_session_get_stats(session, &stats);
    const bool slid = r->n_slides > 0; /* the last sync is then not the one that began it */
    a->record.context = (context_record){.cause = slid ? PN_CACHE_SLID : stats.cache_cause,
                                         .n_restored = slid ? 0 : stats.n_restored,
                                         .n_recomputed = slid ? 0 : stats.n_recomputed,
                                         .recomputed_seconds = slid ? 0 : stats.recomputed_seconds,
                                         .n_slides = r->n_slides,
                                         .cut_from = r->cut_from,
                                         .cut_to = r->cut_to,
                                         .kv_type = stats.kv_type,
                                         .n_step_downs = r->n_step_downs,
                                         .n_packed = r->n_stepped};
}

static pn_generate_options options_of(answer *a, int k) {
    pn_generate_options o = {.max_tokens = a->g->max_tokens,
                             .n_keep = a->prompts.n_keep,
                             .sampling = a->g->sampling,
                             .stop = a->g->stop,
                             .n_stop = a->g->n_stop,
                             .on_text = on_text,
                             .on_token = a->g->n_logprobs >= 0 ? on_token : NULL,
                             .user = a};
    o.sampling.seed += (uint64_t)k; /* choices of one seed differ, and are the same again */
    return o;
}

/* The prompt's text, and its tokens scored, where they are part of the answer. */
static pn_status begin_choice(answer *a, session_slot *slot, size_t p, pn_error *err) {
    const pn_tokens *prompt = &a->prompts.items[p];
    a->first = true;
    a->n_carried = a->text_offset = a->n_sampled = 0;
    logprobs_drop(&a->scored, a->scored.n);
    a->echo.len = 0;
    if (!a->g->echo) return PN_OK;
    pn_text text = {0};
    const raw_prompt *raw = &a->g->prompts[p];
    pn_status status = PN_OK;
    if (raw->text == NULL)
        status = pn_detokenize(a->sessions->model, prompt->ids, prompt->n, true, &text, err);
    const bool kept =
        status == PN_OK && (raw->text != NULL ? buffer_append(&a->echo, raw->text, raw->len)
                                              : buffer_append_clean(&a->echo, text.data, text.len));
    pn_text_free(&text);
    if (status == PN_OK && !kept) a->failed = true;
    if (status == PN_OK && a->g->n_logprobs >= 0)
        status = scoring_prompt(slot->session, a->sessions->model, prompt, a->g->n_logprobs, &a->scored, err);
    return status;
}

static pn_status generate(answer *a, session_slot *slot, size_t p, int k, pn_generate_result *r,
                          pn_error *err) {
    const pn_tokens *prompt = &a->prompts.items[p];
    pn_status status = begin_choice(a, slot, p, err);
    if (status != PN_OK || a->failed) return status;
    if (a->g->stream && a->echo.len > 0 && !send_text(a, a->echo.data, a->echo.len, a->scored.n, NULL))
        return PN_OK;
    if (a->g->max_tokens < 0) {
        r->finish = PN_FINISH_LENGTH;
        r->n_prompt = prompt->n;
        return PN_OK;
    }
    const pn_generate_options o = options_of(a, k);
    return pn_generate(slot->session, prompt->ids, prompt->n, &o, r, err);
}

/* False: the answer ends here; with a->error where it failed. */
static bool answer_choice(answer *a, size_t p, int k) {
    pn_generate_result r = {0};
    pn_error err = {0};
    a->index = (int)p * a->g->n + k;
    session_slot *slot = sessions_take(a->sessions, a->g, &a->prompts.items[p], &a->error);
    if (slot == NULL || !job_enter(a->job, slot->session)) return false;
    const pn_status status = generate(a, slot, p, k, &r, &err);
    job_leave(a->job);
    pn_session_set_takeover(slot->session, true);
    sessions_note(slot, &a->prompts.items[p], &r.tokens);
    bool more = status == PN_OK && !a->failed && r.finish != PN_FINISH_CANCELLED;
    if (status == PN_OK) count(a, &r, k);
    if (status == PN_OK && a->index == 0) record_context(a, slot->session, &r);
    if (status != PN_OK && status != PN_ERR_CANCELLED) api_error_from(&a->error, &err, NULL);
    if (more) more = finish_choice(a, &r);
    pn_generate_result_free(&r);
    return more;
}

/* ---- the whole ---- */

static bool slides(const answer *a) {
    const pn_overflow usual = a->sessions->options.overflow;
    return (a->g->overflow >= 0 ? (pn_overflow)a->g->overflow : usual) == PN_OVERFLOW_SLIDE;
}

static void end_answer(answer *a) {
    const api_format *format = a->g->format;
    const answer_head head = head_of(a);
    const event_sink to = {send_event, a};
    if (!a->g->stream)
        job_answer(a->job, 200, format->whole(&head, json_incref(a->choices)));
    else if (format->send_end(&head, &to) && format->last_line != NULL)
        job_write(a->job, format->last_line, strlen(format->last_line));
}

static void refuse_many(api_error *error) {
    *error = (api_error){0}; /* who scores tokens can only say that there was no room */
    api_error_set(
        error, 400, "answer_too_large", "logprobs",
        "the answer has more than %zu log-probabilities: ask for fewer prompts or alternatives at a time",
        LOGPROBS_ENTRIES_MAX);
}

static void free_answer(answer *a) {
    prompts_free(&a->prompts, a->g);
    logprobs_free(&a->scored);
    buffer_free(&a->echo);
    json_decref(a->choices);
}

void answer_job(job *j, sessions *pool, const char *model_name, request_record *record) {
    answer a = {.job = j, .g = j->work, .sessions = pool, .model_name = model_name, .choices = json_array()};
    a.record = (request_record){.generated = true, .queue_seconds = clock_seconds() - j->arrived};
    pn_model_get_info(pool->model, &a.info);
    bool more = prompts_make(&a.prompts, a.g, pool->model, slides(&a), &a.error);
    for (size_t p = 0; more && p < a.g->n_prompts; p++)
        for (int k = 0; more && k < a.g->n; k++)
            more = answer_choice(&a, p, k);
    if (a.scored.n_entries > LOGPROBS_ENTRIES_MAX)
        refuse_many(&a.error);
    else if (a.failed)
        api_error_set(&a.error, 503, "out_of_memory", NULL, "there is no memory for the answer");
    if (more)
        end_answer(&a);
    else if (a.error.status != 0)
        job_fail(j, &a.error);
    *record = a.record;
    free_answer(&a);
}
