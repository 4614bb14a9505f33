/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to a prompt: the file's chat template, or one of our own where it has none that works. */
#include "engine/engine.h"

#include <jansson.h>
#include <stdio.h>

/* For files without a template: told apart by the control tokens that the vocabulary has. Each is the
   published turn format of its family. The last one fits any vocabulary. */
static const struct {
    const char *token, *name, *source;
} defaults[] = {
    {"<start_of_turn>", "the Gemma turn format",
     "{{ bos_token }}{% set ns = namespace(system='') %}"
     "{% for m in messages %}"
     "{% if m.role == 'system' %}{% set ns.system = ns.system + (m.content | trim) + '\\n\\n' %}"
     "{% else %}"
     "{{ '<start_of_turn>' }}{{ 'model' if m.role == 'assistant' else m.role }}{{ '\\n' }}"
     "{% if m.role == 'user' %}{{ ns.system }}{% set ns.system = '' %}{% endif %}"
     "{{ m.content | trim }}{{ '<end_of_turn>\\n' }}"
     "{% endif %}{% endfor %}"
     /* A system message that no user turn follows is a turn of the user's. */
     "{% if ns.system %}{{ '<start_of_turn>user\\n' }}"
     "{{ ns.system | trim }}{{ '<end_of_turn>\\n' }}{% endif %}"
     "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"<|im_start|>", "the ChatML format",
     "{% for m in messages %}{{ '<|im_start|>' }}{{ m.role }}{{ '\\n' }}{{ m.content }}"
     "{{ '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"<|start_header_id|>", "the Llama 3 turn format",
     "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' }}{{ m.role }}"
     "{{ '<|end_header_id|>\\n\\n' }}"
     "{{ m.content | trim }}{{ '<|eot_id|>' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {NULL, "plain text with role names",
     "{% for m in messages %}{{ m.role | capitalize }}{{ ': ' }}{{ m.content | trim }}{{ '\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"},
};

#define MAX_PROMPT_BYTES ((size_t)64 << 20)

static pn_status use_default(pn_model *m, const char *why, pn_error *err) {
    size_t i = 0;
    while (defaults[i].token && pn_tokenizer_find(m->tokenizer, pn_str_from(defaults[i].token)) < 0)
        i++;
    char note[600];
    int n = snprintf(note, sizeof note, "%s; postern uses %s", why, defaults[i].name);
    m->info.template_note =
        pn_arena_copy(&m->strings, note, n < (int)sizeof note ? (size_t)n : sizeof note - 1);
    if (!m->info.template_note) return pn_fail_memory(err, "template note", (uint64_t)n);
    return pn_template_parse(defaults[i].source, strlen(defaults[i].source), &m->chat_template, err);
}

/* A template that cannot be parsed is no reason to refuse the model: say so and go on with a default. */
pn_status pn_chat_template_load(pn_model *m, const pn_gguf *file, pn_error *err) {
    const pn_gguf_value *own = pn_gguf_find_key(file, "tokenizer.chat_template");
    if (!own) return use_default(m, "the file has no chat template", err);
    if (own->type != PN_GGUF_STRING) return use_default(m, "the file's chat template is not a text", err);
    if (own->as.str.len == 0) return use_default(m, "the file's chat template is empty", err);
    pn_error why;
    pn_status status = pn_template_parse(own->as.str.data, own->as.str.len, &m->chat_template, &why);
    if (status == PN_OK) {
        m->info.template_note = "";
        return PN_OK;
    }
    if (status == PN_ERR_MEMORY) {
        if (err) *err = why;
        return status;
    }
    pn_error_prefix(&why, "the file's chat template cannot be used");
    return use_default(m, why.message, err);
}

/* ---- messages ---- */

/* Clients send null for anything optional, and content as a list of text parts: both are brought to what
   every template expects before it sees them. */
static pn_status join_parts(json_t *message, json_t *parts, size_t index, pn_error *err) {
    pn_buf text;
    pn_buf_init(&text, MAX_PROMPT_BYTES);
    pn_status status = PN_OK;
    size_t i;
    json_t *part;
    json_array_foreach(parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        json_t *value = json_object_get(part, "text");
        if ((type && strcmp(type, "text") != 0) || !json_is_string(value)) {
            status = pn_fail(err, PN_ERR_ARGUMENT, "message %zu: content part %zu is not a text", index, i);
            break;
        }
        pn_buf_append(&text, json_string_value(value), json_string_length(value));
    }
    if (status == PN_OK) {
        json_t *joined = json_stringn(text.data ? text.data : "", text.len);
        if (text.status != PN_OK || !joined || json_object_set_new(message, "content", joined) != 0)
            status = pn_fail_memory(err, "message text", text.len);
    }
    pn_buf_done(&text);
    return status;
}

