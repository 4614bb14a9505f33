/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that give text. */
#include "template/jinja_filters.h"

#include "template/jinja_print.h"

#include <stdio.h>
#include <utf8proc.h>

static pn_status done(pn_jrun *run, const pn_jtext *text, pn_jvalue *out) {
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, text, &out->u.str);
}

pn_status pn_jfilter_string(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    *out = pn_jstring(PN_JSTR(""));
    return pn_jvalue_str(run, self, &out->u.str);
}

/* ---- case ---- */

static pn_status map_case(pn_jrun *run, const pn_jvalue *self, pn_jcase how, pn_jvalue *out) {
    pn_jstr s;
    PN_TRY(pn_jvalue_str(run, self, &s));
    *out = pn_jstring(s);
    return pn_jstr_map_case(run, s, how, &out->u.str);
}

pn_status pn_jfilter_upper(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_UPPER, out);
}

pn_status pn_jfilter_lower(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_LOWER, out);
}

pn_status pn_jfilter_capitalize(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_CAPITAL, out);
}

/* Where Jinja2's title filter begins a new word. */
static bool ends_word(uint32_t c) {
    return pn_jchar_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
}

/* Unlike str.title, "don't" gives "Don't". */
pn_status pn_jfilter_title(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jstr s;
    pn_jtext text = {0};
    PN_TRY(pn_jvalue_str(run, self, &s));
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        size_t begin = i;
        bool separator = true;
        while (i < s.len && separator) { /* separators, and then a word */
            size_t n = pn_jstr_char(s, i, &c);
            separator = ends_word(c);
            if (separator) i += n;
        }
        PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(s, begin, i)));
        for (begin = i; i < s.len; i += pn_jstr_char(s, i, NULL)) {
            pn_jstr_char(s, i, &c);
            if (ends_word(c)) break;
        }
        pn_jstr word;
        PN_TRY(pn_jstr_map_case(run, pn_jstr_slice(s, begin, i), PN_JCASE_CAPITAL, &word));
        PN_TRY(pn_jtext_add(run, &text, word));
    }
    return done(run, &text, out);
}

/* ---- white space and length ---- */

pn_status pn_jfilter_trim(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s, chars;
    bool given = pn_jarg_given(&args->positional[0]);
    PN_TRY(pn_jvalue_str(run, self, &s));
    if (given) PN_TRY(pn_jarg_str(run, &args->positional[0], "trim()'s chars", &chars));
    PN_TRY(pn_jrun_charge_bytes(run, s.len * (given ? 1 + chars.len : 1)));
    *out = pn_jstring(pn_jstr_strip(s, given ? &chars : NULL, PN_JSTRIP_LEFT | PN_JSTRIP_RIGHT));
    return PN_OK;
}

pn_status pn_jfilter_center(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s;
    pn_jtext text = {0};
    int64_t width;
    PN_TRY(pn_jvalue_str(run, self, &s));
    PN_TRY(pn_jarg_int(run, &args->positional[0], "center()'s width", 80, &width));
    PN_TRY(pn_jrun_charge_bytes(run, s.len));
    int64_t n = (int64_t)pn_jstr_n_chars(s), missing = width > n ? width - n : 0;
    int64_t left = missing / 2 + (missing & width & 1); /* as CPython rounds */
    PN_TRY(pn_jtext_add_fill(run, &text, PN_JSTR(" "), (size_t)left));
    PN_TRY(pn_jtext_add(run, &text, s));
    PN_TRY(pn_jtext_add_fill(run, &text, PN_JSTR(" "), (size_t)(missing - left)));
    return done(run, &text, out);
}

/* The end of the line that begins at `begin`; *next is where the following one begins. */
static size_t line_end(pn_jstr s, size_t begin, size_t *next) {
    for (size_t i = begin; i < s.len;) {
        uint32_t c;
        size_t n = pn_jstr_char(s, i, &c);
        if (pn_jchar_is_line_end(c)) {
            bool pair = c == '\r' && i + 1 < s.len && s.data[i + 1] == '\n';
            *next = i + n + (pair ? 1 : 0);
            return i;
        }
        i += n;
    }
    *next = s.len;
    return s.len;
}

