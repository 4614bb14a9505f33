/* SPDX-License-Identifier: Apache-2.0 */
/* Why was it not reused? By tokens alone, for every sync; and with the messages that a prompt is made of. */
#include "engine/engine.h"

#include <jansson.h>

const char *pn_cache_cause_name(pn_cache_cause cause) {
    static const char *const names[PN_CACHE_CAUSE_COUNT] = {
        [PN_CACHE_REUSED] = "reused",
        [PN_CACHE_NOTHING_BEFORE] = "nothing_before",
        [PN_CACHE_CHANGED] = "changed",
        [PN_CACHE_EVICTED] = "evicted",
        [PN_CACHE_OTHER_PRECISION] = "other_precision",
        [PN_CACHE_SLID] = "slid",
        [PN_CACHE_EDITED] = "edited",
        [PN_CACHE_CLOCK] = "clock",
        [PN_CACHE_THINKING_REMOVED] = "thinking_removed",
        [PN_CACHE_TEMPLATE] = "template",
        [PN_CACHE_RETOKENIZED] = "retokenized",
    };
    return (unsigned)cause < PN_CACHE_CAUSE_COUNT ? names[cause] : "unknown";
}

static size_t greater(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t lesser(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Tokens of a text that the sessions of another type or precision have. */
static size_t known_elsewhere(pn_session *s, const int32_t *tokens, size_t n) {
    pn_model *m = s->model;
    size_t most = 0;
    pthread_mutex_lock(&m->stores_lock);
    for (size_t i = 0; i < PN_KV_TYPE_COUNT; i++)
        for (size_t j = 0; j < PN_PRECISIONS; j++)
            if (m->stores[i][j] && m->stores[i][j] != s->kv.store)
                most = greater(most, pn_kv_store_trace(m->stores[i][j], tokens, n).n_held * PN_KV_BLOCK);
    pthread_mutex_unlock(&m->stores_lock);
    return most;
}

pn_cache_cause pn_explain_miss(pn_session *s, const int32_t *tokens, size_t n, size_t had, size_t own,
                               size_t at, size_t *n_known) {
    *n_known = at;
    if (n == 0 || at + 1 >= n) return PN_CACHE_REUSED;
    const pn_kv_trace trace = pn_kv_store_trace(s->kv.store, tokens, n);
    const size_t held = greater(trace.n_held * PN_KV_BLOCK, own);
    if (held > at || trace.n_given_up > 0) {
        *n_known = greater(held, (trace.n_held + trace.n_given_up) * PN_KV_BLOCK);
        /* Texts that were packed to fewer bits have left the tree. */
        return held > own && s->kv.type != s->kv.store->shape.type ? PN_CACHE_OTHER_PRECISION
                                                                   : PN_CACHE_EVICTED;
    }
    const size_t elsewhere = known_elsewhere(s, tokens, n);
    if (elsewhere > at) {
        *n_known = elsewhere;
        return PN_CACHE_OTHER_PRECISION;
    }
    if (at == 0 && had == 0) return PN_CACHE_NOTHING_BEFORE;
    /* All that it had goes on, or another text that begins so was taken over. */
    if (own == had || at > own) return PN_CACHE_REUSED;
    *n_known = lesser(had, n);
    return own == s->cut_at ? PN_CACHE_SLID : PN_CACHE_CHANGED;
}

/* ---- with messages ---- */

/* What is being explained. */
struct question {
    pn_session *session;
    pn_rendering now;
    pn_tokens prompt;
    json_t *messages, *before; /* before: NULL where it is not known */
};

/* Text of the first n tokens as a rendering has it: without a BOS that the tokenizer put before it. */
static pn_status text_of(const struct question *q, size_t n, pn_buf *out, pn_error *err) {
    const pn_model *m = q->session->model;
    const int32_t *ids = q->session->tokens;
    const pn_str bos = pn_tokenizer_piece(m->tokenizer, m->roles.bos);
    const bool added = n > 0 && ids[0] == m->roles.bos &&
                       (q->now.text.len < bos.len || memcmp(q->now.text.data, bos.data, bos.len) != 0);
    pn_buf_init(out, PN_BUF_NO_BOUND);
    return pn_tokenizer_decode(m->tokenizer, ids + added, n - added, true, out, err);
}

/* The same bytes go on past both tokens that differ. */
static bool is_retokenized(const struct question *q, pn_str old, size_t n_same_bytes,
                           const pn_cache_explanation *e) {
    const pn_tokenizer *tok = q->session->model->tokenizer;
    const size_t most =
        greater(pn_tokenizer_piece(tok, e->old_token).len, pn_tokenizer_piece(tok, e->new_token).len);
    size_t i = n_same_bytes;
    while (i < old.len && i < q->now.text.len && old.data[i] == q->now.text.data[i])
        i++;
    return i == old.len || i - n_same_bytes > most;
}

/* The cause of a text that departs after n_common tokens. */
static pn_status find_departure(const struct question *q, pn_cache_explanation *e, pn_error *err) {
    pn_buf old, same;
    pn_status status = text_of(q, e->n_timeline, &old, err);
    if (status == PN_OK) {
        status = text_of(q, e->n_common, &same, err);
        const pn_str text = {old.data ? old.data : "", old.len};
        const bool parts = pn_departure_find(text, &q->now, q->messages, q->before, e);
        if (status == PN_OK && (!parts || is_retokenized(q, text, same.len, e)))
            e->cause = PN_CACHE_RETOKENIZED;
        pn_buf_done(&same);
    }
    pn_buf_done(&old);
    return status;
}

/* What the next sync is going to have, but for what windows have passed and what lies on disk. */
static pn_status explain(const struct question *q, pn_cache_explanation *out, pn_error *err) {
    pn_session *s = q->session;
    const int32_t *ids = q->prompt.ids;
    const size_t n = q->prompt.n, had = s->kv.n_tokens;
    size_t own = 0;
    while (own < n && own < had && ids[own] == s->tokens[own])
        own++;
    pn_cache_explanation e = {.n_prompt = n, .n_timeline = had, .n_common = own, .message = -1};
    e.old_token = own < had ? s->tokens[own] : -1;
    e.new_token = own < n ? ids[own] : -1;
    const size_t held = pn_kv_store_trace(s->kv.store, ids, n).n_held * PN_KV_BLOCK;
    e.cause = pn_explain_miss(s, ids, n, had, own, greater(own, held), &e.n_known);
    if (e.cause == PN_CACHE_CHANGED) PN_TRY(find_departure(q, &e, err));
    *out = e;
    return PN_OK;
}

pn_status pn_chat_explain(pn_session *session, const char *messages_json, const pn_chat_options *options,
                          const char *before_json, pn_cache_explanation *out, pn_error *err) {
    struct question q = {.session = session};
    pn_status status = PN_OK;
    PN_TRY_GOTO(status, pn_chat_messages(messages_json, &q.messages, err), done);
    if (before_json) PN_TRY_GOTO(status, pn_chat_messages(before_json, &q.before, err), done);
    PN_TRY_GOTO(status, pn_chat_rendering(session->model, messages_json, options, &q.now, err), done);
    PN_TRY_GOTO(status, pn_chat_encode(session->model, &q.now, &q.prompt, err), done);
    status = explain(&q, out, err);
done:
    pn_tokens_free(&q.prompt);
    pn_rendering_free(&q.now);
    json_decref(q.before);
    json_decref(q.messages);
    return status;
}