static pn_status clean_message(json_t *message, size_t index, pn_error *err) {
    if (!json_is_object(message))
        return pn_fail(err, PN_ERR_ARGUMENT, "message %zu is not an object with role and content", index);
    if (!json_is_string(json_object_get(message, "role")))
        return pn_fail(err, PN_ERR_ARGUMENT, "message %zu has no role (a string such as \"user\")", index);
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(message, next, key, value) {
        if (json_is_null(value)) json_object_del(message, key);
    }
    json_t *content = json_object_get(message, "content");
    if (json_is_array(content)) return join_parts(message, content, index, err);
    if (content && !json_is_string(content))
        return pn_fail(err, PN_ERR_ARGUMENT, "message %zu: content is neither a string nor a list of parts",
                       index);
    if (!content && json_object_set_new(message, "content", json_string("")) != 0)
        return pn_fail_memory(err, "message text", 0);
    return PN_OK;
}

static pn_status load_json(const char *text, const char *what, json_t **out, pn_error *err) {
    json_error_t why;
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!value && json_error_code(&why) == json_error_out_of_memory)
        return pn_fail_memory(err, what, strlen(text));
    if (!value)
        return pn_fail_at(err, PN_ERR_ARGUMENT, why.position < 0 ? 0 : (uint64_t)why.position,
                          "%s are not valid JSON: %s (line %d, column %d)", what, why.text, why.line,
                          why.column);
    *out = value;
    return PN_OK;
}

pn_status pn_chat_messages(const char *text, json_t **out, pn_error *err) {
    json_t *messages;
    PN_TRY(load_json(text, "messages", &messages, err));
    pn_status status = PN_OK;
    size_t i;
    json_t *message;
    if (!json_is_array(messages)) status = pn_fail(err, PN_ERR_ARGUMENT, "messages are not a JSON array");
    json_array_foreach(messages, i, message) {
        if (status == PN_OK) status = clean_message(message, i, err);
    }
    if (status == PN_OK)
        *out = messages;
    else
        json_decref(messages);
    return status;
}

/* ---- rendering ---- */

static pn_status add_extra(json_t *variables, const char *extra_json, pn_error *err) {
    json_t *extra;
    PN_TRY(load_json(extra_json, "extra template variables", &extra, err));
    pn_status status = PN_OK;
    if (!json_is_object(extra))
        status = pn_fail(err, PN_ERR_ARGUMENT, "extra template variables are not a JSON object");
    else if (json_object_update(variables, extra) != 0)
        status = pn_fail_memory(err, "template variables", 0);
    json_decref(extra);
    return status;
}

/* As transformers calls a template: tools and documents are there, but none. */
static pn_status make_variables(const char *messages_json, const pn_chat_options *o, json_t **out,
                                pn_error *err) {
    json_t *messages = NULL, *variables = json_pack("{s:n, s:n}", "tools", "documents");
    pn_status status = variables ? PN_OK : pn_fail_memory(err, "template variables", 0);
    if (status == PN_OK && o->extra_json) status = add_extra(variables, o->extra_json, err);
    if (status == PN_OK) status = pn_chat_messages(messages_json, &messages, err);
    if (status == PN_OK && (json_object_set_new(variables, "messages", messages) != 0 ||
                            json_object_set_new(variables, "add_generation_prompt",
                                                json_boolean(!o->no_generation_prompt)) != 0))
        status = pn_fail_memory(err, "template variables", 0);
    if (status == PN_OK)
        *out = variables;
    else
        json_decref(variables);
    return status;
}

static int set_piece(json_t *object, const char *key, const pn_tokenizer *tokenizer, int32_t id) {
    pn_str piece = pn_tokenizer_piece(tokenizer, id);
    return id < 0 ? 0 : json_object_set_new(object, key, json_stringn(piece.data, piece.len));
}

static pn_status make_trusted(const pn_model *m, json_t **out, pn_error *err) {
    json_t *trusted = json_object();
    if (!trusted || set_piece(trusted, "bos_token", m->tokenizer, m->roles.bos) != 0 ||
        set_piece(trusted, "eos_token", m->tokenizer, m->roles.eos) != 0 ||
        set_piece(trusted, "unk_token", m->tokenizer, m->roles.unk) != 0 ||
        set_piece(trusted, "pad_token", m->tokenizer, m->roles.pad) != 0) {
        json_decref(trusted);
        return pn_fail_memory(err, "template variables", 0);
    }
    *out = trusted;
    return PN_OK;
}

