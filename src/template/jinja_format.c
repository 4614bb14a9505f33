/* SPDX-License-Identifier: Apache-2.0 */
/* Python's two ways to format: "%s of %d" % args, and "{} of {n:>5}".format(args). */
#include "template/jinja_eval.h"
#include "template/jinja_print.h"

#include <math.h>
#include <stdio.h>

/* How one field is shown. */
typedef struct field_spec {
    pn_jstr fill;
    char align; /* '<', '>', '^', '=' (after the sign), or 0 */
    char sign;  /* '+', ' ', or 0 */
    bool alternate, grouped;
    int64_t width, precision; /* precision -1: none */
    char type;                /* 0: by the value */
} field_spec;

#define MAX_PRECISION 300

/* Appends text of the field, padded; n_sign leading bytes are sign or prefix, before which '=' does not pad.
 */
static pn_status add_padded(pn_jrun *run, pn_jtext *text, const field_spec *spec, pn_jstr field,
                            size_t n_sign) {
    PN_TRY(pn_jrun_charge_bytes(run, field.len));
    int64_t n = (int64_t)pn_jstr_n_chars(field);
    size_t missing = spec->width > n ? (size_t)(spec->width - n) : 0;
    size_t left = spec->align == '<' ? 0 : spec->align == '^' ? missing / 2 : missing;
    size_t head = spec->align == '=' ? n_sign : 0;
    PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(field, 0, head)));
    PN_TRY(pn_jtext_add_fill(run, text, spec->fill, left));
    PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(field, head, field.len)));
    return pn_jtext_add_fill(run, text, spec->fill, missing - left);
}

static pn_status add_string(pn_jrun *run, pn_jtext *text, field_spec spec, pn_jstr s) {
    if (spec.precision >= 0) s = pn_jstr_slice(s, 0, pn_jstr_offset(s, (size_t)spec.precision));
    if (!spec.align) spec.align = '<';
    return add_padded(run, text, &spec, s, 0);
}

/* Sign, prefix and digits of an integer in base 2, 8, 10 or 16. */
static void integer_digits(int64_t value, const field_spec *spec, char out[96]) {
    unsigned base = spec->type == 'x' || spec->type == 'X' ? 16
                    : spec->type == 'o'                    ? 8
                    : spec->type == 'b'                    ? 2
                                                           : 10;
    const char *digits = spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char reversed[96];
    size_t n = 0, at = 0, n_digits = 0;
    do {
        if (spec->grouped && n_digits && n_digits % 3 == 0) reversed[n++] = ',';
        reversed[n++] = digits[rest % base];
        rest /= base;
        n_digits++;
    } while (rest);
    if (value < 0 || spec->sign) out[at++] = value < 0 ? '-' : spec->sign;
    if (spec->alternate && base != 10) {
        out[at++] = '0';
        out[at++] = spec->type;
    }
    while (n)
        out[at++] = reversed[--n];
    out[at] = '\0';
}

static size_t sign_length(const char *number) {
    size_t n = number[0] == '-' || number[0] == '+' || number[0] == ' ' ? 1 : 0;
    return number[n] == '0' && (number[n + 1] | 0x20) == 'x' ? n + 2 : n;
}

static pn_status add_number(pn_jrun *run, pn_jtext *text, field_spec spec, const char *number) {
    if (!spec.align) spec.align = '>';
    size_t len = strlen(number);
    char *copy = pn_jrun_alloc(run, len, 1);
    if (!copy) return pn_jrun_failed(run);
    memcpy(copy, number, len);
    return add_padded(run, text, &spec, pn_jstr_make(copy, len, true), sign_length(number));
}

static pn_status add_integer(pn_jrun *run, pn_jtext *text, const field_spec *spec, int64_t value) {
    char number[96];
    integer_digits(value, spec, number);
    return add_number(run, text, *spec, number);
}

/* "1234567.5" to "1,234,567.5", in place; there is room. */
static void group_digits(char *number) {
    size_t begin = number[0] == '-' || number[0] == '+' || number[0] == ' ' ? 1 : 0;
    size_t n = strspn(number + begin, "0123456789");
    for (size_t at = n; at > 3;) {
        at -= 3;
        memmove(number + begin + at + 1, number + begin + at, strlen(number + begin + at) + 1);
        number[begin + at] = ',';
    }
}

