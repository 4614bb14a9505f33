/* SPDX-License-Identifier: Apache-2.0 */
/* The public object: a parsed template, and one rendering of it. */
#include "template/template.h"

#include "template/jinja_eval.h"
#include "template/jinja_parse.h"

/* Ten times the longest templates of public models; the tree of a hostile one takes some 50 bytes per byte.
 */
#define MAX_SOURCE_BYTES (1u << 20)
#define DEFAULT_STEPS    10000000u
#define DEFAULT_BYTES    ((size_t)64 << 20)

struct pn_template {
    pn_arena arena; /* source and tree */
    pn_str source;
    pn_jnodes body;
};

void pn_template_free(pn_template *t) {
    if (!t) return;
    pn_arena_done(&t->arena);
    pn_free(t);
}

static pn_status parse_into(pn_template *t, const char *source, size_t len, pn_error *err) {
    char *copy = pn_arena_copy(&t->arena, source, len);
    if (!copy) return pn_fail_memory(err, "a chat template", len);
    t->source = (pn_str){copy, len};
    return pn_jinja_parse(t->source, &t->arena, &t->body, err);
}

pn_status pn_template_parse(const char *source, size_t len, pn_template **out, pn_error *err) {
    if (len > MAX_SOURCE_BYTES)
        return pn_fail(err, PN_ERR_LIMIT, "a chat template of %zu bytes, at most %u are read", len,
                       MAX_SOURCE_BYTES);
    pn_template *t = pn_alloc(PN_MEM_OTHER, 1, sizeof *t);
    if (!t) return pn_fail_memory(err, "a chat template", sizeof *t);
    pn_arena_init(&t->arena, 0);
    pn_status status = parse_into(t, source, len, err);
    if (status == PN_OK)
        *out = t;
    else
        pn_template_free(t);
    return status;
}

/* ---- JSON to values ---- */

/* Roles that a message may have. They spell no control token, and templates put tokens together from them
   ("<|" + role + "|>"), so as the value of a key "role" they are as good as the template's own text. */
static bool is_known_role(pn_str key, pn_str value) {
    static const char *const roles[] = {"system", "user",     "assistant", "tool",  "developer",
                                        "model",  "function", "ipython",   "tools", "context"};
    if (!pn_str_equal(key, PN_STR("role"))) return false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (pn_str_equal(value, pn_str_from(roles[i]))) return true;
    return false;
}

/* jansson iterates only over objects that it may change; it does not. */
static json_t *readable(const json_t *json) {
    return (json_t *)(uintptr_t)json;
}

static pn_status from_json(pn_jrun *run, const json_t *json, pn_str key, bool trusted, pn_jvalue *out);

static pn_status from_json_array(pn_jrun *run, const json_t *json, bool trusted, pn_jvalue *out) {
    size_t n = json_array_size(json);
    pn_jvalue *items = pn_jrun_alloc(run, n, sizeof *items);
    if (!items) return pn_jrun_failed(run);
    for (size_t i = 0; i < n; i++)
        PN_TRY(from_json(run, json_array_get(json, i), PN_STR(""), trusted, &items[i]));
    return pn_jseq_make(run, PN_J_LIST, items, n, out);
}

static pn_status from_json_object(pn_jrun *run, const json_t *json, bool trusted, pn_jvalue *out) {
    size_t n = json_object_size(json), i = 0;
    pn_jdict *dict = pn_jrun_alloc(run, 1, sizeof *dict);
    pn_jvalue *keys = dict ? pn_jrun_alloc(run, n, sizeof *keys) : NULL;
    pn_jvalue *values = keys ? pn_jrun_alloc(run, n, sizeof *values) : NULL;
    if (!values) return pn_jrun_failed(run);
    json_t *object = readable(json);
    for (void *it = json_object_iter(object); it && i < n; it = json_object_iter_next(object, it), i++) {
        pn_str key = pn_str_from(json_object_iter_key(it));
        keys[i] = pn_jstring(pn_jstr_make(key.data, key.len, trusted));
        PN_TRY(from_json(run, json_object_iter_value(it), key, trusted, &values[i]));
    }
    *dict = (pn_jdict){.keys = keys, .values = values, .n = i, .cap = n};
    *out = (pn_jvalue){.type = PN_J_DICT, .u.dict = dict};
    return PN_OK;
}

