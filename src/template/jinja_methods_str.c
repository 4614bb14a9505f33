/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of Python's str. */
#include "template/jinja_methods.h"

#include "template/jinja_print.h"

#include <utf8proc.h>

static pn_status give(pn_jvalue *out, pn_jstr s) {
    *out = pn_jstring(s);
    return PN_OK;
}

static pn_status done(pn_jrun *run, const pn_jtext *text, pn_jvalue *out) {
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, text, &out->u.str);
}

/* ---- strip ---- */

static pn_status strip(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, unsigned ends,
                       pn_jvalue *out) {
    pn_jstr chars;
    bool given = pn_jarg_given(&args->positional[0]);
    if (given) PN_TRY(pn_jarg_str(run, &args->positional[0], "strip()'s argument", &chars));
    PN_TRY(pn_jrun_charge_bytes(run, self->u.str.len * (given ? 1 + chars.len : 1)));
    return give(out, pn_jstr_strip(self->u.str, given ? &chars : NULL, ends));
}

static pn_status str_strip(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return strip(run, self, args, PN_JSTRIP_LEFT | PN_JSTRIP_RIGHT, out);
}

static pn_status str_lstrip(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return strip(run, self, args, PN_JSTRIP_LEFT, out);
}

static pn_status str_rstrip(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return strip(run, self, args, PN_JSTRIP_RIGHT, out);
}

static pn_status str_removeprefix(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr prefix, s = self->u.str;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "removeprefix()'s argument", &prefix));
    PN_TRY(pn_jrun_charge_bytes(run, prefix.len));
    return give(out, pn_jstr_starts(s, prefix) ? pn_jstr_slice(s, prefix.len, s.len) : s);
}

static pn_status str_removesuffix(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr suffix, s = self->u.str;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "removesuffix()'s argument", &suffix));
    PN_TRY(pn_jrun_charge_bytes(run, suffix.len));
    return give(out, pn_jstr_ends(s, suffix) ? pn_jstr_slice(s, 0, s.len - suffix.len) : s);
}

/* ---- split ---- */

static pn_status split_at(pn_jrun *run, pn_jstr s, pn_jstr separator, int64_t max, pn_jlist *parts) {
    size_t begin = 0;
    for (; max != 0; max--) {
        size_t at = pn_jstr_find(s, separator, begin);
        if (at == PN_JSTR_NONE) break;
        PN_TRY(pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, begin, at))));
        begin = at + separator.len;
    }
    return pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, begin, s.len)));
}

/* The parts come last first. */
static pn_status rsplit_at(pn_jrun *run, pn_jstr s, pn_jstr separator, int64_t max, pn_jlist *parts) {
    for (; max != 0; max--) {
        size_t at;
        PN_TRY(pn_jstr_rfind(run, s, separator, &at));
        if (at == PN_JSTR_NONE) break;
        PN_TRY(pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, at + separator.len, s.len))));
        s = pn_jstr_slice(s, 0, at);
    }
    return pn_jlist_add(run, parts, pn_jstring(s));
}

/* End of the run of characters at `from` that are (not) white space. */
static size_t skip_run(pn_jstr s, size_t from, bool spaces) {
    while (from < s.len) {
        uint32_t c;
        size_t n = pn_jstr_char(s, from, &c);
        if (pn_jchar_is_space(c) != spaces) break;
        from += n;
    }
    return from;
}

static size_t skip_run_back(pn_jstr s, size_t end, bool spaces) {
    while (end > 0) {
        uint32_t c;
        size_t n = pn_jstr_char_before(s, end, &c);
        if (pn_jchar_is_space(c) != spaces) break;
        end -= n;
    }
    return end;
}

static pn_status split_words(pn_jrun *run, pn_jstr s, int64_t max, pn_jlist *parts) {
    size_t at = skip_run(s, 0, true);
    for (; max != 0 && at < s.len; max--) {
        size_t end = skip_run(s, at, false);
        PN_TRY(pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, at, end))));
        at = skip_run(s, end, true);
    }
    return at < s.len ? pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, at, s.len))) : PN_OK;
}

