/* SPDX-License-Identifier: Apache-2.0 */
/* The table of filters, and those on numbers and on any value. */
#include "template/jinja_filters.h"

#include "template/jinja_eval.h"
#include "template/jinja_lex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- any value ---- */

static pn_status filter_attr(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr name;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "attr()'s name", &name));
    if (self->type == PN_J_DICT) { /* attributes only, no items */
        pn_jdict *empty = pn_jrun_alloc(run, 1, sizeof *empty);
        if (!empty) return pn_jrun_failed(run);
        pn_jvalue bare = {.type = PN_J_DICT, .u.dict = empty};
        return pn_jop_attribute(run, &bare, pn_jstr_bytes(name), out);
    }
    return pn_jop_attribute(run, self, pn_jstr_bytes(name), out);
}

static pn_status filter_default(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)run;
    bool replaces = self->type == PN_J_UNDEFINED ||
                    (pn_jarg_truth(&args->positional[1], false) && !pn_jvalue_truth(self));
    *out = *self;
    if (replaces)
        *out = args->positional[0].type == PN_J_ABSENT ? pn_jstring(PN_JSTR("")) : args->positional[0];
    return PN_OK;
}

/* Marks text as safe for HTML, of which nothing is made here: there is no automatic escaping. */
static pn_status filter_safe(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return pn_jfilter_string(run, self, args, out);
}

/* ---- numbers ---- */

static pn_status filter_abs(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    int64_t i;
    if (self->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, self);
    if (self->type == PN_J_FLOAT) {
        *out = pn_jfloat(fabs(self->u.real));
        return PN_OK;
    }
    if (!pn_jvalue_as_int(self, &i))
        return pn_jrun_fail(run, "bad operand type for abs(): '%s'", pn_jvalue_type_name(self));
    pn_jvalue whole = pn_jint(i);
    *out = whole;
    return i < 0 ? pn_jop_negate(run, &whole, out) : PN_OK;
}

/* Text that int() or float() reads: without white space around, and without single underscores between
   digits. Returns its length in buf, or 0 when it cannot be a number. */
static size_t number_text(pn_jstr s, char *buf, size_t cap) {
    s = pn_jstr_strip(s, NULL, PN_JSTRIP_LEFT | PN_JSTRIP_RIGHT);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (n + 1 >= cap || s.data[i] == '\0') return 0;
        if (s.data[i] == '_') {
            bool inside = i > 0 && i + 1 < s.len && s.data[i - 1] != '_' && s.data[i + 1] != '_';
            if (!inside) return 0;
            continue;
        }
        buf[n++] = s.data[i];
    }
    buf[n] = '\0';
    return n;
}

/* White space around it can be any amount. */
static pn_status charge_number_text(pn_jrun *run, const pn_jvalue *v) {
    return v->type == PN_J_STRING ? pn_jrun_charge_bytes(run, v->u.str.len * 2) : PN_OK;
}

/* int(text, base), base 0 by prefix; *overflow when it does not fit. */
static bool parse_integer(pn_jstr s, int64_t base, int64_t *out, bool *overflow) {
    char buf[128];
    *overflow = false;
    if (!number_text(s, buf, sizeof buf)) return false;
    const char *digits = buf + (buf[0] == '+' || buf[0] == '-');
    char mark = digits[0] == '0' ? (char)(digits[1] | 0x20) : '\0';
    int by_prefix = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (by_prefix && (base == by_prefix || base == 0)) {
        base = by_prefix;
        digits += 2;
    } else if (base == 0) {
        base = 10;
    }
    if (base < 2 || base > 36 || *digits == '\0') return false;
    int64_t value = 0;
    for (const char *c = digits; *c; c++) {
        int digit = *c >= '0' && *c <= '9'                     ? *c - '0'
                    : (*c | 0x20) >= 'a' && (*c | 0x20) <= 'z' ? (*c | 0x20) - 'a' + 10
                                                               : 99;
        if (digit >= base) return false;
        *overflow = *overflow || __builtin_mul_overflow(value, base, &value) ||
                    (buf[0] == '-' ? __builtin_sub_overflow(value, digit, &value)
                                   : __builtin_add_overflow(value, digit, &value));
    }
    *out = value;
    return true;
}

