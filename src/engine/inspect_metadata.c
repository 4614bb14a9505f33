/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/inspect.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHORT_ARRAY = 8, FIRST_ELEMENTS = 5 };

json_t *pn_inspect_text(pn_str text) {
    if (text.len == 0) return json_string("");
    if (pn_utf8_valid(text.data, text.len)) return json_stringn(text.data, text.len);
    pn_buf clean;
    pn_buf_init(&clean, PN_BUF_NO_BOUND);
    json_t *json = NULL;
    if (pn_utf8_append_clean(&clean, text.data, text.len) == PN_OK)
        json = json_stringn(clean.data, clean.len);
    pn_buf_done(&clean);
    return json;
}

/* The double of fewest digits that is still the same float, so that 1e-05f is shown as 1e-05. */
static double shortest(double x) {
    char text[32];
    int digits = 6;
    do
        snprintf(text, sizeof text, "%.*g", digits, x);
    while (strtof(text, NULL) != (float)x && ++digits <= 9); /* 9 are always enough */
    return strtod(text, NULL);
}

static json_t *real(double x, bool is_f32) {
    if (isnan(x)) return json_string("nan");
    if (isinf(x)) return json_string(x > 0 ? "inf" : "-inf");
    return json_real(is_f32 ? shortest(x) : x);
}

static json_t *scalar(const pn_gguf_value *value) {
    switch (value->type) {
    case PN_GGUF_BOOL:
        return json_boolean(value->as.u != 0);
    case PN_GGUF_F32:
    case PN_GGUF_F64:
        return real(value->as.f, value->type == PN_GGUF_F32);
    case PN_GGUF_STRING:
        return pn_inspect_text(value->as.str);
    case PN_GGUF_I8:
    case PN_GGUF_I16:
    case PN_GGUF_I32:
    case PN_GGUF_I64:
        return json_integer(value->as.i);
    default:
        return value->as.u <= INT64_MAX ? json_integer((json_int_t)value->as.u)
                                        : json_real((double)value->as.u);
    }
}

static json_t *element(const pn_gguf_value *array, uint64_t i, uint64_t *offset) {
    pn_str text;
    switch (array->as.array.type) {
    case PN_GGUF_STRING:
        return pn_gguf_next_string(array, offset, &text) ? pn_inspect_text(text) : NULL;
    case PN_GGUF_BOOL:
        return json_boolean(pn_gguf_array_i64(array, i) != 0);
    case PN_GGUF_F32:
    case PN_GGUF_F64:
        return real(pn_gguf_array_f64(array, i), array->as.array.type == PN_GGUF_F32);
    case PN_GGUF_U64:
        if (pn_gguf_array_i64(array, i) == INT64_MAX) return json_real(pn_gguf_array_f64(array, i));
        return json_integer(pn_gguf_array_i64(array, i));
    default:
        return json_integer(pn_gguf_array_i64(array, i));
    }
}

static json_t *elements(const pn_gguf_value *array, uint64_t n) {
    json_t *list = json_array();
    uint64_t offset = 0;
    for (uint64_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, element(array, i, &offset)) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *array_value(const pn_gguf_value *array, bool full) {
    uint64_t n = array->as.array.n;
    if (full || n <= SHORT_ARRAY) return elements(array, n);
    return json_pack("{s:s, s:I, s:o}", "array", pn_gguf_type_name(array->as.array.type), "n", (json_int_t)n,
                     "first", elements(array, FIRST_ELEMENTS));
}

static bool add_key(json_t *object, const pn_gguf_value *value, bool full) {
    pn_buf name;
    pn_buf_init(&name, PN_BUF_NO_BOUND);
    bool ok = pn_buf_append(&name, value->key.data, value->key.len) == PN_OK;
    if (ok) {
        json_t *json = value->type == PN_GGUF_ARRAY ? array_value(value, full) : scalar(value);
        ok = json_object_set_new_nocheck(object, name.data, json) ==
             0; /* keys are UTF-8 by the reader's check */
    }
    pn_buf_done(&name);
    return ok;
}

json_t *pn_inspect_metadata(const pn_gguf *g, bool full) {
    json_t *object = json_object();
    for (size_t i = 0; object && i < pn_gguf_n_keys(g); i++) {
        if (add_key(object, pn_gguf_key_at(g, i), full)) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}