/* The parts come last first. */
static pn_status rsplit_words(pn_jrun *run, pn_jstr s, int64_t max, pn_jlist *parts) {
    size_t end = skip_run_back(s, s.len, true);
    for (; max != 0 && end > 0; max--) {
        size_t begin = skip_run_back(s, end, false);
        PN_TRY(pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, begin, end))));
        end = skip_run_back(s, begin, true);
    }
    return end > 0 ? pn_jlist_add(run, parts, pn_jstring(pn_jstr_slice(s, 0, end))) : PN_OK;
}

static pn_status split(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, bool from_right,
                       pn_jvalue *out) {
    pn_jstr s = self->u.str, separator;
    int64_t max;
    pn_jlist parts = {0};
    PN_TRY(pn_jarg_int(run, &args->positional[1], "split()'s maxsplit", -1, &max));
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 2));
    if (pn_jarg_given(&args->positional[0])) {
        PN_TRY(pn_jarg_str(run, &args->positional[0], "split()'s separator", &separator));
        if (separator.len == 0) return pn_jrun_fail(run, "empty separator");
        PN_TRY(from_right ? rsplit_at(run, s, separator, max, &parts)
                          : split_at(run, s, separator, max, &parts));
    } else {
        PN_TRY(from_right ? rsplit_words(run, s, max, &parts) : split_words(run, s, max, &parts));
    }
    for (size_t i = 0; from_right && i < parts.n / 2; i++) {
        pn_jvalue swap = parts.items[i];
        parts.items[i] = parts.items[parts.n - 1 - i];
        parts.items[parts.n - 1 - i] = swap;
    }
    return pn_jseq_make(run, PN_J_LIST, parts.items, parts.n, out);
}

static pn_status str_split(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return split(run, self, args, false, out);
}

static pn_status str_rsplit(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return split(run, self, args, true, out);
}

static pn_status str_splitlines(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s = self->u.str;
    pn_jlist lines = {0};
    bool keep_ends = pn_jarg_truth(&args->positional[0], false);
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 2));
    for (size_t begin = 0, i = 0; i < s.len;) {
        uint32_t c;
        size_t end = i;
        i += pn_jstr_char(s, i, &c);
        bool ends = pn_jchar_is_line_end(c);
        if (c == '\r' && i < s.len && s.data[i] == '\n') i++;
        if (!ends && i < s.len) continue;
        PN_TRY(pn_jlist_add(run, &lines, pn_jstring(pn_jstr_slice(s, begin, ends && !keep_ends ? end : i))));
        begin = i;
    }
    return pn_jseq_make(run, PN_J_LIST, lines.items, lines.n, out);
}

static pn_status partition(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, bool last,
                           pn_jvalue *out) {
    pn_jstr s = self->u.str, separator;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "partition()'s separator", &separator));
    if (separator.len == 0) return pn_jrun_fail(run, "empty separator");
    PN_TRY(pn_jrun_charge_bytes(run, s.len));
    size_t at = pn_jstr_find(s, separator, 0);
    if (last) PN_TRY(pn_jstr_rfind(run, s, separator, &at));
    pn_jvalue *parts = pn_jrun_alloc(run, 3, sizeof *parts);
    if (!parts) return pn_jrun_failed(run);
    parts[0] = parts[1] = parts[2] = pn_jstring(PN_JSTR(""));
    if (at == PN_JSTR_NONE) {
        parts[last ? 2 : 0].u.str = s;
    } else {
        parts[0].u.str = pn_jstr_slice(s, 0, at);
        parts[1].u.str = separator;
        parts[2].u.str = pn_jstr_slice(s, at + separator.len, s.len);
    }
    return pn_jseq_make(run, PN_J_TUPLE, parts, 3, out);
}

static pn_status str_partition(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return partition(run, self, args, false, out);
}

static pn_status str_rpartition(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return partition(run, self, args, true, out);
}

/* ---- search ---- */

/* The part of s that optional start and end arguments name, and in *before how many characters come before
 * it. */
static pn_status window(pn_jrun *run, pn_jstr s, const pn_jvalue *start, const pn_jvalue *end, pn_jstr *out,
                        int64_t *before) {
    int64_t n = (int64_t)pn_jstr_n_chars(s), first, last;
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 2));
    PN_TRY(pn_jarg_int(run, start, "start", 0, &first));
    PN_TRY(pn_jarg_int(run, end, "end", n, &last));
    if (first < 0) first = first < -n ? 0 : first + n;
    if (last < 0) last = last < -n ? 0 : last + n;
    if (last > n) last = n;
    *before = first;
    size_t begin = pn_jstr_offset(s, first < n ? (size_t)first : (size_t)n);
    size_t stop = pn_jstr_offset(s, (size_t)last);
    /* An impossible window holds nothing, not even the empty string. */
    *out = first <= last ? pn_jstr_slice(s, begin, stop) : (pn_jstr){0};
    return PN_OK;
}

