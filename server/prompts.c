/* SPDX-License-Identifier: Apache-2.0 */
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

#define NO_MEMORY                                                                                            \
    { .code = PN_ERR_MEMORY, .position = PN_NO_POSITION, .message = "there is no memory for the prompt" }

/* Tokens that came as such are the request's, others the library's. */
static bool are_given(const generation *g, size_t i) {
    return g->messages == NULL && g->prompts[i].text == NULL;
}

static pn_status tokenize_chat(const generation *g, const pn_model *model, pn_tokens *out, pn_error *err) {
    char *messages = json_dumps(g->messages, JSON_COMPACT);
    if (messages == NULL) return PN_ERR_MEMORY;
    const pn_status status = pn_chat_tokenize(model, messages, NULL, out, err);
    free(messages);
    return status;
}

static pn_status tokenize(const generation *g, const pn_model *model, size_t i, pn_tokens *out,
                          pn_error *err) {
    if (g->messages != NULL) return tokenize_chat(g, model, out, err);
    const raw_prompt *raw = &g->prompts[i];
    if (raw->text != NULL)
        return pn_tokenize(model, raw->text, raw->len, PN_TOKENIZE_BOS | PN_TOKENIZE_CONTROL, out, err);
    *out = raw->tokens;
    return PN_OK;
}

static bool check(const pn_tokens *tokens, int n_vocab, const char *param, api_error *error) {
    if (tokens->n == 0) return api_error_set(error, 400, "invalid_value", param, "the prompt is empty");
    for (size_t i = 0; i < tokens->n; i++)
        if (tokens->ids[i] < 0 || tokens->ids[i] >= n_vocab)
            return api_error_set(error, 400, "invalid_value", param,
                                 "token %zu of the prompt is outside the vocabulary of %d", i + 1, n_vocab);
    return true;
}

/* What the prompt begins with by the messages before the first that is not the system's. Where the template
   can say nothing of it, as little is kept as always. */
static size_t count_system(const generation *g, const pn_model *model) {
    json_t *system = json_array();
    pn_tokens tokens = {0};
    for (size_t i = 0; i < json_array_size(g->messages); i++) {
        json_t *message = json_array_get(g->messages, i);
        if (strcmp(json_string_value(json_object_get(message, "role")), "system") != 0) break;
        json_array_append(system, message);
    }
    char *text = system != NULL ? json_dumps(system, JSON_COMPACT) : NULL;
    if (text != NULL) pn_chat_prefix(model, text, NULL, &tokens, NULL);
    const size_t n = tokens.n;
    pn_tokens_free(&tokens);
    free(text);
    json_decref(system);
    return n;
}

bool prompts_make(prompts *p, const generation *g, const pn_model *model, bool slides, api_error *error) {
    const char *param = g->messages != NULL ? "messages" : "prompt";
    pn_model_info info;
    pn_model_get_info(model, &info);
    *p = (prompts){.items = calloc(g->n_prompts, sizeof *p->items)};
    if (p->items == NULL)
        return api_error_set(error, 503, "out_of_memory", NULL, "there is no memory for the prompts");
    p->n = g->n_prompts;
    for (size_t i = 0; i < p->n; i++) {
        pn_error err = NO_MEMORY;
        if (tokenize(g, model, i, &p->items[i], &err) != PN_OK) return api_error_from(error, &err, param);
        if (!check(&p->items[i], info.n_vocab, param, error)) return false;
    }
    if (slides && g->messages != NULL) p->n_keep = count_system(g, model);
    return true;
}

void prompts_free(prompts *p, const generation *g) {
    for (size_t i = 0; i < p->n; i++)
        if (!are_given(g, i)) pn_tokens_free(&p->items[i]);
    free(p->items);
    *p = (prompts){0};
}
