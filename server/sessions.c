/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pn_status add(sessions *s, pn_error *err) {
    session_slot *slot = &s->slots[s->n];
    *slot = (session_slot){0};
    const pn_status status = pn_session_create(s->model, &s->options, &slot->session, err);
    if (status == PN_OK) s->n++;
    return status;
}

pn_status sessions_init(sessions *s, pn_model *model, const pn_session_options *options, size_t n_max,
                        pn_error *err) {
    *s = (sessions){.model = model, .options = *options, .n_max = n_max};
    s->slots = calloc(n_max, sizeof *s->slots);
    if (s->slots == NULL) {
        *err = (pn_error){.code = PN_ERR_MEMORY, .position = PN_NO_POSITION};
        snprintf(err->message, sizeof err->message, "there is no memory for sessions");
        return PN_ERR_MEMORY;
    }
    const pn_status status = add(s, err);
    if (status != PN_OK) return status;
    /* Where the context was made to fit the budget, the others are to be of the same size, or not at all. */
    pn_session_stats stats;
    pn_session_get_stats(s->slots[0].session, &stats);
    if (options->tier == NULL) s->options.n_ctx = stats.n_ctx;
    return PN_OK;
}

void sessions_done(sessions *s) {
    for (size_t i = 0; i < s->n; i++) {
        pn_session_free(s->slots[i].session);
        free(s->slots[i].tokens);
    }
    free(s->slots);
    *s = (sessions){0};
}

static size_t common(const session_slot *slot, const int32_t *tokens, size_t n) {
    size_t i = 0;
    while (i < n && i < slot->n && slot->tokens[i] == tokens[i])
        i++;
    return i;
}

/* Tokens that a prompt may end with and that are not there when it goes on: what a template puts before an
 * answer. */
#define PROMPT_END 16

static bool has_name(const session_slot *slot, const char *name) {
    return name != NULL && slot->name[0] != '\0' && strncmp(slot->name, name, SESSIONS_NAME_MAX - 1) == 0;
}

size_t sessions_pick(const session_slot *slots, size_t n, bool full, const char *name, const int32_t *tokens,
                     size_t n_tokens) {
    size_t empty = SIZE_MAX, oldest = 0, best = SIZE_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t shared = common(&slots[i], tokens, n_tokens);
        if (has_name(&slots[i], name)) return i;
        if (slots[i].n == 0) empty = i;
        if (shared > most && shared + PROMPT_END >= slots[i].n_prompt) {
            best = i;
            most = shared;
        }
        if (slots[i].used < slots[oldest].used) oldest = i;
    }
    if (best != SIZE_MAX) return best;
    return empty != SIZE_MAX || !full ? empty : oldest;
}

/* Another size; where the timeline is too long for it, it goes. */
static pn_status resize(const sessions *s, pn_session *session, const char *tier, pn_error *err) {
    for (int attempt = 0;; attempt++) {
        const pn_status status = tier != NULL ? pn_session_set_tier(session, tier, err)
                                              : pn_session_resize(session, s->options.n_ctx, err);
        if (status != PN_ERR_LIMIT || attempt > 0) return status;
        pn_session_sync(session, NULL, 0, NULL, NULL, NULL);
    }
}

static bool prepare(const sessions *s, const generation *g, session_slot *slot, api_error *error) {
    pn_session_stats stats;
    pn_error err = {0};
    const char *tier = g->tier != NULL ? g->tier : s->options.tier;
    pn_session_get_stats(slot->session, &stats);
    const bool same = tier == NULL ? stats.tier == NULL : stats.tier != NULL && strcmp(tier, stats.tier) == 0;
    if (!same && resize(s, slot->session, tier, &err) != PN_OK) return api_error_from(error, &err, "tier");
    pn_session_set_overflow(slot->session, g->overflow >= 0 ? (pn_overflow)g->overflow : s->options.overflow);
    pn_session_set_takeover(slot->session, !g->no_cache);
    if (g->no_cache) pn_session_sync(slot->session, NULL, 0, NULL, NULL, NULL);
    return true;
}

session_slot *sessions_take(sessions *s, const generation *g, const pn_tokens *tokens, api_error *error) {
    size_t at = sessions_pick(s->slots, s->n, s->n == s->n_max, g->session, tokens->ids, tokens->n);
    if (at == SIZE_MAX) {
        at = s->n;
        if (add(s, NULL) != PN_OK) { /* the budget has no room for more than there are */
            s->n_max = s->n;
            at = sessions_pick(s->slots, s->n, true, g->session, tokens->ids, tokens->n);
        }
    }
    session_slot *slot = &s->slots[at];
    if (!prepare(s, g, slot, error)) return NULL;
    slot->used = ++s->n_uses;
    if (g->session != NULL) snprintf(slot->name, sizeof slot->name, "%s", g->session);
    return slot;
}

void sessions_note(session_slot *slot, const pn_tokens *prompt, const pn_tokens *answer) {
    const size_t n = prompt->n + answer->n;
    int32_t *tokens = realloc(slot->tokens, (n > 0 ? n : 1) * sizeof *tokens);
    if (tokens == NULL) { /* a slot that is taken for an empty one is only chosen worse */
        slot->n = 0;
        return;
    }
    if (prompt->n > 0) memcpy(tokens, prompt->ids, prompt->n * sizeof *tokens);
    if (answer->n > 0) memcpy(tokens + prompt->n, answer->ids, answer->n * sizeof *tokens);
    slot->tokens = tokens;
    slot->n = n;
    slot->n_prompt = prompt->n;
}

void sessions_measure(const sessions *s, uint64_t *kv_bytes, uint64_t *prefix_cache_bytes,
                      uint64_t *n_evicted) {
    *kv_bytes = *prefix_cache_bytes = *n_evicted = 0;
    for (size_t i = 0; i < s->n; i++) {
        pn_session_stats stats;
        pn_session_get_stats(s->slots[i].session, &stats);
        *kv_bytes += stats.kv_bytes;
        *prefix_cache_bytes = stats.prefix_cache_bytes; /* of one store that all of them share */
        *n_evicted = stats.n_evicted;
    }
}