pn_status pn_chat_rendering(const pn_model *m, const char *messages_json, const pn_chat_options *options,
                            pn_rendering *out, pn_error *err) {
    const pn_chat_options plain = {0}, *o = options ? options : &plain;
    pn_template *given = NULL;
    json_t *variables = NULL, *trusted = NULL;
    pn_status status = PN_OK;
    if (o->template_source)
        PN_TRY_GOTO(status, pn_template_parse(o->template_source, strlen(o->template_source), &given, err),
                    done);
    PN_TRY_GOTO(status, make_variables(messages_json, o, &variables, err), done);
    PN_TRY_GOTO(status, make_trusted(m, &trusted, err), done);
    pn_template_input input = {.variables = variables,
                               .trusted = trusted,
                               .now = o->now,
                               .limits.max_output_bytes = MAX_PROMPT_BYTES};
    status = pn_template_render(given ? given : m->chat_template, &input, out, err);
done:
    json_decref(trusted);
    json_decref(variables);
    pn_template_free(given);
    return status;
}

pn_status pn_chat_render(const pn_model *model, const char *messages_json, const pn_chat_options *options,
                         pn_text *out, pn_error *err) {
    pn_rendering rendering;
    PN_TRY(pn_chat_rendering(model, messages_json, options, &rendering, err));
    *out = rendering.text;
    rendering.text = (pn_text){0};
    pn_rendering_free(&rendering);
    return PN_OK;
}

char *pn_chat_json_text(const json_t *value) {
    const size_t len = json_dumpb(value, NULL, 0, JSON_COMPACT);
    char *text = len > 0 ? pn_alloc(PN_MEM_OTHER, len + 1, 1) : NULL;
    if (text && json_dumpb(value, text, len, JSON_COMPACT) != len) {
        pn_free(text);
        return NULL;
    }
    return text;
}

/* What two prompts have in common that differ in the user's message from its first character on. */
static pn_status common_beginning(const pn_model *m, json_t *messages, const pn_chat_options *o,
                                  pn_tokens *out, pn_error *err) {
    static const char *const contents[] = {"a", "1"};
    pn_tokens prompts[2] = {0};
    pn_status status = PN_OK;
    for (int i = 0; i < 2 && status == PN_OK; i++) {
        json_t *user = json_pack("{s:s, s:s}", "role", "user", "content", contents[i]);
        char *text = NULL;
        if (json_array_append_new(messages, user) == 0) {
            text = pn_chat_json_text(messages);
            json_array_remove(messages, json_array_size(messages) - 1);
        }
        status = text ? pn_chat_tokenize(m, text, o, &prompts[i], err) : pn_fail_memory(err, "messages", 0);
        pn_free(text);
    }
    if (status == PN_OK) {
        size_t n = 0;
        while (n < prompts[0].n && n < prompts[1].n && prompts[0].ids[n] == prompts[1].ids[n])
            n++;
        prompts[0].n = n;
        *out = prompts[0];
        prompts[0] = (pn_tokens){0};
    }
    pn_tokens_free(&prompts[0]);
    pn_tokens_free(&prompts[1]);
    return status;
}

pn_status pn_chat_prefix(const pn_model *model, const char *messages_json, const pn_chat_options *options,
                         pn_tokens *out, pn_error *err) {
    json_t *messages;
    PN_TRY(pn_chat_messages(messages_json, &messages, err));
    const pn_status status = common_beginning(model, messages, options, out, err);
    json_decref(messages);
    return status;
}

pn_status pn_chat_encode(const pn_model *model, const pn_rendering *r, pn_tokens *out, pn_error *err) {
    const pn_encode_options encode = {.add_bos = true, .trusted = r->trusted, .n_trusted = r->n_trusted};
    return pn_tokenizer_encode(model->tokenizer, r->text.data, r->text.len, &encode, out, err);
}

pn_status pn_chat_tokenize(const pn_model *model, const char *messages_json, const pn_chat_options *options,
                           pn_tokens *out, pn_error *err) {
    pn_rendering rendering;
    PN_TRY(pn_chat_rendering(model, messages_json, options, &rendering, err));
    const pn_status status = pn_chat_encode(model, &rendering, out, err);
    pn_rendering_free(&rendering);
    return status;
}