static bool parse_float(pn_jstr s, double *out) {
    char buf[400];
    size_t n = number_text(s, buf, sizeof buf);
    if (!n) return false;
    const char *digits = buf + (buf[0] == '+' || buf[0] == '-');
    bool is_word = strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0 ||
                   strcasecmp(digits, "nan") == 0;
    if (!is_word && strspn(digits, "0123456789.eE+-") != strlen(digits))
        return false; /* no hexadecimal floats */
    return pn_jinja_parse_double((pn_str){buf, n}, out);
}

static pn_status truncate_double(pn_jrun *run, double value, const pn_jvalue *fallback, pn_jvalue *out) {
    if (isnan(value) || isinf(value)) {
        *out = fallback->type == PN_J_ABSENT ? pn_jint(0) : *fallback;
        return PN_OK;
    }
    if (fabs(value) >= 9223372036854775808.0)
        return pn_jrun_fail_with(run, PN_ERR_LIMIT, "an integer does not fit 64 bits");
    *out = pn_jint((int64_t)value);
    return PN_OK;
}

static pn_status filter_int(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    const pn_jvalue *fallback = &args->positional[0];
    int64_t base, i;
    double d;
    bool overflow = false;
    PN_TRY(pn_jarg_int(run, &args->positional[1], "int()'s base", 10, &base));
    if (self->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, self);
    PN_TRY(charge_number_text(run, self));
    bool is_int = self->type == PN_J_STRING ? parse_integer(self->u.str, base, &i, &overflow)
                                            : pn_jvalue_as_int(self, &i);
    if (overflow) return pn_jrun_fail_with(run, PN_ERR_LIMIT, "an integer does not fit 64 bits");
    if (is_int) {
        *out = pn_jint(i);
        return PN_OK;
    }
    bool is_float = self->type == PN_J_STRING ? parse_float(self->u.str, &d) : pn_jvalue_as_double(self, &d);
    if (is_float) return truncate_double(run, d, fallback, out);
    *out = fallback->type == PN_J_ABSENT ? pn_jint(0) : *fallback;
    return PN_OK;
}

static pn_status filter_float(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    double d;
    if (self->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, self);
    PN_TRY(charge_number_text(run, self));
    bool is_float = self->type == PN_J_STRING ? parse_float(self->u.str, &d) : pn_jvalue_as_double(self, &d);
    if (is_float)
        *out = pn_jfloat(d);
    else
        *out = args->positional[0].type == PN_J_ABSENT ? pn_jfloat(0) : args->positional[0];
    return PN_OK;
}

/* Rounds half to even at the decimal digit, exactly: by printing. */
static double round_decimals(double value, int64_t precision) {
    if (isnan(value) || isinf(value) || precision > 300) return value;
    if (precision < 0) {
        double unit = pow(10, (double)-precision);
        return isinf(unit) ? copysign(0, value) : rint(value / unit) * unit;
    }
    char text[700];
    double rounded = value;
    snprintf(text, sizeof text, "%.*f", (int)precision, value);
    char *point = strchr(text, ',');
    if (point) *point = '.';
    char *end;
    if (strlen(text) < 500) {
        pn_jinja_parse_double(pn_str_from(text), &rounded);
        return rounded;
    }
    rounded = strtod(text, &end);
    return rounded;
}

static pn_status round_integer(pn_jrun *run, int64_t value, int64_t precision, pn_jvalue *out) {
    *out = pn_jint(value);
    if (precision >= 0) return PN_OK;
    if (precision < -18) {
        *out = pn_jint(0);
        return PN_OK;
    }
    int64_t unit = 1;
    while (precision++ < 0)
        unit *= 10;
    int64_t rest = value % unit, half = unit / 2;
    int64_t base = value - rest, size = rest < 0 ? -rest : rest;
    bool away = size > half || (size == half && (base / unit) % 2 != 0);
    if (away && __builtin_add_overflow(base, value < 0 ? -unit : unit, &base))
        return pn_jrun_fail_with(run, PN_ERR_LIMIT, "an integer does not fit 64 bits");
    *out = pn_jint(base);
    return PN_OK;
}

