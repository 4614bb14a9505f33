/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_print.h"

#include "template/jinja_lex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* ---- floats ---- */

/* The least number of significant digits (at most 17) that reads back as value: "d.ddde+XX" without the
 * point. */
static int shortest_digits(double value, char digits[32], int *exponent) {
    for (int n = 1;; n++) {
        char text[40], exact[40];
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        const char *e = strchr(text, 'e');
        int n_digits = 0, n_exact = 0;
        for (const char *c = text; c < e; c++) { /* without the locale's point */
            if (*c < '0' || *c > '9') continue;
            if (n_digits == 1) exact[n_exact++] = '.';
            exact[n_exact++] = digits[n_digits++] = *c;
        }
        snprintf(exact + n_exact, sizeof exact - (size_t)n_exact, "%s", e);
        double back = 0;
        *exponent = atoi(e + 1);
        if (n >= 17 || (pn_jinja_parse_double(pn_str_from(exact), &back) && back == value)) return n_digits;
    }
}

/* Digits with a point inside or after zeros, as Python writes exponents from -4 to 15. */
static void format_plain(const char *digits, int n, int exponent, char *out) {
    int at = 0;
    if (exponent < 0) {
        memcpy(out, "0.", 2);
        at = 2;
        for (int i = exponent + 1; i < 0; i++)
            out[at++] = '0';
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        out[at++] = i < n ? digits[i] : '0';
        if (i == exponent) out[at++] = '.';
    }
    if (out[at - 1] == '.') out[at++] = '0';
    out[at] = '\0';
}

void pn_jinja_format_double(double value, char out[32]) {
    if (isnan(value) || isinf(value)) {
        snprintf(out, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(value)) *out++ = '-';
    char digits[32];
    int exponent, n = shortest_digits(fabs(value), digits, &exponent);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (exponent >= -4 && exponent < 16) {
        format_plain(digits, n, exponent, out);
        return;
    }
    const char *point = n > 1 ? "." : "";
    snprintf(out, 31, "%c%s%.*se%c%02d", digits[0], point, n - 1, digits + 1, exponent < 0 ? '-' : '+',
             abs(exponent));
}

/* ---- repr ---- */

static bool is_printable(uint32_t c) {
    if (c < 0x80) return c >= 0x20 && c < 0x7F;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

/* The escape that repr writes for c, or "" when c stands for itself. */
static void repr_escape(uint32_t c, char quote, char out[16]) {
    const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    out[0] = '\0';
    if (c == '\\' || c == (uint32_t)quote)
        snprintf(out, 16, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(out, 16, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (!is_printable(c))
        snprintf(out, 16, format, c);
}

static pn_status add_punctuation(pn_jrun *run, pn_jtext *text, const char *literal) {
    return pn_jtext_add(run, text, pn_jstr_make(literal, strlen(literal), false));
}

static pn_status repr_string(pn_jrun *run, pn_jtext *text, pn_jstr s) {
    bool has_single = s.len && memchr(s.data, '\'', s.len), has_double = s.len && memchr(s.data, '"', s.len);
    const char *quote = has_single && !has_double ? "\"" : "'";
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 2));
    PN_TRY(add_punctuation(run, text, quote));
    size_t begin = 0;
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        char escape[16];
        size_t n = pn_jstr_char(s, i, &c);
        repr_escape(c, quote[0], escape);
        if (escape[0]) {
            PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(s, begin, i)));
            PN_TRY(pn_jtext_add_copy(run, text, escape, strlen(escape), false));
            begin = i + n;
        }
        i += n;
    }
    PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(s, begin, s.len)));
    return add_punctuation(run, text, quote);
}

static pn_status repr_items(pn_jrun *run, pn_jtext *text, const pn_jseq *seq) {
    for (size_t i = 0; i < seq->n; i++) {
        if (i) PN_TRY(add_punctuation(run, text, ", "));
        PN_TRY(pn_jprint_repr(run, text, &seq->items[i]));
    }
    return PN_OK;
}

