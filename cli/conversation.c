/* SPDX-License-Identifier: Apache-2.0 */
#include "conversation.h"

#include "common.h"
#include "json_out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void conversation_init(conversation *c) {
    c->messages = json_need(json_array());
    c->answered = NULL;
}

void conversation_done(conversation *c) {
    json_decref(c->messages);
    c->messages = NULL;
    free(c->answered);
    c->answered = NULL;
}

static json_t *make_message(const char *role, const char *text, size_t len) {
    return json_need(json_pack("{s:s, s:o}", "role", role, "content", json_from_text(text, len)));
}

static const char *role_at(const conversation *c, size_t i) {
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
    return role != NULL ? role : "";
}

void conversation_set_system(conversation *c, const char *text, size_t len) {
    if (strcmp(role_at(c, 0), "system") == 0) json_array_remove(c->messages, 0);
    if (len > 0) json_array_insert_new(c->messages, 0, make_message("system", text, len));
}

const char *conversation_system(const conversation *c) {
    if (strcmp(role_at(c, 0), "system") != 0) return NULL;
    return json_string_value(json_object_get(json_array_get(c->messages, 0), "content"));
}

void conversation_add(conversation *c, const char *role, const char *text, size_t len) {
    json_array_append_new(c->messages, make_message(role, text, len));
}

size_t conversation_length(const conversation *c) {
    return json_array_size(c->messages);
}

void conversation_drop_last(conversation *c) {
    if (conversation_length(c) > 0) json_array_remove(c->messages, conversation_length(c) - 1);
}

const char *conversation_last_role(const conversation *c) {
    return conversation_length(c) > 0 ? role_at(c, conversation_length(c) - 1) : "";
}

void conversation_reset(conversation *c) {
    size_t keep = conversation_system(c) != NULL;
    while (conversation_length(c) > keep)
        conversation_drop_last(c);
}

static char *json_of(const json_t *messages) {
    char *json = json_dumps(messages, JSON_COMPACT);
    if (json == NULL) exit(cli_error(CLI_LIMIT, "out of memory"));
    return json;
}

char *conversation_begin_json(const conversation *c) {
    json_t *messages = json_need(json_array());
    if (conversation_system(c) != NULL) json_array_append(messages, json_array_get(c->messages, 0));
    char *json = json_of(messages);
    json_decref(messages);
    return json;
}

pn_status conversation_begin(const conversation *c, const pn_model *model, const pn_chat_options *options,
                             pn_tokens *out, pn_error *err) {
    char *json = conversation_begin_json(c);
    pn_status status = pn_chat_prefix(model, json, options, out, err);
    free(json);
    return status;
}

pn_status conversation_count_system(const conversation *c, const pn_model *model,
                                    const pn_chat_options *options, size_t *n, pn_error *err) {
    pn_tokens tokens = {0};
    pn_status status = conversation_begin(c, model, options, &tokens, err);
    if (status == PN_OK) *n = tokens.n;
    pn_tokens_free(&tokens);
    return status;
}

pn_status conversation_tokenize(const conversation *c, const pn_model *model, const pn_chat_options *options,
                                pn_tokens *out, pn_error *err) {
    char *json = json_of(c->messages);
    pn_status status = pn_chat_tokenize(model, json, options, out, err);
    free(json);
    return status;
}

pn_status conversation_explain(conversation *c, pn_session *session, const pn_chat_options *options,
                               pn_cache_explanation *out, pn_error *err) {
    char *json = json_of(c->messages);
    pn_status status = pn_chat_explain(session, json, options, c->answered, out, err);
    free(c->answered);
    c->answered = json;
    return status;
}

int conversation_save(const conversation *c, const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) return cli_error(CLI_FILE, "%s: %s", path, strerror(errno));
    bool written = json_dumpf(c->messages, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF;
    written = fclose(file) == 0 && written;
    return written ? CLI_OK : cli_error(CLI_FILE, "%s: cannot write: %s", path, strerror(errno));
}