static pn_status filter_round(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    int64_t precision, i;
    double d;
    pn_jstr method = PN_JSTR("common");
    PN_TRY(pn_jarg_int(run, &args->positional[0], "round()'s precision", 0, &precision));
    if (args->positional[1].type != PN_J_ABSENT)
        PN_TRY(pn_jarg_str(run, &args->positional[1], "round()'s method", &method));
    bool common = pn_jstr_equal(method, PN_JSTR("common")), ceiling = pn_jstr_equal(method, PN_JSTR("ceil"));
    if (!common && !ceiling && !pn_jstr_equal(method, PN_JSTR("floor")))
        return pn_jrun_fail(run, "method must be common, ceil or floor");
    if (self->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, self);
    if (common && pn_jvalue_as_int(self, &i)) return round_integer(run, i, precision, out);
    if (!pn_jvalue_as_double(self, &d))
        return pn_jrun_fail(run, "type %s cannot be rounded", pn_jvalue_type_name(self));
    if (common) {
        *out = pn_jfloat(round_decimals(d, precision));
        return PN_OK;
    }
    double unit = pow(10, (double)precision), scaled = d * unit;
    *out = pn_jfloat((ceiling ? ceil(scaled) : floor(scaled)) / unit);
    return PN_OK;
}

/* ---- the table ---- */

static const pn_jfunction filters[] = {
    {"abs", "", filter_abs},
    {"attr", "name", filter_attr},
    {"batch", "linecount fill_with?", pn_jfilter_batch},
    {"capitalize", "", pn_jfilter_capitalize},
    {"center", "width?", pn_jfilter_center},
    {"count", "", pn_jfilter_length},
    {"d", "default_value? boolean?", filter_default},
    {"default", "default_value? boolean?", filter_default},
    {"dictsort", "case_sensitive? by? reverse?", pn_jfilter_dictsort},
    {"e", "", pn_jfilter_escape},
    {"escape", "", pn_jfilter_escape},
    {"first", "", pn_jfilter_first},
    {"float", "default?", filter_float},
    {"forceescape", "", pn_jfilter_escape},
    {"format", "*", pn_jfilter_format},
    {"groupby", "attribute default? case_sensitive?", pn_jfilter_groupby},
    {"indent", "width? first? blank?", pn_jfilter_indent},
    {"int", "default? base?", filter_int},
    {"items", "", pn_jfilter_items},
    {"join", "d? attribute?", pn_jfilter_join},
    {"last", "", pn_jfilter_last},
    {"length", "", pn_jfilter_length},
    {"list", "", pn_jfilter_list},
    {"lower", "", pn_jfilter_lower},
    {"map", "*", pn_jfilter_map},
    {"max", "case_sensitive? attribute?", pn_jfilter_max},
    {"min", "case_sensitive? attribute?", pn_jfilter_min},
    {"reject", "*", pn_jfilter_reject},
    {"rejectattr", "*", pn_jfilter_rejectattr},
    {"replace", "old new count?", pn_jfilter_replace},
    {"reverse", "", pn_jfilter_reverse},
    {"round", "precision? method?", filter_round},
    {"safe", "", filter_safe},
    {"select", "*", pn_jfilter_select},
    {"selectattr", "*", pn_jfilter_selectattr},
    {"slice", "slices fill_with?", pn_jfilter_slice},
    {"sort", "reverse? case_sensitive? attribute?", pn_jfilter_sort},
    {"string", "", pn_jfilter_string},
    {"sum", "attribute? start?", pn_jfilter_sum},
    {"title", "", pn_jfilter_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", pn_jfilter_tojson},
    {"trim", "chars?", pn_jfilter_trim},
    {"truncate", "length? killwords? end? leeway?", pn_jfilter_truncate},
    {"unique", "case_sensitive? attribute?", pn_jfilter_unique},
    {"upper", "", pn_jfilter_upper},
    {"urlencode", "", pn_jfilter_urlencode},
    {"wordcount", "", pn_jfilter_wordcount},
};

const pn_jfunction *pn_jfilter_find(pn_str name) {
    return pn_jfunction_find(filters, sizeof filters / sizeof filters[0], name);
}