static pn_status add_float(pn_jrun *run, pn_jtext *text, const field_spec *spec, double value) {
    char number[1024], format[8] = "%.*f", *at = number;
    int precision = spec->precision >= 0 ? (int)spec->precision : 6;
    bool percent = spec->type == '%';
    format[3] = percent || !spec->type ? 'f' : spec->type;
    if (spec->sign && !signbit(value)) *at++ = spec->sign;
    int n = snprintf(at, 800, format, precision, percent ? value * 100 : value);
    char *point = strpbrk(at, ","); /* a locale's */
    if (point) *point = '.';
    if (percent) memcpy(at + n, "%", 2);
    if (spec->grouped) group_digits(number);
    return add_number(run, text, *spec, number);
}

/* repr of a float without a type, or digits by `type`. */
static pn_status add_number_value(pn_jrun *run, pn_jtext *text, const field_spec *spec, const pn_jvalue *v) {
    int64_t i;
    double d;
    bool float_type = spec->type && strchr("eEfFgG%", spec->type);
    if (!float_type && pn_jvalue_as_int(v, &i)) return add_integer(run, text, spec, i);
    if (!pn_jvalue_as_double(v, &d) || (spec->type && !float_type))
        return pn_jrun_fail(run, "format code '%c' does not fit a value of type '%s'", spec->type,
                            pn_jvalue_type_name(v));
    if (float_type || spec->precision >= 0) {
        field_spec general = *spec;
        if (!general.type) general.type = 'g';
        return add_float(run, text, &general, d);
    }
    char number[40] = "", *at = number;
    if (spec->sign && !signbit(d)) *at++ = spec->sign;
    pn_jinja_format_double(d, at);
    return add_number(run, text, *spec, number);
}

/* A number at s[*at..): clamps instead of overflowing. */
static bool read_number(pn_jstr s, size_t *at, int64_t *out) {
    size_t begin = *at;
    int64_t value = 0;
    while (*at < s.len && s.data[*at] >= '0' && s.data[*at] <= '9') {
        value = value * 10 + (s.data[(*at)++] - '0');
        if (value > INT32_MAX) value = INT32_MAX;
    }
    if (*at > begin) *out = value;
    return *at > begin;
}

/* ---- % ---- */

/* Where a % format takes its values from. */
typedef struct percent_source {
    const pn_jvalue *args;
    size_t next;
    bool keyed; /* some field had a key: the dict need not be used up */
} percent_source;

static pn_status next_percent_value(pn_jrun *run, percent_source *source, pn_jvalue *out) {
    bool tuple = source->args->type == PN_J_TUPLE;
    size_t n = tuple ? source->args->u.seq->n : 1;
    if (source->next >= n) return pn_jrun_fail(run, "not enough arguments for format string");
    *out = tuple ? source->args->u.seq->items[source->next] : *source->args;
    source->next++;
    return PN_OK;
}

/* "(key)" at *at, when it is there. */
static pn_status percent_key(pn_jrun *run, pn_jstr format, size_t *at, percent_source *source,
                             pn_jvalue *out) {
    size_t close = pn_jstr_find(format, PN_JSTR(")"), *at);
    if (close == PN_JSTR_NONE) return pn_jrun_fail(run, "incomplete format key");
    if (source->args->type != PN_J_DICT) return pn_jrun_fail(run, "format requires a mapping");
    pn_jstr key = pn_jstr_slice(format, *at + 1, close);
    const pn_jvalue *found = pn_jdict_find_str(source->args->u.dict, pn_jstr_bytes(key));
    if (!found)
        return pn_jrun_fail(run, "the format's key '%.*s' is not given", (int)(key.len < 80 ? key.len : 80),
                            key.data);
    *out = *found;
    *at = close + 1;
    source->keyed = true;
    return PN_OK;
}