static pn_status from_json(pn_jrun *run, const json_t *json, pn_str key, bool trusted, pn_jvalue *out) {
    pn_str text;
    pn_status status;
    switch (json_typeof(json)) {
    case JSON_NULL:
        *out = pn_jnone();
        return PN_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = pn_jbool(json_is_true(json));
        return PN_OK;
    case JSON_INTEGER:
        *out = pn_jint(json_integer_value(json));
        return PN_OK;
    case JSON_REAL:
        *out = pn_jfloat(json_real_value(json));
        return PN_OK;
    case JSON_STRING:
        text = (pn_str){json_string_value(json), json_string_length(json)};
        *out = pn_jstring(pn_jstr_make(text.data, text.len, trusted || is_known_role(key, text)));
        return PN_OK;
    default:
        PN_TRY(pn_jrun_enter(run));
        status = json_is_array(json) ? from_json_array(run, json, trusted, out)
                                     : from_json_object(run, json, trusted, out);
        pn_jrun_leave(run);
        return status;
    }
}

/* One variable per key of an object. */
static pn_status define_variables(pn_jrun *run, const json_t *variables, bool trusted) {
    if (!variables) return PN_OK;
    if (!json_is_object(variables)) {
        run->status =
            pn_fail(run->err, PN_ERR_ARGUMENT, "the variables of a chat template must be a JSON object");
        return run->status;
    }
    json_t *object = readable(variables);
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        pn_str name = pn_str_from(json_object_iter_key(it));
        pn_jvalue value = pn_jnone();
        PN_TRY(from_json(run, json_object_iter_value(it), name, trusted, &value));
        PN_TRY(pn_jscope_set(run, run->scope, name, value));
    }
    return PN_OK;
}

/* ---- the result ---- */

void pn_rendering_free(pn_rendering *r) {
    pn_free(r->text.data);
    pn_free(r->trusted);
    *r = (pn_rendering){0};
}

/* The ranges of trusted bytes; counts them when ranges is NULL. */
static size_t find_ranges(pn_jstr s, pn_range *ranges) {
    size_t n = 0;
    for (size_t i = 0; i < s.len;) {
        size_t end = s.len;
        bool trusted = s.mask ? s.mask[i] : s.trusted;
        for (size_t j = i; s.mask && j < s.len; j++) {
            if ((bool)s.mask[j] == trusted) continue;
            end = j;
            break;
        }
        if (trusted && ranges) ranges[n] = (pn_range){i, end};
        n += trusted;
        i = end;
    }
    return n;
}

static pn_status give_rendering(pn_jstr s, pn_rendering *out, pn_error *err) {
    size_t n = find_ranges(s, NULL);
    char *data = pn_alloc(PN_MEM_OTHER, s.len + 1, 1);
    pn_range *trusted = pn_alloc(PN_MEM_OTHER, n, sizeof *trusted);
    if (!data || !trusted) {
        pn_free(data);
        pn_free(trusted);
        return pn_fail_memory(err, "a rendered chat", s.len + n * sizeof *trusted);
    }
    if (s.len) memcpy(data, s.data, s.len);
    find_ranges(s, trusted);
    *out = (pn_rendering){.text = {data, s.len}, .trusted = trusted, .n_trusted = n};
    return PN_OK;
}

static pn_status run_template(pn_jrun *run, const pn_template *t, const pn_template_input *input,
                              pn_jvalue *out) {
    pn_jscope *variables = pn_jscope_make(run, NULL);
    if (!variables) return pn_jrun_failed(run);
    run->scope = variables;
    PN_TRY(define_variables(run, input->variables, false));
    PN_TRY(define_variables(run, input->trusted, true));
    return pn_jexec_to_string(run, &t->body, variables, out);
}

pn_status pn_template_render(const pn_template *t, const pn_template_input *input, pn_rendering *out,
                             pn_error *err) {
    const pn_template_limits *limits = &input->limits;
    pn_jrun run = {
        .max_text = limits->max_output_bytes ? limits->max_output_bytes : DEFAULT_BYTES,
        .steps_left = limits->max_steps ? limits->max_steps : DEFAULT_STEPS,
        .source = t->source,
        .now = input->now,
        .err = err,
    };
    /* The output is first held in pieces, and once whole; so the values get their own room beside it. */
    run.bytes_left = run.max_text > SIZE_MAX / 2 ? SIZE_MAX : 2 * run.max_text;
    pn_arena_init(&run.arena, 0);
    pn_jvalue text;
    pn_status status = run_template(&run, t, input, &text);
    if (status == PN_OK) status = give_rendering(text.u.str, out, err);
    pn_arena_done(&run.arena);
    return status;
}
