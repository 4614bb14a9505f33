/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/messages: Anthropic's API. */
#include "api_format.h"

#include <limits.h>
#include <string.h>

/* ---- answers ---- */

static json_t *text_block(const char *text, size_t len) {
    return json_pack("{s:s, s:o}", "type", "text", "text", clean_json(text, len));
}

static json_t *reason(const answer_part *part) {
    const char *name = strcmp(part->finish, "length") == 0 ? "max_tokens"
                       : part->stopped_by != NULL          ? "stop_sequence"
                                                           : "end_turn";
    return json_pack("{s:s, s:s?}", "stop_reason", name, "stop_sequence", part->stopped_by);
}

static json_t *usage(const request_record *r, size_t n_prompt) {
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(n_prompt - r->n_reused),
                     "cache_read_input_tokens", (json_int_t)r->n_reused, "cache_creation_input_tokens",
                     (json_int_t)0, "output_tokens", (json_int_t)r->n_completion);
}

static json_t *message(const answer_head *h, json_t *content) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", h->work->id, "type", "message", "role",
                     "assistant", "model", h->model_name, "content", content, "stop_reason", "stop_sequence",
                     "usage", usage(h->record, h->n_prompt));
}

static json_t *choice(const answer_part *part) {
    json_t *json = reason(part);
    json_object_set_new(json, "content", json_pack("[o]", text_block(part->text, part->len)));
    return json;
}

/* There is one choice. */
static json_t *whole(const answer_head *h, json_t *choices) {
    json_t *only = json_array_get(choices, 0);
    json_t *json = message(h, json_incref(json_object_get(only, "content")));
    if (json != NULL) json_object_update(json, only);
    if (json != NULL) json_object_set_new(json, "postern", context_json(&h->record->context));
    json_decref(choices);
    return json;
}

static bool send_begin(const answer_head *h, const event_sink *to) {
    return to->send(to->user, "message_start",
                    json_pack("{s:s, s:o}", "type", "message_start", "message", message(h, json_array()))) &&
           to->send(to->user, "content_block_start",
                    json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", 0, "content_block",
                              text_block("", 0)));
}

static bool send_text(const answer_part *part, const event_sink *to) {
    return to->send(to->user, "content_block_delta",
                    json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index", 0, "delta",
                              "type", "text_delta", "text", clean_json(part->text, part->len)));
}

static bool send_piece(const answer_head *h, const answer_part *part, const event_sink *to) {
    if (part->first && !send_begin(h, to)) return false;
    if (part->len > 0 && !send_text(part, to)) return false;
    if (part->finish == NULL) return true;
    return to->send(to->user, "content_block_stop",
                    json_pack("{s:s, s:i}", "type", "content_block_stop", "index", 0)) &&
           to->send(to->user, "message_delta",
                    json_pack("{s:s, s:o, s:o, s:o}", "type", "message_delta", "delta", reason(part), "usage",
                              usage(h->record, h->n_prompt), "postern", context_json(&h->record->context)));
}

static bool send_end(const answer_head *h, const event_sink *to) {
    (void)h;
    return to->send(to->user, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static const api_format messages_format = {
    .choice = choice, .whole = whole, .send_piece = send_piece, .send_end = send_end};

/* ---- requests ---- */

/* The system message is one of the messages, here. */
static bool put_system_first(const fields *f, json_t *body) {
    const json_t *system = fields_get(f, "system");
    json_t *messages = json_object_get(body, "messages");
    if (!json_is_array(messages)) return fields_wrong(f, "messages", "a list of messages");
    if (system == NULL) return true;
    if (!json_is_string(system) && !json_is_array(system))
        return fields_wrong(f, "system", "a text or a list of texts");
    json_t *first = json_pack("{s:s, s:O}", "role", "system", "content", (json_t *)system);
    if (first == NULL || json_array_insert_new(messages, 0, first) != 0)
        return api_error_set(f->error, 503, "out_of_memory", NULL, "there is no memory for the request");
    return true;
}

static bool check_messages(const fields *f, const json_t *messages) {
    size_t i;
    const json_t *one;
    json_array_foreach((json_t *)messages, i, one) {
        const char *role = json_string_value(json_object_get(one, "role"));
        if (role == NULL || (i > 0 && strcmp(role, "system") == 0) ||
            (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
            return api_error_set(f->error, 400, "invalid_value", "messages",
                                 "'messages' must be objects with a 'role' of user or assistant");
    }
    return json_array_size(messages) > 0 ||
           api_error_set(f->error, 400, "invalid_value", "messages", "'messages' is empty");
}

/* Names of this API, as those that are read for all. */
static bool rename_fields(const fields *f, json_t *body) {
    json_t *stop = json_object_get(body, "stop_sequences");
    const char *type = json_string_value(json_object_get(json_object_get(body, "thinking"), "type"));
    if (type != NULL && strcmp(type, "disabled") != 0)
        return api_error_set(f->error, 400, "unsupported", "thinking", "'thinking' is not supported yet");
    json_object_del(body, "n");
    json_object_del(body, "stop");
    json_object_del(body, "stream_options");
    if (stop != NULL) json_object_set(body, "stop", stop);
    return put_system_first(f, body);
}

generation *messages_api_read(json_t *body, api_error *error) {
    const fields f = {body, error};
    if (!rename_fields(&f, body)) {
        json_decref(body);
        return NULL;
    }
    generation *g = generation_create(body, "msg", error);
    if (g == NULL) return NULL;
    g->format = &messages_format;
    g->messages = fields_get(&f, "messages");
    if (check_messages(&f, g->messages) && fields_int(&f, "max_tokens", 1, INT_MAX, &g->max_tokens) &&
        (g->max_tokens > 0 ||
         api_error_set(error, 400, "invalid_value", "max_tokens", "'max_tokens' is needed"))) {
        g->n_logprobs = -1;
        return g;
    }
    generation_free(g);
    return NULL;
}