/* All lines but the first are indented, blank ones only on demand. A line end at the end of s stays. */
pn_status pn_jfilter_indent(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s, indent = PN_JSTR("");
    pn_jtext text = {0}, spaces = {0};
    int64_t width;
    PN_TRY(pn_jarg_str(run, self, "what indent() is applied to", &s));
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 4));
    if (args->positional[0].type == PN_J_STRING) {
        indent = args->positional[0].u.str;
    } else {
        PN_TRY(pn_jarg_int(run, &args->positional[0], "indent()'s width", 4, &width));
        PN_TRY(pn_jtext_add_fill(run, &spaces, PN_JSTR(" "), width > 0 ? (size_t)width : 0));
        PN_TRY(pn_jtext_join(run, &spaces, &indent));
    }
    bool blank = pn_jarg_truth(&args->positional[2], false);
    if (pn_jarg_truth(&args->positional[1], false)) PN_TRY(pn_jtext_add(run, &text, indent));
    size_t begin = 0, next;
    for (bool first = true;; first = false) {
        size_t end = line_end(s, begin, &next);
        if (!first) PN_TRY(pn_jtext_add(run, &text, PN_JSTR("\n")));
        if (!first && (blank || end > begin)) PN_TRY(pn_jtext_add(run, &text, indent));
        PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(s, begin, end)));
        if (end == s.len) break;
        begin = next;
    }
    return done(run, &text, out);
}

pn_status pn_jfilter_truncate(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s, end = PN_JSTR("...");
    pn_jtext text = {0};
    int64_t length, leeway;
    size_t n = 0;
    PN_TRY(pn_jarg_int(run, &args->positional[0], "truncate()'s length", 255, &length));
    if (args->positional[2].type != PN_J_ABSENT)
        PN_TRY(pn_jarg_str(run, &args->positional[2], "truncate()'s end", &end));
    PN_TRY(pn_jarg_int(run, &args->positional[3], "truncate()'s leeway", 5, &leeway));
    PN_TRY(pn_jrun_charge_bytes(run, end.len + (self->type == PN_J_STRING ? self->u.str.len : 0)));
    int64_t n_end = (int64_t)pn_jstr_n_chars(end);
    if (length < n_end || leeway < 0)
        return pn_jrun_fail(run, "truncate() needs a length of at least %lld", (long long)n_end);
    *out = *self;
    if (pn_jvalue_length(self, &n) && (int64_t)n - length <= leeway) return PN_OK;
    PN_TRY(pn_jarg_str(run, self, "what truncate() is applied to", &s));
    s = pn_jstr_slice(s, 0, pn_jstr_offset(s, (size_t)(length - n_end)));
    size_t space = PN_JSTR_NONE;
    bool kill_words = pn_jarg_truth(&args->positional[1], false);
    if (!kill_words) PN_TRY(pn_jstr_rfind(run, s, PN_JSTR(" "), &space));
    if (space != PN_JSTR_NONE) s = pn_jstr_slice(s, 0, space);
    PN_TRY(pn_jtext_add(run, &text, s));
    PN_TRY(pn_jtext_add(run, &text, end));
    return done(run, &text, out);
}

pn_status pn_jfilter_wordcount(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jstr s;
    int64_t n = 0;
    bool inside = false;
    PN_TRY(pn_jvalue_str(run, self, &s));
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 4));
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        i += pn_jstr_char(s, i, &c);
        utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
        bool word = c == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
                    (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
        n += word && !inside;
        inside = word;
    }
    *out = pn_jint(n);
    return PN_OK;
}

/* ---- replacing and quoting ---- */