static pn_status find(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, bool last, bool must,
                      pn_jvalue *out) {
    pn_jstr needle, part;
    int64_t before;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "what is looked for", &needle));
    PN_TRY(window(run, self->u.str, &args->positional[1], &args->positional[2], &part, &before));
    size_t at = PN_JSTR_NONE;
    if (part.data && last) PN_TRY(pn_jstr_rfind(run, part, needle, &at));
    if (part.data && !last) at = pn_jstr_find(part, needle, 0);
    if (at == PN_JSTR_NONE && must) return pn_jrun_fail(run, "substring not found");
    *out = pn_jint(at == PN_JSTR_NONE ? -1 : before + (int64_t)pn_jstr_n_chars(pn_jstr_slice(part, 0, at)));
    return PN_OK;
}

static pn_status str_find(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return find(run, self, args, false, false, out);
}

static pn_status str_rfind(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return find(run, self, args, true, false, out);
}

static pn_status str_index(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return find(run, self, args, false, true, out);
}

static pn_status str_rindex(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return find(run, self, args, true, true, out);
}

static pn_status str_count(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr needle, part;
    int64_t before, n = 0;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "what is counted", &needle));
    PN_TRY(window(run, self->u.str, &args->positional[1], &args->positional[2], &part, &before));
    if (part.data && needle.len == 0) n = (int64_t)pn_jstr_n_chars(part) + 1;
    for (size_t at = 0; part.data && needle.len && (at = pn_jstr_find(part, needle, at)) != PN_JSTR_NONE; n++)
        at += needle.len;
    *out = pn_jint(n);
    return PN_OK;
}

/* startswith and endswith take a string or a tuple of them. */
static pn_status touches(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, bool at_end,
                         pn_jvalue *out) {
    const pn_jvalue *wanted = &args->positional[0];
    bool tuple = wanted->type == PN_J_TUPLE;
    pn_jstr part;
    int64_t before;
    PN_TRY(window(run, self->u.str, &args->positional[1], &args->positional[2], &part, &before));
    *out = pn_jbool(false);
    for (size_t i = 0; i < (tuple ? wanted->u.seq->n : 1); i++) {
        pn_jstr affix;
        PN_TRY(pn_jarg_str(run, tuple ? &wanted->u.seq->items[i] : wanted,
                           "what a string starts or ends with", &affix));
        PN_TRY(pn_jrun_charge(run, 1));
        PN_TRY(pn_jrun_charge_bytes(run, affix.len));
        if (part.data && (at_end ? pn_jstr_ends(part, affix) : pn_jstr_starts(part, affix)))
            *out = pn_jbool(true);
    }
    return PN_OK;
}

static pn_status str_startswith(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return touches(run, self, args, false, out);
}

static pn_status str_endswith(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return touches(run, self, args, true, out);
}

/* ---- changing ---- */

/* Before each character and at the end, as Python replaces the empty string. */
static pn_status insert_everywhere(pn_jrun *run, pn_jstr s, pn_jstr with, int64_t max, pn_jtext *text) {
    for (size_t i = 0; i <= s.len && max != 0; max--) {
        size_t n = i < s.len ? pn_jstr_char(s, i, NULL) : 0;
        PN_TRY(pn_jrun_charge(run, 1));
        PN_TRY(pn_jtext_add(run, text, with));
        PN_TRY(pn_jtext_add(run, text, pn_jstr_slice(s, i, i + n)));
        i += n;
        if (n == 0) return PN_OK;
        if (max == 1) return pn_jtext_add(run, text, pn_jstr_slice(s, i, s.len));
    }
    return max == 0 ? pn_jtext_add(run, text, s) : PN_OK;
}

