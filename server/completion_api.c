/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/completions. */
#include "api_format.h"
#include "buffer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_MAX  256
#define USUAL_TOKENS 16 /* most of an answer, where nothing is said: the API's definition */

/* ---- answers ---- */

/* Pieces that read alike share a name: the likelier one comes first and stays. */
static json_t *top_json(const scored_token *t) {
    if (t->unscored) return json_null();
    json_t *top = json_object();
    for (int i = 0; i < t->n_top; i++) {
        json_t *name = clean_json(t->top_pieces[i].data, t->top_pieces[i].len);
        const char *key = json_string_value(name);
        if (key != NULL && json_object_get(top, key) == NULL)
            json_object_set_new(top, key, json_real((double)t->top[i].logprob));
        json_decref(name);
    }
    return top;
}

static size_t n_characters(const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

static json_t *logprobs_json(const answer_part *part) {
    if (part->tokens == NULL) return json_null();
    json_t *tokens = json_array(), *logprobs = json_array(), *tops = json_array(), *offsets = json_array();
    size_t offset = part->text_offset;
    for (size_t i = 0; i < part->n_tokens; i++) {
        const scored_token *t = &part->tokens->items[i];
        json_array_append_new(tokens, clean_json(t->piece.data, t->piece.len));
        json_array_append_new(logprobs, t->unscored ? json_null() : json_real((double)t->token.logprob));
        json_array_append_new(tops, top_json(t));
        json_array_append_new(offsets, json_integer((json_int_t)offset));
        offset += n_characters(t->piece.data, t->piece.len);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs, "top_logprobs",
                     tops, "text_offset", offsets);
}

static json_t *choice(const answer_part *part) {
    return json_pack("{s:o, s:i, s:o, s:s?}", "text", clean_json(part->text, part->len), "index", part->index,
                     "logprobs", logprobs_json(part), "finish_reason", part->finish);
}

static const api_format completion_format = {.object = "text_completion",
                                             .chunk_object = "text_completion",
                                             .shows_end = true,
                                             .choice = choice,
                                             .last_line = "data: [DONE]\n\n",
                                             .whole = openai_whole,
                                             .send_piece = openai_send_piece,
                                             .send_end = openai_send_end,
                                             .piece = choice};

/* ---- requests ---- */

#define PROMPT_EXPECTED "a string, a list of token ids, or a list of these"

static bool is_tokens(const json_t *value) {
    return json_is_array(value) && json_array_size(value) > 0 && json_is_integer(json_array_get(value, 0));
}

static bool read_tokens(const fields *f, const json_t *list, raw_prompt *out) {
    const size_t n = json_array_size(list);
    out->tokens.ids = calloc(n, sizeof *out->tokens.ids);
    if (out->tokens.ids == NULL)
        return api_error_set(f->error, 503, "out_of_memory", NULL, "there is no memory for the prompt");
    out->tokens.n = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id)) return fields_wrong(f, "prompt", PROMPT_EXPECTED);
        const json_int_t value = json_integer_value(id);
        out->tokens.ids[i] = value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
    }
    return true;
}

static bool read_prompt(const fields *f, const json_t *value, raw_prompt *out) {
    if (is_tokens(value)) return read_tokens(f, value, out);
    if (!json_is_string(value)) return fields_wrong(f, "prompt", PROMPT_EXPECTED);
    *out = (raw_prompt){.text = json_string_value(value), .len = json_string_length(value)};
    return true;
}

static bool read_prompts(const fields *f, generation *g) {
    const json_t *prompt = fields_get(f, "prompt");
    const bool several = json_is_array(prompt) && !is_tokens(prompt);
    if (prompt == NULL) return fields_wrong(f, "prompt", PROMPT_EXPECTED);
    g->n_prompts = several ? json_array_size(prompt) : 1;
    if (g->n_prompts == 0 || g->n_prompts > ANSWERS_MAX / (size_t)g->n)
        return api_error_set(f->error, 400, "invalid_value", "prompt",
                             "'prompt' has %zu prompts: expected 1 to %d", g->n_prompts, ANSWERS_MAX);
    g->prompts = calloc(g->n_prompts, sizeof *g->prompts);
    if (g->prompts == NULL)
        return api_error_set(f->error, 503, "out_of_memory", NULL, "there is no memory for the prompts");
    for (size_t i = 0; i < g->n_prompts; i++)
        if (!read_prompt(f, several ? json_array_get(prompt, i) : prompt, &g->prompts[i])) return false;
    return true;
}

static bool refuse_unsupported(const fields *f, const generation *g) {
    const char *suffix = NULL;
    int best_of = g->n;
    if (!fields_text(f, "suffix", &suffix) || !fields_int(f, "best_of", 1, GENERATION_CHOICES_MAX, &best_of))
        return false;
    if (suffix != NULL && suffix[0] != '\0')
        return api_error_set(f->error, 400, "unsupported", "suffix", "'suffix' is not supported");
    if (best_of != g->n)
        return api_error_set(f->error, 400, "unsupported", "best_of",
                             "'best_of' other than 'n' is not supported");
    return true;
}

static bool read_max_tokens(const fields *f, generation *g) {
    g->max_tokens = USUAL_TOKENS;
    if (!fields_int(f, "max_tokens", 0, INT_MAX, &g->max_tokens)) return false;
    if (g->max_tokens == 0 && !g->echo)
        return api_error_set(f->error, 400, "invalid_value", "max_tokens",
                             "'max_tokens' of 0 is only possible with 'echo': true");
    if (g->max_tokens == 0) g->max_tokens = -1;
    return true;
}

generation *completion_api_read(json_t *body, api_error *error) {
    generation *g = generation_create(body, "cmpl", error);
    if (g == NULL) return NULL;
    const fields f = {body, error};
    g->format = &completion_format;
    if (read_prompts(&f, g) && fields_bool(&f, "echo", &g->echo) && read_max_tokens(&f, g) &&
        fields_int(&f, "logprobs", 0, LOGPROBS_TOP_MAX, &g->n_logprobs) && refuse_unsupported(&f, g))
        return g;
    generation_free(g);
    return NULL;
}