pn_status pn_jfilter_replace(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jvalue given[3];
    pn_jstr s;
    bool forbidden;
    PN_TRY(pn_jvalue_str(run, self, &s));
    for (size_t i = 0; i < 2; i++) { /* the filter takes any values and replaces their text */
        given[i] = pn_jstring(s);
        PN_TRY(pn_jvalue_str(run, &args->positional[i], &given[i].u.str));
    }
    given[2] = pn_jarg_given(&args->positional[2]) ? args->positional[2] : pn_jint(-1);
    pn_jvalue subject = pn_jstring(s);
    pn_jargs method_args = {.positional = given, .n_positional = 3};
    const pn_jfunction *method = pn_jmethod_find(&subject, PN_STR("replace"), &forbidden);
    return pn_jfunction_call(run, method, &subject, &method_args, out);
}

/* Replaces each byte by what replacement() gives for it, where that is not NULL. */
static pn_status replace_bytes(pn_jrun *run, pn_jtext *text, pn_jstr s,
                               const char *(*replacement)(unsigned char c, bool flag, char buf[8]),
                               bool flag) {
    size_t begin = 0;
    PN_TRY(pn_jrun_charge_bytes(run, s.len));
    for (size_t i = 0; i < s.len; i++) {
        char buf[8];
        const char *with = replacement((unsigned char)s.data[i], flag, buf);
        if (!with) continue;
        PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(s, begin, i)));
        PN_TRY(pn_jtext_add_copy(run, text, with, strlen(with), false));
        begin = i + 1;
    }
    return pn_jtext_add(run, text, pn_jstr_slice(s, begin, s.len));
}