/* Flags, width and precision. */
static pn_status percent_spec(pn_jrun *run, pn_jstr format, size_t *at, percent_source *source,
                              field_spec *spec) {
    *spec = (field_spec){.fill = PN_JSTR(" "), .align = '>', .precision = -1};
    for (; *at < format.len && strchr("-+ #0", format.data[*at]); (*at)++) {
        char flag = format.data[*at];
        if (flag == '-') spec->align = '<';
        if (flag == '+' || (flag == ' ' && !spec->sign)) spec->sign = flag;
        if (flag == '#') spec->alternate = true;
        if (flag == '0') spec->fill = PN_JSTR("0");
    }
    if (spec->fill.data[0] == '0') {
        spec->fill = spec->align == '<' ? PN_JSTR(" ") : PN_JSTR("0");
        if (spec->align != '<') spec->align = '=';
    }
    pn_jvalue star;
    if (*at < format.len && format.data[*at] == '*') {
        PN_TRY(next_percent_value(run, source, &star));
        PN_TRY(pn_jarg_int(run, &star, "* width", 0, &spec->width));
        (*at)++;
    } else {
        read_number(format, at, &spec->width);
    }
    if (*at < format.len && format.data[*at] == '.') {
        (*at)++;
        spec->precision = 0;
        read_number(format, at, &spec->precision);
    }
    return PN_OK;
}

static pn_status add_percent_string(pn_jrun *run, pn_jtext *text, field_spec spec, const pn_jvalue *value) {
    pn_jtext shown = {0};
    pn_jstr s;
    PN_TRY(spec.type == 's' ? pn_jprint(run, &shown, value) : pn_jprint_repr(run, &shown, value));
    PN_TRY(pn_jtext_join(run, &shown, &s));
    if (spec.align == '=') spec.align = '>';
    spec.fill = PN_JSTR(" ");
    return add_string(run, text, spec, s);
}

static pn_status add_percent_integer(pn_jrun *run, pn_jtext *text, field_spec spec, const pn_jvalue *value) {
    int64_t i;
    if (value->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, value);
    if (strchr("diu", spec.type) && value->type == PN_J_FLOAT && fabs(value->u.real) < 9e18)
        i = (int64_t)value->u.real;
    else if (!pn_jvalue_as_int(value, &i))
        return pn_jrun_fail(run, "%%%c format: a number is required, not %s", spec.type,
                            pn_jvalue_type_name(value));
    char digits[96];
    if (strchr("diu", spec.type)) spec.type = 'd';
    integer_digits(i, &spec, digits);
    if (spec.precision > (int64_t)strlen(digits)) { /* at least so many digits */
        spec.width = spec.precision + (digits[0] == '-' || digits[0] == '+');
        spec.fill = PN_JSTR("0");
        spec.align = '=';
    }
    return add_number(run, text, spec, digits);
}

static pn_status add_percent_field(pn_jrun *run, pn_jtext *text, field_spec spec, const pn_jvalue *value) {
    if (spec.precision > MAX_PRECISION && !strchr("sra", spec.type))
        return pn_jrun_fail(run, "precision too large");
    switch (spec.type) {
    case 's':
    case 'r':
    case 'a':
        return add_percent_string(run, text, spec, value);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        return add_percent_integer(run, text, spec, value);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (value->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, value);
        if (!pn_jvalue_is_number(value))
            return pn_jrun_fail(run, "must be real number, not %s", pn_jvalue_type_name(value));
        return add_number_value(run, text, &spec, value);
    default:
        return pn_jrun_fail(run, "unsupported format character 0x%02x", (unsigned)(unsigned char)spec.type);
    }
}

/* The field after the '%' at *at. */
static pn_status percent_field(pn_jrun *run, pn_jtext *text, pn_jstr format, size_t *at,
                               percent_source *source) {
    field_spec spec;
    pn_jvalue value = {.type = PN_J_ABSENT};
    if (*at < format.len && format.data[*at] == '(') PN_TRY(percent_key(run, format, at, source, &value));
    PN_TRY(percent_spec(run, format, at, source, &spec));
    if (*at >= format.len) return pn_jrun_fail(run, "incomplete format");
    spec.type = format.data[(*at)++];
    if (spec.type == '%') return pn_jtext_add(run, text, PN_JSTR("%"));
    if (value.type == PN_J_ABSENT) PN_TRY(next_percent_value(run, source, &value));
    return add_percent_field(run, text, spec, &value);
}

