/* SPDX-License-Identifier: Apache-2.0 */
/* POST /tokenize: {"content": text, "add_special": false, "parse_special": true} or {"messages": a chat} to
   {"tokens": ids, "count"}; POST /detokenize: {"tokens": ids} to {"content": text}. */
#include "fields.h"
#include "routes.h"

#include <stdlib.h>
#include <string.h>

void ep_tokenize(request *r);
void ep_detokenize(request *r);

static bool tokenize_chat(const request *r, const json_t *messages, pn_tokens *out, api_error *error) {
    pn_error err = {.code = PN_ERR_MEMORY, .message = "there is no memory for the messages"};
    char *text = json_dumps(messages, JSON_COMPACT | JSON_ENCODE_ANY);
    const bool done = text != NULL && pn_chat_tokenize(r->server->model, text, NULL, out, &err) == PN_OK;
    free(text);
    return done || api_error_from(error, &err, "messages");
}

static bool tokenize(const request *r, pn_tokens *out, api_error *error) {
    const fields f = {r->json, error};
    const json_t *messages = fields_get(&f, "messages"), *content = fields_get(&f, "content");
    bool special = false, control = true;
    if (!fields_bool(&f, "add_special", &special) || !fields_bool(&f, "parse_special", &control))
        return false;
    if (content == NULL && messages != NULL) return tokenize_chat(r, messages, out, error);
    if (!json_is_string(content)) return fields_wrong(&f, "content", "a string");
    pn_error err = {0};
    const unsigned flags = (special ? PN_TOKENIZE_BOS : 0) | (control ? PN_TOKENIZE_CONTROL : 0);
    if (pn_tokenize(r->server->model, json_string_value(content), json_string_length(content), flags, out,
                    &err) == PN_OK)
        return true;
    return api_error_from(error, &err, "content");
}

void ep_tokenize(request *r) {
    api_error error = {0};
    pn_tokens tokens = {0};
    if (!tokenize(r, &tokens, &error)) {
        request_fail(r, &error);
        return;
    }
    json_t *ids = json_array();
    for (size_t i = 0; i < tokens.n; i++)
        json_array_append_new(ids, json_integer(tokens.ids[i]));
    request_answer(r, 200, json_pack("{s:o, s:I}", "tokens", ids, "count", (json_int_t)tokens.n));
    pn_tokens_free(&tokens);
}

static bool detokenize(const request *r, pn_text *out, api_error *error) {
    const fields f = {r->json, error};
    const json_t *list = fields_get(&f, "tokens");
    if (!json_is_array(list)) return fields_wrong(&f, "tokens", "a list of token ids");
    const size_t n = json_array_size(list);
    int32_t *ids = calloc(n + 1, sizeof *ids);
    pn_error err = {.code = PN_ERR_MEMORY, .message = "there is no memory for the tokens"};
    bool right = ids != NULL;
    for (size_t i = 0; right && i < n; i++) {
        const json_t *id = json_array_get(list, i);
        const json_int_t value = json_integer_value(id);
        right = json_is_integer(id) && value >= 0 && value <= INT32_MAX;
        ids[i] = (int32_t)value;
        if (!right)
            api_error_set(error, 400, "invalid_value", "tokens", "'tokens[%zu]' is not a token id", i);
    }
    if (right) right = pn_detokenize(r->server->model, ids, n, true, out, &err) == PN_OK;
    free(ids);
    return right || api_error_from(error, &err, "tokens");
}

void ep_detokenize(request *r) {
    api_error error = {0};
    pn_text text = {0};
    buffer clean = {0};
    if (!detokenize(r, &text, &error)) {
        request_fail(r, &error);
        return;
    }
    buffer_append_clean(&clean, text.data, text.len);
    request_answer(r, 200, json_pack("{s:s%}", "content", clean.data != NULL ? clean.data : "", clean.len));
    buffer_free(&clean);
    pn_text_free(&text);
}
