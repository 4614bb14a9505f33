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

/* Fields of messages that are told apart; the first one stands for all others. */
static const char *const fields[] = {"field",    "role",       "content", "reasoning_content",
                                     "thinking", "tool_calls", "name",    "tool_call_id"};
#define N_FIELDS (sizeof fields / sizeof fields[0])

static unsigned source_of(size_t message, pn_str field) {
    unsigned i = N_FIELDS - 1;
    while (i > 0 && !pn_str_equal(field, pn_str_from(fields[i])))
        i--;
    const size_t source = PN_SOURCE_MESSAGE + message * N_FIELDS + i;
    return source <= PN_JORIGIN_MAX_SOURCE ? (unsigned)source : 0;
}

static pn_jstr string_of(const pn_jrun *run, pn_str text, bool trusted) {
    pn_jstr s = pn_jstr_make(text.data, text.len, trusted);
    s.origin |= PN_JORIGIN_OF(run->json_source);
    return s;
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

/* message: the index of the message that it is, or NULL. */
static pn_status from_json_object(pn_jrun *run, const json_t *json, bool trusted, const size_t *message,
                                  pn_jvalue *out) {
    size_t n = json_object_size(json), i = 0;
    pn_jdict *dict = pn_jrun_alloc(run, 1, sizeof *dict);
    pn_jvalue *keys = dict ? pn_jrun_alloc(run, n, sizeof *keys) : NULL;
    pn_jvalue *values = keys ? pn_jrun_alloc(run, n, sizeof *values) : NULL;
    if (!values) return pn_jrun_failed(run);
    json_t *object = readable(json);
    for (void *it = json_object_iter(object); it && i < n; it = json_object_iter_next(object, it), i++) {
        pn_str key = pn_str_from(json_object_iter_key(it));
        if (message) run->json_source = source_of(*message, key);
        keys[i] = pn_jstring(string_of(run, key, trusted));
        PN_TRY(from_json(run, json_object_iter_value(it), key, trusted, &values[i]));
    }
    if (message) run->json_source = 0;
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
        *out = pn_jstring(string_of(run, text, trusted || is_known_role(key, text)));
        return PN_OK;
    default:
        PN_TRY(pn_jrun_enter(run));
        status = json_is_array(json) ? from_json_array(run, json, trusted, out)
                                     : from_json_object(run, json, trusted, NULL, out);
        pn_jrun_leave(run);
        return status;
    }
}

static pn_status from_messages(pn_jrun *run, const json_t *json, pn_jvalue *out) {
    const size_t n = json_array_size(json);
    pn_jvalue *items = pn_jrun_alloc(run, n, sizeof *items);
    if (!items) return pn_jrun_failed(run);
    for (size_t i = 0; i < n; i++) {
        const json_t *message = json_array_get(json, i);
        if (json_is_object(message))
            PN_TRY(from_json_object(run, message, false, &i, &items[i]));
        else
            PN_TRY(from_json(run, message, PN_STR(""), false, &items[i]));
    }
    return pn_jseq_make(run, PN_J_LIST, items, n, out);
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
        const json_t *json = json_object_iter_value(it);
        if (!trusted && json_is_array(json) && pn_str_equal(name, PN_STR("messages")))
            PN_TRY(from_messages(run, json, &value));
        else
            PN_TRY(from_json(run, json, name, trusted, &value));
        PN_TRY(pn_jscope_set(run, run->scope, name, value));
    }
    return PN_OK;
}

/* ---- the result ---- */

void pn_rendering_free(pn_rendering *r) {
    pn_free(r->text.data);
    pn_free(r->trusted);
    pn_free(r->segments);
    *r = (pn_rendering){0};
}

static pn_jorigin origin_at(pn_jstr s, size_t i) {
    return s.mask ? s.mask[i] : s.origin;
}

/* The end of the run of bytes from `begin` on that are alike in these bits of their origin. */
static size_t run_end(pn_jstr s, size_t begin, unsigned bits) {
    size_t i = begin + 1;
    if (!s.mask) return s.len;
    while (i < s.len && ((unsigned)(s.mask[i] ^ s.mask[begin]) & bits) == 0)
        i++;
    return i;
}

/* The ranges of trusted bytes; counts them when ranges is NULL. */
static size_t find_ranges(pn_jstr s, pn_range *ranges) {
    size_t n = 0;
    for (size_t i = 0, end; i < s.len; i = end) {
        end = run_end(s, i, PN_JORIGIN_TRUSTED);
        if ((origin_at(s, i) & PN_JORIGIN_TRUSTED) == 0) continue;
        if (ranges) ranges[n] = (pn_range){i, end};
        n++;
    }
    return n;
}

static pn_segment segment_of(pn_range range, unsigned source) {
    pn_segment segment = {.range = range, .clock = source == PN_SOURCE_CLOCK, .message = -1};
    if (source >= PN_SOURCE_MESSAGE) {
        segment.message = (int)((source - PN_SOURCE_MESSAGE) / N_FIELDS);
        segment.field = fields[(source - PN_SOURCE_MESSAGE) % N_FIELDS];
    }
    return segment;
}

/* The same for segments. */
static size_t find_segments(pn_jstr s, pn_segment *segments) {
    size_t n = 0;
    for (size_t i = 0, end; i < s.len; i = end, n++) {
        end = run_end(s, i, ~PN_JORIGIN_TRUSTED);
        if (segments) segments[n] = segment_of((pn_range){i, end}, PN_JORIGIN_SOURCE(origin_at(s, i)));
    }
    return n;
}

const pn_segment *pn_rendering_segment(const pn_rendering *r, size_t at) {
    size_t low = 0, high = r->n_segments;
    if (high == 0) return NULL;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (r->segments[middle].range.begin <= at)
            low = middle;
        else
            high = middle;
    }
    return &r->segments[low];
}

static pn_status give_rendering(pn_jstr s, pn_rendering *out, pn_error *err) {
    const size_t n = find_ranges(s, NULL), n_segments = find_segments(s, NULL);
    char *data = pn_alloc(PN_MEM_OTHER, s.len + 1, 1);
    pn_range *trusted = pn_alloc(PN_MEM_OTHER, n, sizeof *trusted);
    pn_segment *segments = pn_alloc(PN_MEM_OTHER, n_segments, sizeof *segments);
    if (!data || !trusted || !segments) {
        pn_free(data);
        pn_free(trusted);
        pn_free(segments);
        return pn_fail_memory(err, "a rendered chat", s.len + n * sizeof *trusted);
    }
    if (s.len) memcpy(data, s.data, s.len);
    find_ranges(s, trusted);
    find_segments(s, segments);
    *out = (pn_rendering){.text = {data, s.len},
                          .trusted = trusted,
                          .n_trusted = n,
                          .segments = segments,
                          .n_segments = n_segments};
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
    /* The output is first held in pieces, and once whole, with two bytes of origin to each. */
    run.bytes_left = run.max_text > SIZE_MAX / 3 ? SIZE_MAX : 3 * run.max_text;
    pn_arena_init(&run.arena, 0);
    pn_jvalue text;
    pn_status status = run_template(&run, t, input, &text);
    if (status == PN_OK) status = give_rendering(text.u.str, out, err);
    pn_arena_done(&run.arena);
    return status;
}