pn_status pn_jformat_percent(pn_jrun *run, pn_jstr format, const pn_jvalue *args, pn_jvalue *out) {
    percent_source source = {.args = args};
    pn_jtext text = {0};
    PN_TRY(pn_jrun_charge_bytes(run, format.len));
    for (size_t at = 0; at < format.len;) {
        size_t percent = pn_jstr_find(format, PN_JSTR("%"), at);
        size_t end = percent == PN_JSTR_NONE ? format.len : percent;
        PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(format, at, end)));
        at = end + 1;
        if (percent != PN_JSTR_NONE) PN_TRY(percent_field(run, &text, format, &at, &source));
    }
    /* Python takes whatever can be subscripted for a mapping, of which nothing must be used. */
    bool mapping = args->type == PN_J_DICT || args->type == PN_J_LIST || args->type == PN_J_RANGE ||
                   args->type == PN_J_UNDEFINED;
    size_t n_args = args->type == PN_J_TUPLE ? args->u.seq->n : mapping ? 0 : 1;
    if (source.next < n_args && !source.keyed)
        return pn_jrun_fail(run, "not all arguments converted during string formatting");
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, &text, &out->u.str);
}

/* ---- braces ---- */

static bool is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static pn_status brace_spec(pn_jrun *run, pn_jstr s, field_spec *spec) {
    size_t at = 0, first = s.len ? pn_jstr_char(s, 0, NULL) : 0;
    *spec = (field_spec){.fill = PN_JSTR(" "), .precision = -1};
    if (first < s.len && is_align(s.data[first])) {
        spec->fill = pn_jstr_slice(s, 0, first);
        at = first;
    }
    if (at < s.len && is_align(s.data[at])) spec->align = s.data[at++];
    if (at < s.len && strchr("+- ", s.data[at])) {
        spec->sign = s.data[at] == '-' ? 0 : s.data[at];
        at++;
    }
    if (at < s.len && s.data[at] == '#') spec->alternate = ++at;
    if (at < s.len && s.data[at] == '0') {
        if (!spec->align) {
            spec->fill = PN_JSTR("0");
            spec->align = '=';
        }
        at++;
    }
    read_number(s, &at, &spec->width);
    if (at < s.len && s.data[at] == ',') spec->grouped = ++at;
    if (at < s.len && s.data[at] == '.') {
        at++;
        if (!read_number(s, &at, &spec->precision))
            return pn_jrun_fail(run, "format specifier missing precision");
    }
    if (at < s.len) spec->type = s.data[at++];
    if (at < s.len || (spec->type && !strchr("sdbxXoeEfFgG%", spec->type)) || spec->precision > MAX_PRECISION)
        return pn_jrun_fail(run, "invalid format specifier '%.*s'", (int)(s.len < 80 ? s.len : 80), s.data);
    return PN_OK;
}

static pn_status add_brace_value(pn_jrun *run, pn_jtext *text, const pn_jvalue *value, char conversion,
                                 pn_jstr format) {
    field_spec spec;
    pn_jtext shown = {0};
    pn_jstr s;
    PN_TRY(brace_spec(run, format, &spec));
    if (!conversion &&
        (value->type == PN_J_INT || value->type == PN_J_FLOAT || (value->type == PN_J_BOOL && format.len))) {
        if (spec.type != 's') return add_number_value(run, text, &spec, value);
        return pn_jrun_fail(run, "unknown format code 's' for object of type '%s'",
                            pn_jvalue_type_name(value));
    }
    PN_TRY(conversion == 'r' ? pn_jprint_repr(run, &shown, value) : pn_jprint(run, &shown, value));
    PN_TRY(pn_jtext_join(run, &shown, &s));
    bool is_text = conversion || value->type == PN_J_STRING;
    if ((format.len && !is_text) || (spec.type && spec.type != 's') || spec.align == '=')
        return pn_jrun_fail(run, "invalid format specifier '%.*s' for object of type '%s'",
                            (int)(format.len < 80 ? format.len : 80), format.data,
                            pn_jvalue_type_name(value));
    return add_string(run, text, spec, s);
}

