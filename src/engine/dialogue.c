/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a conversation in a session. */
#include "engine/engine.h"

#include <xxhash.h>

static uint64_t hash_of(const int32_t *tokens, size_t n) {
    return XXH3_64bits(tokens, n * sizeof *tokens);
}

pn_status pn_session_start_chat(pn_session *s, const char *messages_json, const pn_chat_options *options,
                                pn_progress_fn progress, void *user, pn_error *err) {
    pn_tokens tokens = {0};
    PN_TRY(pn_chat_prefix(s->model, messages_json, options, &tokens, err));
    s->n_begin = tokens.n;
    s->begin_hash = hash_of(tokens.ids, tokens.n);
    const pn_status status = pn_session_sync(s, tokens.ids, tokens.n, progress, user, err);
    pn_tokens_free(&tokens);
    return status;
}

void pn_session_finish_chat(pn_session *s) {
    s->n_begin = 0;
    pn_kv_publish(&s->kv, s->tokens);
    pn_spill_save(s);
    pn_session_sync(s, s->tokens, 0, NULL, NULL, NULL);
}

size_t pn_session_n_keep(const pn_session *s, const int32_t *prompt, size_t n, size_t asked) {
    const bool known = s->n_begin <= n && hash_of(prompt, s->n_begin) == s->begin_hash;
    return known && s->n_begin > asked ? s->n_begin : asked;
}
