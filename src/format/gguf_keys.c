/* SPDX-License-Identifier: Apache-2.0 */
/* Typed reads of GGUF keys. */
#include "base/quote.h"
#include "format/gguf_internal.h"

#include <math.h>
#include <stdio.h>

typedef struct found_text {
    char text[160];
} found_text;

/* The value as a message shows it: "7 (u32)", "\"llama\" (string)", "an array of 3 strings". */
static found_text describe(const pn_gguf_value *value) {
    found_text out;
    const char *type = pn_gguf_type_name(value->type);
    switch (pn_gguf_type_class(value->type)) {
    case PN_GGUF_CLASS_U:
        snprintf(out.text, sizeof out.text, "%llu (%s)", (unsigned long long)value->as.u, type);
        break;
    case PN_GGUF_CLASS_I:
        snprintf(out.text, sizeof out.text, "%lld (%s)", (long long)value->as.i, type);
        break;
    case PN_GGUF_CLASS_F:
        snprintf(out.text, sizeof out.text, "%g (%s)", value->as.f, type);
        break;
    default:
        if (value->type == PN_GGUF_STRING)
            snprintf(out.text, sizeof out.text, "\"%s\" (string)", pn_quote(value->as.str).text);
        else
            snprintf(out.text, sizeof out.text, "an array of %llu elements of type %s",
                     (unsigned long long)value->as.array.n, pn_gguf_type_name(value->as.array.type));
    }
    return out;
}

static pn_status fail_value(const char *key, const pn_gguf_value *value, const char *expected,
                            pn_error *err) {
    return pn_fail_at(err, PN_ERR_FORMAT, value->position, "key \"%s\": expected %s, found %s", key, expected,
                      describe(value).text);
}

static pn_status read_u64(const char *key, const pn_gguf_value *value, uint64_t min, uint64_t max,
                          uint64_t *out, pn_error *err) {
    pn_gguf_class class = pn_gguf_type_class(value->type);
    bool is_integer = (class == PN_GGUF_CLASS_U && value->type != PN_GGUF_BOOL) ||
                      (class == PN_GGUF_CLASS_I && value->as.i >= 0);
    uint64_t u = class == PN_GGUF_CLASS_I ? (uint64_t)value->as.i : value->as.u;
    if (is_integer && u >= min && u <= max) {
        *out = u;
        return PN_OK;
    }
    char expected[80];
    snprintf(expected, sizeof expected, "an integer from %llu to %llu", (unsigned long long)min,
             (unsigned long long)max);
    return fail_value(key, value, expected, err);
}

pn_status pn_gguf_get_u64(const pn_gguf *g, const char *key, uint64_t min, uint64_t max, uint64_t *out,
                          pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    if (!value) return pn_fail(err, PN_ERR_FORMAT, "key \"%s\" is missing", key);
    return read_u64(key, value, min, max, out, err);
}

pn_status pn_gguf_get_u64_or(const pn_gguf *g, const char *key, uint64_t min, uint64_t max, uint64_t fallback,
                             uint64_t *out, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    if (value) return read_u64(key, value, min, max, out, err);
    *out = fallback;
    return PN_OK;
}

pn_status pn_gguf_get_f64_or(const pn_gguf *g, const char *key, double fallback, double *out, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    if (!value) {
        *out = fallback;
        return PN_OK;
    }
    pn_gguf_class class = pn_gguf_type_class(value->type);
    if (class == PN_GGUF_CLASS_F && isfinite(value->as.f)) {
        *out = value->as.f;
    } else if (class == PN_GGUF_CLASS_I) {
        *out = (double)value->as.i;
    } else if (class == PN_GGUF_CLASS_U && value->type != PN_GGUF_BOOL) {
        *out = (double)value->as.u;
    } else {
        return fail_value(key, value, "a finite number", err);
    }
    return PN_OK;
}

pn_status pn_gguf_get_bool_or(const pn_gguf *g, const char *key, bool fallback, bool *out, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    if (value && value->type != PN_GGUF_BOOL) return fail_value(key, value, "a bool", err);
    *out = value ? value->as.u != 0 : fallback;
    return PN_OK;
}

pn_status pn_gguf_get_str_or(const pn_gguf *g, const char *key, const char *fallback, pn_str *out,
                             pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    if (value && value->type != PN_GGUF_STRING) return fail_value(key, value, "a string", err);
    *out = value ? value->as.str : pn_str_from(fallback);
    return PN_OK;
}

pn_status pn_gguf_get_array_or_none(const pn_gguf *g, const char *key, pn_gguf_type element,
                                    const pn_gguf_value **out, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    if (value && (value->type != PN_GGUF_ARRAY || value->as.array.type != element)) {
        char expected[80];
        snprintf(expected, sizeof expected, "an array of elements of type %s", pn_gguf_type_name(element));
        return fail_value(key, value, expected, err);
    }
    *out = value;
    return PN_OK;
}