static pn_status str_replace(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s = self->u.str, old, with;
    int64_t max;
    pn_jtext text = {0};
    PN_TRY(pn_jarg_str(run, &args->positional[0], "replace()'s old", &old));
    PN_TRY(pn_jarg_str(run, &args->positional[1], "replace()'s new", &with));
    PN_TRY(pn_jarg_int(run, &args->positional[2], "replace()'s count", -1, &max));
    PN_TRY(pn_jrun_charge_bytes(run, s.len));
    if (old.len == 0) {
        PN_TRY(insert_everywhere(run, s, with, max, &text));
        return done(run, &text, out);
    }
    size_t begin = 0;
    for (; max != 0; max--) {
        size_t at = pn_jstr_find(s, old, begin);
        if (at == PN_JSTR_NONE) break;
        PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(s, begin, at)));
        PN_TRY(pn_jtext_add(run, &text, with));
        begin = at + old.len;
    }
    PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(s, begin, s.len)));
    return done(run, &text, out);
}

static pn_status map_case(pn_jrun *run, const pn_jvalue *self, pn_jcase how, pn_jvalue *out) {
    *out = *self;
    return pn_jstr_map_case(run, self->u.str, how, &out->u.str);
}

static pn_status str_upper(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_UPPER, out);
}

static pn_status str_lower(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_LOWER, out);
}

static pn_status str_capitalize(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_CAPITAL, out);
}

static pn_status str_title(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_TITLE, out);
}

static pn_status str_swapcase(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return map_case(run, self, PN_JCASE_SWAP, out);
}

static pn_status str_join(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jcursor cursor;
    pn_jtext text = {0};
    PN_TRY(pn_jcursor_open(run, &args->positional[0], &cursor));
    for (bool first = true;; first = false) {
        pn_jvalue item;
        pn_jstr part;
        bool end;
        PN_TRY(pn_jcursor_next(run, &cursor, &item, &end));
        if (end) return done(run, &text, out);
        PN_TRY(pn_jarg_str(run, &item, "an item of join()", &part));
        if (!first) PN_TRY(pn_jtext_add(run, &text, self->u.str));
        PN_TRY(pn_jtext_add(run, &text, part));
    }
}

static pn_status str_format(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return pn_jformat_braces(run, self->u.str, args, out);
}

/* ---- padding ---- */

static pn_status pad(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, int side, pn_jvalue *out) {
    pn_jstr s = self->u.str, fill = PN_JSTR(" ");
    pn_jtext text = {0};
    int64_t width, n = (int64_t)pn_jstr_n_chars(s);
    PN_TRY(pn_jarg_int(run, &args->positional[0], "a width", 0, &width));
    if (args->positional[1].type != PN_J_ABSENT)
        PN_TRY(pn_jarg_str(run, &args->positional[1], "a fill character", &fill));
    if (pn_jstr_n_chars(fill) != 1)
        return pn_jrun_fail(run, "the fill character must be exactly one character long");
    PN_TRY(pn_jrun_charge_bytes(run, s.len));
    int64_t missing = width > n ? width - n : 0;
    int64_t left = side < 0   ? missing
                   : side > 0 ? 0
                              : missing / 2 + (missing & width & 1); /* as CPython centres */
    PN_TRY(pn_jtext_add_fill(run, &text, fill, (size_t)left));
    PN_TRY(pn_jtext_add(run, &text, s));
    PN_TRY(pn_jtext_add_fill(run, &text, fill, (size_t)(missing - left)));
    return done(run, &text, out);
}

static pn_status str_center(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return pad(run, self, args, 0, out);
}

static pn_status str_ljust(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return pad(run, self, args, 1, out);
}

static pn_status str_rjust(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return pad(run, self, args, -1, out);
}

static pn_status str_zfill(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jstr s = self->u.str;
    pn_jtext text = {0};
    int64_t width, n = (int64_t)pn_jstr_n_chars(s);
    PN_TRY(pn_jarg_int(run, &args->positional[0], "zfill()'s width", 0, &width));
    PN_TRY(pn_jrun_charge_bytes(run, s.len));
    size_t sign = s.len && (s.data[0] == '-' || s.data[0] == '+') ? 1 : 0;
    PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(s, 0, sign)));
    PN_TRY(pn_jtext_add_fill(run, &text, PN_JSTR("0"), width > n ? (size_t)(width - n) : 0));
    PN_TRY(pn_jtext_add(run, &text, pn_jstr_slice(s, sign, s.len)));
    return done(run, &text, out);
}

/* ---- questions ---- */