static const char *html_entity(unsigned char c, bool flag, char buf[8]) {
    (void)flag;
    (void)buf;
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&#34;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

pn_status pn_jfilter_escape(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jstr s;
    pn_jtext text = {0};
    PN_TRY(pn_jvalue_str(run, self, &s));
    PN_TRY(replace_bytes(run, &text, s, html_entity, false));
    return done(run, &text, out);
}

/* In a query a slash is quoted too, and a space becomes '+'. */
static const char *url_quoted(unsigned char c, bool in_query, char buf[8]) {
    bool kept =
        (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr("_.-~", c));
    if (kept || (c == '/' && !in_query)) return NULL;
    if (c == ' ' && in_query) return "+";
    snprintf(buf, 8, "%%%02X", c);
    return buf;
}

static pn_status add_query_part(pn_jrun *run, pn_jtext *text, const pn_jvalue *part) {
    pn_jstr s;
    PN_TRY(pn_jvalue_str(run, part, &s));
    return replace_bytes(run, text, s, url_quoted, true);
}

/* key=value&… of a sequence of pairs. */
static pn_status add_query(pn_jrun *run, pn_jtext *text, const pn_jlist *pairs) {
    for (size_t i = 0; i < pairs->n; i++) {
        pn_jlist pair;
        PN_TRY(pn_jvalue_collect(run, &pairs->items[i], &pair));
        if (pair.n != 2)
            return pn_jrun_fail(run, "urlencode wants pairs, item %zu has %zu values", i, pair.n);
        if (i) PN_TRY(pn_jtext_add(run, text, PN_JSTR("&")));
        PN_TRY(add_query_part(run, text, &pair.items[0]));
        PN_TRY(pn_jtext_add(run, text, PN_JSTR("=")));
        PN_TRY(add_query_part(run, text, &pair.items[1]));
    }
    return PN_OK;
}

/* A string is quoted; a dict or a sequence of pairs becomes a query. */
pn_status pn_jfilter_urlencode(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jtext text = {0};
    pn_jstr s;
    if (self->type != PN_J_STRING && pn_jvalue_is_iterable(self)) {
        pn_jvalue items = *self;
        pn_jlist pairs;
        if (self->type == PN_J_DICT) PN_TRY(pn_jfilter_items(run, self, args, &items));
        PN_TRY(pn_jvalue_collect(run, &items, &pairs));
        PN_TRY(add_query(run, &text, &pairs));
        return done(run, &text, out);
    }
    PN_TRY(pn_jvalue_str(run, self, &s));
    PN_TRY(replace_bytes(run, &text, s, url_quoted, false));
    return done(run, &text, out);
}

/* ---- putting together ---- */

pn_status pn_jfilter_join(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    static const pn_jvalue no_fallback = {.type = PN_J_ABSENT};
    pn_jstr separator = PN_JSTR("");
    pn_jcursor cursor;
    pn_jtext text = {0};
    if (args->positional[0].type != PN_J_ABSENT) PN_TRY(pn_jvalue_str(run, &args->positional[0], &separator));
    PN_TRY(pn_jcursor_open(run, self, &cursor));
    for (bool first = true;; first = false) {
        pn_jvalue item;
        bool end;
        PN_TRY(pn_jcursor_next(run, &cursor, &item, &end));
        if (end) break;
        if (pn_jarg_given(&args->positional[1])) {
            pn_jvalue whole = item;
            PN_TRY(pn_jfilter_get_path(run, &whole, &args->positional[1], &no_fallback, &item));
        }
        if (!first) PN_TRY(pn_jtext_add(run, &text, separator));
        PN_TRY(pn_jprint(run, &text, &item));
    }
    return done(run, &text, out);
}

pn_status pn_jfilter_format(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr format;
    pn_jvalue values;
    if (args->n_positional && args->n_keywords)
        return pn_jrun_fail(run, "can't handle positional and keyword arguments at the same time");
    PN_TRY(pn_jvalue_str(run, self, &format));
    if (args->n_keywords == 0) {
        PN_TRY(pn_jseq_make(run, PN_J_TUPLE, args->positional, args->n_positional, &values));
        return pn_jformat_percent(run, format, &values, out);
    }
    pn_jdict *dict = pn_jrun_alloc(run, 1, sizeof *dict);
    if (!dict) return pn_jrun_failed(run);
    for (size_t i = 0; i < args->n_keywords; i++) {
        pn_jvalue key = pn_jstring(pn_jstr_make(args->names[i].data, args->names[i].len, true));
        PN_TRY(pn_jdict_set(run, dict, key, args->values[i]));
    }
    values = (pn_jvalue){.type = PN_J_DICT, .u.dict = dict};
    return pn_jformat_percent(run, format, &values, out);
}

static pn_status json_separators(pn_jrun *run, const pn_jvalue *pair, pn_jjson_options *options) {
    bool is_pair = (pair->type == PN_J_TUPLE || pair->type == PN_J_LIST) && pair->u.seq->n == 2;
    if (!is_pair) return pn_jrun_fail(run, "tojson()'s separators must be two strings");
    PN_TRY(pn_jarg_str(run, &pair->u.seq->items[0], "a separator", &options->item_separator));
    return pn_jarg_str(run, &pair->u.seq->items[1], "a separator", &options->key_separator);
}

static pn_status json_indent(pn_jrun *run, const pn_jvalue *indent, pn_jjson_options *options) {
    pn_jtext spaces = {0};
    int64_t width;
    options->pretty = true;
    options->item_separator = pn_jstr_make(",", 1, false);
    if (indent->type == PN_J_STRING) {
        options->indent = indent->u.str;
        return PN_OK;
    }
    PN_TRY(pn_jarg_int(run, indent, "tojson()'s indent", 0, &width));
    PN_TRY(pn_jtext_add_fill(run, &spaces, pn_jstr_make(" ", 1, false), width > 0 ? (size_t)width : 0));
    return pn_jtext_join(run, &spaces, &options->indent);
}

pn_status pn_jfilter_tojson(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jtext text = {0};
    pn_jjson_options options = {.item_separator = pn_jstr_make(", ", 2, false),
                                .key_separator = pn_jstr_make(": ", 2, false)};
    options.ensure_ascii = pn_jarg_truth(&args->positional[0], false);
    options.sort_keys = pn_jarg_truth(&args->positional[3], false);
    if (pn_jarg_given(&args->positional[1])) PN_TRY(json_indent(run, &args->positional[1], &options));
    if (pn_jarg_given(&args->positional[2])) PN_TRY(json_separators(run, &args->positional[2], &options));
    PN_TRY(pn_jprint_json(run, &text, self, &options));
    return done(run, &text, out);
}