/* The argument that a field's name begins with; *at moves behind it. */
static pn_status brace_argument(pn_jrun *run, pn_jstr name, size_t *at, const pn_jargs *args,
                                size_t *automatic, pn_jvalue *out) {
    int64_t index = 0;
    while (*at < name.len && name.data[*at] != '.' && name.data[*at] != '[')
        (*at)++;
    pn_jstr first = pn_jstr_slice(name, 0, *at);
    size_t digits = 0;
    bool numbered = read_number(first, &digits, &index) && digits == first.len;
    if (first.len == 0) index = (int64_t)(*automatic)++;
    if (first.len == 0 || numbered) {
        if (index >= (int64_t)args->n_positional)
            return pn_jrun_fail(run, "replacement index %lld out of range", (long long)index);
        *out = args->positional[index];
        return PN_OK;
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (!pn_str_equal(args->names[i], pn_jstr_bytes(first))) continue;
        *out = args->values[i];
        return PN_OK;
    }
    return pn_jrun_fail(run, "the format's field '%.*s' is not given", (int)(first.len < 80 ? first.len : 80),
                        first.data);
}

/* "name.attribute[item]". */
static pn_status brace_field(pn_jrun *run, pn_jstr name, const pn_jargs *args, size_t *automatic,
                             pn_jvalue *out) {
    size_t at = 0;
    PN_TRY(brace_argument(run, name, &at, args, automatic, out));
    while (at < name.len) {
        bool attribute = name.data[at] == '.';
        size_t begin = ++at;
        while (at < name.len &&
               (attribute ? name.data[at] != '.' && name.data[at] != '[' : name.data[at] != ']'))
            at++;
        pn_jstr part = pn_jstr_slice(name, begin, at);
        int64_t index = 0;
        size_t digits = 0;
        bool numbered = !attribute && read_number(part, &digits, &index) && digits == part.len;
        pn_jvalue object = *out, key = numbered ? pn_jint(index) : pn_jstring(part);
        PN_TRY(attribute ? pn_jop_attribute(run, &object, pn_jstr_bytes(part), out)
                         : pn_jop_subscript(run, &object, &key, out));
        if (!attribute) at++;
    }
    return PN_OK;
}

/* The field between the braces. */
static pn_status brace(pn_jrun *run, pn_jtext *text, pn_jstr field, const pn_jargs *args, size_t *automatic) {
    size_t colon = pn_jstr_find(field, PN_JSTR(":"), 0), mark = pn_jstr_find(field, PN_JSTR("!"), 0);
    pn_jstr format = colon == PN_JSTR_NONE ? PN_JSTR("") : pn_jstr_slice(field, colon + 1, field.len);
    size_t end = colon == PN_JSTR_NONE ? field.len : colon;
    char conversion = 0;
    if (mark < end) {
        conversion = mark + 2 == end ? field.data[mark + 1] : '?';
        if (conversion != 's' && conversion != 'r') return pn_jrun_fail(run, "unknown conversion after '!'");
        end = mark;
    }
    pn_jvalue value;
    PN_TRY(brace_field(run, pn_jstr_slice(field, 0, end), args, automatic, &value));
    return add_brace_value(run, text, &value, conversion, format);
}

pn_status pn_jformat_braces(pn_jrun *run, pn_jstr format, const pn_jargs *args, pn_jvalue *out) {
    pn_jtext text = {0};
    size_t automatic = 0;
    PN_TRY(pn_jrun_charge_bytes(run, format.len * 2));
    for (size_t at = 0; at < format.len;) {
        size_t begin = at;
        while (at < format.len && format.data[at] != '{' && format.data[at] != '}')
            at++;
        PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(format, begin, at)));
        if (at == format.len) break;
        if (at + 1 < format.len && format.data[at + 1] == format.data[at]) { /* "{{" and "}}" stand for one */
            PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(format, at, at + 1)));
            at += 2;
            continue;
        }
        size_t close = format.data[at] == '{' ? pn_jstr_find(format, PN_JSTR("}"), at) : PN_JSTR_NONE;
        if (close == PN_JSTR_NONE)
            return pn_jrun_fail(run, "a single '%c' in a format string", format.data[at]);
        PN_TRY(brace(run, &text, pn_jstr_slice(format, at + 1, close), args, &automatic));
        at = close + 1;
    }
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, &text, &out->u.str);
}