static utf8proc_category_t category_of(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

static bool is_alpha(uint32_t c) {
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t c) {
    return category_of(c) == UTF8PROC_CATEGORY_ND;
}

/* Decimals, and the digits in superscript and subscript. */
static bool is_digit(uint32_t c) {
    return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}

static bool is_numeric(uint32_t c) {
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

static bool is_alnum(uint32_t c) {
    return is_alpha(c) || is_numeric(c);
}

/* Whether there are characters, and all are of the kind. */
static pn_status all_are(pn_jrun *run, const pn_jvalue *self, bool (*kind)(uint32_t c), pn_jvalue *out) {
    pn_jstr s = self->u.str;
    bool all = s.len > 0;
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 4));
    for (size_t i = 0; i < s.len && all;) {
        uint32_t c;
        i += pn_jstr_char(s, i, &c);
        all = kind(c);
    }
    *out = pn_jbool(all);
    return PN_OK;
}

static pn_status str_isalpha(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return all_are(run, self, is_alpha, out);
}

static pn_status str_isdecimal(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return all_are(run, self, is_decimal, out);
}

static pn_status str_isdigit(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return all_are(run, self, is_digit, out);
}

static pn_status str_isnumeric(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return all_are(run, self, is_numeric, out);
}

static pn_status str_isalnum(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return all_are(run, self, is_alnum, out);
}

static pn_status str_isspace(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return all_are(run, self, pn_jchar_is_space, out);
}

static pn_status str_isascii(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    bool ascii = true;
    PN_TRY(pn_jrun_charge_bytes(run, self->u.str.len));
    for (size_t i = 0; i < self->u.str.len; i++)
        ascii = ascii && (unsigned char)self->u.str.data[i] < 0x80;
    *out = pn_jbool(ascii);
    return PN_OK;
}

static pn_status str_islower(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    PN_TRY(pn_jrun_charge_bytes(run, self->u.str.len * 2));
    *out = pn_jbool(pn_jstr_has_only_case(self->u.str, false));
    return PN_OK;
}

static pn_status str_isupper(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    PN_TRY(pn_jrun_charge_bytes(run, self->u.str.len * 2));
    *out = pn_jbool(pn_jstr_has_only_case(self->u.str, true));
    return PN_OK;
}

/* ---- the table ---- */

static const pn_jfunction methods[] = {
    {"capitalize", "", str_capitalize},
    {"casefold", "", str_lower},
    {"center", "width fillchar?", str_center},
    {"count", "sub start? end?", str_count},
    {"endswith", "suffix start? end?", str_endswith},
    {"find", "sub start? end?", str_find},
    {"format", "*", str_format},
    {"index", "sub start? end?", str_index},
    {"isalnum", "", str_isalnum},
    {"isalpha", "", str_isalpha},
    {"isascii", "", str_isascii},
    {"isdecimal", "", str_isdecimal},
    {"isdigit", "", str_isdigit},
    {"islower", "", str_islower},
    {"isnumeric", "", str_isnumeric},
    {"isspace", "", str_isspace},
    {"isupper", "", str_isupper},
    {"join", "iterable", str_join},
    {"ljust", "width fillchar?", str_ljust},
    {"lower", "", str_lower},
    {"lstrip", "chars?", str_lstrip},
    {"partition", "sep", str_partition},
    {"removeprefix", "prefix", str_removeprefix},
    {"removesuffix", "suffix", str_removesuffix},
    {"replace", "old new count?", str_replace},
    {"rfind", "sub start? end?", str_rfind},
    {"rindex", "sub start? end?", str_rindex},
    {"rjust", "width fillchar?", str_rjust},
    {"rpartition", "sep", str_rpartition},
    {"rsplit", "sep? maxsplit?", str_rsplit},
    {"rstrip", "chars?", str_rstrip},
    {"split", "sep? maxsplit?", str_split},
    {"splitlines", "keepends?", str_splitlines},
    {"startswith", "prefix start? end?", str_startswith},
    {"strip", "chars?", str_strip},
    {"swapcase", "", str_swapcase},
    {"title", "", str_title},
    {"upper", "", str_upper},
    {"zfill", "width", str_zfill},
};

const pn_jfunction *pn_jmethod_find_str(pn_str name) {
    return pn_jfunction_find(methods, sizeof methods / sizeof methods[0], name);
}