static pn_status repr_dict(pn_jrun *run, pn_jtext *text, const pn_jdict *dict) {
    PN_TRY(add_punctuation(run, text, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        if (i) PN_TRY(add_punctuation(run, text, ", "));
        PN_TRY(pn_jprint_repr(run, text, &dict->keys[i]));
        PN_TRY(add_punctuation(run, text, ": "));
        PN_TRY(pn_jprint_repr(run, text, &dict->values[i]));
    }
    return add_punctuation(run, text, "}");
}

static pn_status repr_range(pn_jrun *run, pn_jtext *text, pn_jrange range) {
    char buf[96];
    long long stop = range.n
                         ? (long long)(range.start + (range.n - 1) * range.step) + (range.step > 0 ? 1 : -1)
                         : (long long)range.start;
    int n = snprintf(buf, sizeof buf, range.step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                     (long long)range.start, stop, (long long)range.step);
    return pn_jtext_add_copy(run, text, buf, (size_t)n, false);
}

/* Python prints an address here; there is none worth printing. */
static pn_status repr_object(pn_jrun *run, pn_jtext *text, const pn_jvalue *v) {
    PN_TRY(add_punctuation(run, text, "<"));
    PN_TRY(add_punctuation(run, text, pn_jvalue_type_name(v)));
    PN_TRY(add_punctuation(run, text, v->type == PN_J_NAMESPACE ? " " : ""));
    if (v->type == PN_J_NAMESPACE) PN_TRY(repr_dict(run, text, &v->u.ns->attributes));
    if (v->type == PN_J_MACRO) {
        pn_str name = v->u.macro->def->name;
        PN_TRY(add_punctuation(run, text, " "));
        PN_TRY(repr_string(run, text, pn_jstr_make(name.data, name.len, true)));
    }
    return add_punctuation(run, text, v->type == PN_J_NAMESPACE || v->type == PN_J_MACRO ? ">" : " object>");
}

static pn_status repr_scalar(pn_jrun *run, pn_jtext *text, const pn_jvalue *v) {
    char buf[32];
    switch (v->type) {
    case PN_J_NONE:
        return pn_jtext_add(run, text, PN_JSTR("None"));
    case PN_J_BOOL:
        return pn_jtext_add(run, text, v->u.boolean ? PN_JSTR("True") : PN_JSTR("False"));
    case PN_J_INT:
        snprintf(buf, sizeof buf, "%lld", (long long)v->u.integer);
        return pn_jtext_add_copy(run, text, buf, strlen(buf), true);
    case PN_J_FLOAT:
        pn_jinja_format_double(v->u.real, buf);
        return pn_jtext_add_copy(run, text, buf, strlen(buf), true);
    default:
        return pn_jtext_add(run, text, PN_JSTR("Undefined"));
    }
}

static pn_status repr_bracketed(pn_jrun *run, pn_jtext *text, const char *open, const pn_jseq *seq,
                                const char *close) {
    PN_TRY(add_punctuation(run, text, open));
    PN_TRY(repr_items(run, text, seq));
    return add_punctuation(run, text, close);
}

static pn_status repr_container(pn_jrun *run, pn_jtext *text, const pn_jvalue *v) {
    switch (v->type) {
    case PN_J_LIST:
        return repr_bracketed(run, text, "[", v->u.seq, "]");
    case PN_J_TUPLE:
        return repr_bracketed(run, text, "(", v->u.seq, v->u.seq->n == 1 ? ",)" : ")");
    case PN_J_VIEW:
        PN_TRY(add_punctuation(run, text, pn_jvalue_type_name(v)));
        return repr_bracketed(run, text, "([", v->u.seq, "])");
    case PN_J_DICT:
        return repr_dict(run, text, v->u.dict);
    case PN_J_RANGE:
        return repr_range(run, text, v->u.range);
    default:
        return repr_object(run, text, v);
    }
}

pn_status pn_jprint_repr(pn_jrun *run, pn_jtext *text, const pn_jvalue *v) {
    PN_TRY(pn_jrun_charge(run, 1));
    if (v->type == PN_J_STRING) return repr_string(run, text, v->u.str);
    if (pn_jvalue_is_number(v) || v->type == PN_J_NONE || v->type == PN_J_UNDEFINED)
        return repr_scalar(run, text, v);
    PN_TRY(pn_jrun_enter(run));
    PN_TRY(repr_container(run, text, v));
    pn_jrun_leave(run);
    return PN_OK;
}

/* ---- str ---- */

pn_status pn_jprint(pn_jrun *run, pn_jtext *text, const pn_jvalue *v) {
    if (v->type == PN_J_STRING) return pn_jtext_add(run, text, v->u.str);
    if (v->type == PN_J_UNDEFINED) return PN_OK;
    return pn_jprint_repr(run, text, v);
}

pn_status pn_jvalue_str(pn_jrun *run, const pn_jvalue *v, pn_jstr *out) {
    pn_jtext text = {0};
    PN_TRY(pn_jprint(run, &text, v));
    return pn_jtext_join(run, &text, out);
}
