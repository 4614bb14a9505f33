/* SPDX-License-Identifier: Apache-2.0 */
/* What OpenAI's kinds of answers have in common. */
#include "api_format.h"
#include "buffer.h"

#include <postern.h>

json_t *clean_json(const char *text, size_t len) {
    buffer clean = {0};
    json_t *json = buffer_append_clean(&clean, text, len)
                       ? json_stringn(clean.data != NULL ? clean.data : "", clean.len)
                       : NULL;
    buffer_free(&clean);
    return json;
}

static const char *type_name(pn_kv_type type) {
    static const char *const names[] = {[PN_KV_F16] = "f16",
                                        [PN_KV_F32] = "f32",
                                        [PN_KV_Q8] = "q8",
                                        [PN_KV_Q4] = "q4",
                                        [PN_KV_K8V4] = "k8v4"};
    return names[type];
}

json_t *context_json(const context_record *c) {
    return json_pack("{s:{s:s, s:I, s:I, s:f}, s:{s:I, s:I, s:I}, s:{s:s, s:I, s:I}}", "cache", "cause",
                     pn_cache_cause_name(c->cause), "restored_tokens", (json_int_t)c->n_restored,
                     "recomputed_tokens", (json_int_t)c->n_recomputed, "recomputed_ms",
                     c->recomputed_seconds * 1e3, "cut", "slides", (json_int_t)c->n_slides, "from",
                     (json_int_t)c->cut_from, "to", (json_int_t)c->cut_to, "kv", "type",
                     type_name(c->kv_type), "step_downs", (json_int_t)c->n_step_downs, "packed_tokens",
                     (json_int_t)c->n_packed);
}

static json_t *envelope(const answer_head *h, const char *object, json_t *choices) {
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", h->work->id, "object", object, "created",
                     (json_int_t)h->work->created, "model", h->model_name, "system_fingerprint",
                     "postern-" PN_VERSION_STRING, "choices", choices);
}

static json_t *usage(const request_record *r) {
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)r->n_prompt,
                     "completion_tokens", (json_int_t)r->n_completion, "total_tokens",
                     (json_int_t)r->n_prompt + (json_int_t)r->n_completion, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->n_reused);
}

json_t *openai_whole(const answer_head *h, json_t *choices) {
    json_t *whole = envelope(h, h->work->format->object, choices);
    if (whole != NULL) json_object_set_new(whole, "usage", usage(h->record));
    if (whole != NULL) json_object_set_new(whole, "postern", context_json(&h->record->context));
    return whole;
}

static bool send_one(const answer_head *h, const answer_part *part, const event_sink *to) {
    const api_format *format = h->work->format;
    json_t *event = envelope(h, format->chunk_object, json_pack("[o]", format->piece(part)));
    if (h->work->include_usage) json_object_set_new(event, "usage", json_null());
    if (part->finish != NULL) json_object_set_new(event, "postern", context_json(&h->record->context));
    return to->send(to->user, NULL, event);
}

bool openai_send_piece(const answer_head *h, const answer_part *part, const event_sink *to) {
    answer_part rest = *part;
    if (part->first && h->work->format->role_first) {
        const answer_part role = {.index = part->index, .first = true, .text = ""};
        if (!send_one(h, &role, to)) return false;
        rest.first = false;
    }
    return send_one(h, &rest, to);
}

bool openai_send_end(const answer_head *h, const event_sink *to) {
    if (!h->work->include_usage) return true;
    json_t *last = envelope(h, h->work->format->chunk_object, json_array());
    json_object_set_new(last, "usage", usage(h->record));
    return to->send(to->user, NULL, last);
}
