/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/chat/completions. */
#include "api_format.h"
#include "buffer.h"

#include <limits.h>
#include <string.h>

static json_t *token_json(const char *piece, size_t len, float logprob) {
    json_t *bytes = json_array();
    for (size_t i = 0; i < len; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece[i]));
    return json_pack("{s:o, s:f, s:o}", "token", clean_json(piece, len), "logprob", (double)logprob, "bytes",
                     bytes);
}

static json_t *scored_json(const scored_token *t) {
    json_t *json = token_json(t->piece.data, t->piece.len, t->token.logprob), *top = json_array();
    for (int i = 0; i < t->n_top; i++)
        json_array_append_new(top,
                              token_json(t->top_pieces[i].data, t->top_pieces[i].len, t->top[i].logprob));
    json_object_set_new(json, "top_logprobs", top);
    return json;
}

static json_t *logprobs_json(const answer_part *part) {
    if (part->tokens == NULL) return json_null();
    json_t *content = json_array();
    for (size_t i = 0; i < part->n_tokens; i++)
        json_array_append_new(content, scored_json(&part->tokens->items[i]));
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

static json_t *choice(const answer_part *part, const char *name, json_t *message) {
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", part->index, name, message, "logprobs",
                     logprobs_json(part), "finish_reason", part->finish);
}

static json_t *whole(const answer_part *part) {
    return choice(part, "message",
                  json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                            clean_json(part->text, part->len), "refusal"));
}

static json_t *piece(const answer_part *part) {
    json_t *delta = json_object();
    if (part->first) json_object_set_new(delta, "role", json_string("assistant"));
    if (part->first || part->len > 0)
        json_object_set_new(delta, "content", clean_json(part->text, part->len));
    return choice(part, "delta", delta);
}

static const api_format chat_format = {.object = "chat.completion",
                                       .chunk_object = "chat.completion.chunk",
                                       .role_first = true,
                                       .choice = whole,
                                       .last_line = "data: [DONE]\n\n",
                                       .whole = openai_whole,
                                       .send_piece = openai_send_piece,
                                       .send_end = openai_send_end,
                                       .piece = piece};

static bool read_messages(const fields *f, generation *g) {
    g->messages = fields_get(f, "messages");
    if (!json_is_array(g->messages)) return fields_wrong(f, "messages", "a list of messages");
    if (json_array_size(g->messages) == 0)
        return api_error_set(f->error, 400, "invalid_value", "messages", "'messages' is empty");
    for (size_t i = 0; i < json_array_size(g->messages); i++) {
        const json_t *message = json_array_get(g->messages, i);
        if (!json_is_object(message) || !json_is_string(json_object_get(message, "role")))
            return api_error_set(f->error, 400, "invalid_value", "messages",
                                 "'messages[%zu]' is not an object with a 'role'", i);
    }
    return true;
}

static bool read_logprobs(const fields *f, generation *g) {
    bool wanted = false;
    int n_top = 0;
    if (!fields_bool(f, "logprobs", &wanted) || !fields_int(f, "top_logprobs", 0, LOGPROBS_TOP_MAX, &n_top))
        return false;
    if (n_top > 0 && !wanted)
        return api_error_set(f->error, 400, "invalid_value", "top_logprobs",
                             "'top_logprobs' is only possible with 'logprobs': true");
    g->n_logprobs = wanted ? n_top : -1;
    return true;
}

generation *chat_api_read(json_t *body, api_error *error) {
    generation *g = generation_create(body, "chatcmpl", error);
    if (g == NULL) return NULL;
    const fields f = {body, error};
    g->format = &chat_format;
    if (read_messages(&f, g) && fields_int(&f, "max_tokens", 1, INT_MAX, &g->max_tokens) &&
        fields_int(&f, "max_completion_tokens", 1, INT_MAX, &g->max_tokens) && read_logprobs(&f, g))
        return g;
    generation_free(g);
    return NULL;
}
