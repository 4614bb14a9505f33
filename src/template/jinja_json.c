/* SPDX-License-Identifier: Apache-2.0 */
/* Python's json.dumps, as transformers' tojson filter calls it. */
#include "template/jinja_print.h"

#include <math.h>
#include <stdio.h>

static pn_status add(pn_jrun *run, pn_jtext *text, const char *literal) {
    return pn_jtext_add(run, text, pn_jstr_make(literal, strlen(literal), false));
}

/* The escape of c, or "" when c stands for itself. */
static void escape_char(uint32_t c, bool ensure_ascii, char out[16]) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *simple = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    out[0] = '\0';
    if (simple) {
        snprintf(out, 16, "\\%c", to[simple - from]);
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
        snprintf(out, 16, "\\u%04x", c);
    } else if (ensure_ascii && c >= 0x10000) {
        c -= 0x10000;
        snprintf(out, 16, "\\u%04x\\u%04x", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
    }
}

static pn_status json_string(pn_jrun *run, pn_jtext *text, pn_jstr s, bool ensure_ascii) {
    size_t begin = 0;
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 2));
    PN_TRY(add(run, text, "\""));
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        char escape[16];
        size_t n = pn_jstr_char(s, i, &c);
        escape_char(c, ensure_ascii, escape);
        if (escape[0]) {
            PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(s, begin, i)));
            PN_TRY(pn_jtext_add_copy(run, text, escape, strlen(escape), false));
            begin = i + n;
        }
        i += n;
    }
    PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(s, begin, s.len)));
    return add(run, text, "\"");
}

static pn_status json_number(pn_jrun *run, pn_jtext *text, const pn_jvalue *v) {
    if (v->type != PN_J_FLOAT || isfinite(v->u.real)) return pn_jprint_repr(run, text, v);
    return add(run, text, isnan(v->u.real) ? "NaN" : v->u.real < 0 ? "-Infinity" : "Infinity");
}

static pn_status json_value(pn_jrun *run, pn_jtext *text, const pn_jvalue *v, const pn_jjson_options *options,
                            size_t level);

static pn_status json_key(pn_jrun *run, pn_jtext *text, const pn_jvalue *key,
                          const pn_jjson_options *options) {
    if (key->type == PN_J_STRING) return json_string(run, text, key->u.str, options->ensure_ascii);
    if (!pn_jvalue_is_number(key) && key->type != PN_J_NONE)
        return pn_jrun_fail(run, "keys must be str, int, float, bool or None, not %s",
                            pn_jvalue_type_name(key));
    PN_TRY(add(run, text, "\""));
    PN_TRY(json_value(run, text, key, options, 0));
    return add(run, text, "\"");
}

static pn_status new_line(pn_jrun *run, pn_jtext *text, const pn_jjson_options *options, size_t level) {
    if (!options->pretty) return PN_OK;
    PN_TRY(add(run, text, "\n"));
    return pn_jtext_add_fill(run, text, options->indent, level);
}

/* What stands before item i of a list or dict. */
static pn_status begin_item(pn_jrun *run, pn_jtext *text, const pn_jjson_options *options, size_t level,
                            size_t i) {
    if (i) PN_TRY(pn_jtext_add(run, text, options->item_separator));
    return new_line(run, text, options, level);
}

static pn_status json_list(pn_jrun *run, pn_jtext *text, const pn_jseq *seq, const pn_jjson_options *options,
                           size_t level) {
    if (seq->n == 0) return add(run, text, "[]");
    PN_TRY(add(run, text, "["));
    for (size_t i = 0; i < seq->n; i++) {
        PN_TRY(begin_item(run, text, options, level + 1, i));
        PN_TRY(json_value(run, text, &seq->items[i], options, level + 1));
    }
    PN_TRY(new_line(run, text, options, level));
    return add(run, text, "]");
}

static pn_status sorted_by_key(pn_jrun *run, const pn_jdict *dict, pn_jdict *out) {
    PN_TRY(pn_jdict_copy(run, dict, out));
    return pn_jvalue_sort(run, out->values, out->keys, out->n, false);
}

static pn_status json_dict(pn_jrun *run, pn_jtext *text, const pn_jdict *dict,
                           const pn_jjson_options *options, size_t level) {
    if (dict->n == 0) return add(run, text, "{}");
    pn_jdict sorted = *dict;
    if (options->sort_keys) PN_TRY(sorted_by_key(run, dict, &sorted));
    PN_TRY(add(run, text, "{"));
    for (size_t i = 0; i < sorted.n; i++) {
        PN_TRY(begin_item(run, text, options, level + 1, i));
        PN_TRY(json_key(run, text, &sorted.keys[i], options));
        PN_TRY(pn_jtext_add(run, text, options->key_separator));
        PN_TRY(json_value(run, text, &sorted.values[i], options, level + 1));
    }
    PN_TRY(new_line(run, text, options, level));
    return add(run, text, "}");
}

static pn_status json_value(pn_jrun *run, pn_jtext *text, const pn_jvalue *v, const pn_jjson_options *options,
                            size_t level) {
    pn_status status;
    PN_TRY(pn_jrun_charge(run, 1));
    switch (v->type) {
    case PN_J_NONE:
        return add(run, text, "null");
    case PN_J_BOOL:
        return add(run, text, v->u.boolean ? "true" : "false");
    case PN_J_INT:
    case PN_J_FLOAT:
        return json_number(run, text, v);
    case PN_J_STRING:
        return json_string(run, text, v->u.str, options->ensure_ascii);
    case PN_J_LIST:
    case PN_J_TUPLE:
    case PN_J_DICT:
        PN_TRY(pn_jrun_enter(run));
        status = v->type == PN_J_DICT ? json_dict(run, text, v->u.dict, options, level)
                                      : json_list(run, text, v->u.seq, options, level);
        pn_jrun_leave(run);
        return status;
    default:
        return pn_jrun_fail(run, "Object of type %s is not JSON serializable", pn_jvalue_type_name(v));
    }
}

pn_status pn_jprint_json(pn_jrun *run, pn_jtext *text, const pn_jvalue *v, const pn_jjson_options *options) {
    return json_value(run, text, v, options, 0);
}
