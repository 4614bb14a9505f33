/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_str.h"

#include "base/utf8.h"

#include <utf8proc.h>

int pn_jstr_compare(pn_jstr a, pn_jstr b) {
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    if (order != 0) return order < 0 ? -1 : 1;
    return (a.len > b.len) - (a.len < b.len);
}

/* ---- characters ---- */

size_t pn_jstr_char(pn_jstr s, size_t at, uint32_t *code_point) {
    unsigned char first = (unsigned char)s.data[at];
    if (first < 0x80) {
        if (code_point) *code_point = first;
        return 1;
    }
    size_t n = pn_utf8_decode(s.data + at, s.len - at, code_point);
    if (n) return n;
    if (code_point) *code_point = 0xFFFD;
    return 1;
}

size_t pn_jstr_char_before(pn_jstr s, size_t end, uint32_t *code_point) {
    for (size_t n = 2; n <= 4 && n <= end; n++)
        if (((unsigned char)s.data[end - n] & 0xC0) == 0xC0 &&
            pn_utf8_decode(s.data + end - n, n, code_point) == n)
            return n;
    unsigned char last = (unsigned char)s.data[end - 1];
    if (code_point) *code_point = last < 0x80 ? last : 0xFFFD;
    return 1;
}

size_t pn_jstr_n_chars(pn_jstr s) {
    size_t n = 0;
    for (size_t i = 0; i < s.len; i += pn_jstr_char(s, i, NULL))
        n++;
    return n;
}

size_t pn_jstr_offset(pn_jstr s, size_t nth) {
    size_t i = 0;
    while (nth > 0 && i < s.len) {
        i += pn_jstr_char(s, i, NULL);
        nth--;
    }
    return i;
}

bool pn_jchar_is_space(uint32_t c) {
    if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool pn_jchar_is_line_end(uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/* ---- search and strip ---- */

size_t pn_jstr_find(pn_jstr s, pn_jstr needle, size_t from) {
    if (from > s.len || needle.len > s.len - from) return PN_JSTR_NONE;
    if (needle.len == 0) return from;
    const char *hit = needle.len == 1 ? memchr(s.data + from, needle.data[0], s.len - from)
                                      : memmem(s.data + from, s.len - from, needle.data, needle.len);
    return hit ? (size_t)(hit - s.data) : PN_JSTR_NONE;
}

pn_status pn_jstr_rfind(pn_jrun *run, pn_jstr s, pn_jstr needle, size_t *out) {
    *out = PN_JSTR_NONE;
    if (needle.len > s.len) return PN_OK;
    uint64_t walked = 0;
    for (size_t at = s.len - needle.len + 1; at-- > 0;) {
        bool begins = needle.len == 0 || s.data[at] == needle.data[0];
        walked += 1 + (begins ? needle.len / 8 : 0); /* comparing is the faster walk */
        if (walked >= 1024) {
            PN_TRY(pn_jrun_charge_bytes(run, walked));
            walked = 0;
        }
        if (!begins || (needle.len && memcmp(s.data + at, needle.data, needle.len) != 0)) continue;
        *out = at;
        return PN_OK;
    }
    return PN_OK;
}

bool pn_jstr_starts(pn_jstr s, pn_jstr prefix) {
    return prefix.len <= s.len && pn_jstr_equal(pn_jstr_slice(s, 0, prefix.len), prefix);
}

bool pn_jstr_ends(pn_jstr s, pn_jstr suffix) {
    return suffix.len <= s.len && pn_jstr_equal(pn_jstr_slice(s, s.len - suffix.len, s.len), suffix);
}

static bool is_stripped(uint32_t c, const pn_jstr *chars) {
    if (!chars) return pn_jchar_is_space(c);
    uint32_t other;
    for (size_t i = 0; i < chars->len;) {
        i += pn_jstr_char(*chars, i, &other);
        if (other == c) return true;
    }
    return false;
}

pn_jstr pn_jstr_strip(pn_jstr s, const pn_jstr *chars, unsigned ends) {
    size_t begin = 0, end = s.len;
    uint32_t c;
    while ((ends & PN_JSTRIP_LEFT) && begin < end) {
        size_t n = pn_jstr_char(s, begin, &c);
        if (!is_stripped(c, chars)) break;
        begin += n;
    }
    while ((ends & PN_JSTRIP_RIGHT) && begin < end) {
        size_t n = pn_jstr_char_before(s, end, &c);
        if (!is_stripped(c, chars)) break;
        end -= n;
    }
    return pn_jstr_slice(s, begin, end);
}

/* ---- case ---- */

static uint32_t map_upper(uint32_t c) {
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}

static uint32_t map_lower(uint32_t c) {
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

static uint32_t map_title(uint32_t c) {
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
}

static uint32_t map_char(uint32_t c, pn_jcase how, bool first) {
    switch (how) {
    case PN_JCASE_UPPER:
        return map_upper(c);
    case PN_JCASE_LOWER:
        return map_lower(c);
    case PN_JCASE_CAPITAL:
    case PN_JCASE_TITLE:
        return first ? map_title(c) : map_lower(c);
    case PN_JCASE_SWAP:
        return map_upper(c) == c ? map_lower(c) : map_upper(c);
    }
    return c;
}

static bool is_cased(uint32_t c) {
    return map_upper(c) != c || map_lower(c) != c;
}

static size_t encode_mapped(uint32_t c, pn_jcase how, bool first, char out[4]) {
    bool upper = how == PN_JCASE_UPPER || how == PN_JCASE_SWAP;
    if (c == 0xDF && (upper || (first && how != PN_JCASE_LOWER))) {
        memcpy(out, upper ? "SS" : "Ss", 2);
        return 2;
    }
    return pn_utf8_encode(map_char(c, how, first), out);
}

static void fill_origin(pn_jorigin *mask, pn_jorigin origin, size_t n) {
    for (size_t i = 0; i < n; i++)
        mask[i] = origin;
}

pn_status pn_jstr_map_case(pn_jrun *run, pn_jstr s, pn_jcase how, pn_jstr *out) {
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 4));
    /* No simple mapping makes a character more than twice as long. */
    char *data = pn_jrun_alloc(run, s.len, 2);
    pn_jorigin *mask = s.mask ? pn_jrun_alloc(run, s.len, 2 * sizeof *mask) : NULL;
    if (!data || (s.mask && !mask)) return pn_jrun_failed(run);
    size_t len = 0;
    bool first = true;
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        char mapped[4];
        size_t n_in = pn_jstr_char(s, i, &c);
        size_t n_out = encode_mapped(c, how, first, mapped);
        if (n_in == 1 && (unsigned char)s.data[i] >= 0x80) { /* not UTF-8: kept as it is */
            mapped[0] = s.data[i];
            n_out = 1;
        }
        memcpy(data + len, mapped, n_out);
        if (mask) fill_origin(mask + len, s.mask[i], n_out);
        len += n_out;
        i += n_in;
        first = how == PN_JCASE_TITLE && !is_cased(c);
    }
    *out = (pn_jstr){data, len, mask, s.origin};
    return PN_OK;
}

bool pn_jstr_has_only_case(pn_jstr s, bool upper) {
    bool some = false;
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        i += pn_jstr_char(s, i, &c);
        utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
        if (category == UTF8PROC_CATEGORY_LT) return false;
        if (category == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU)) return false;
        some = some || category == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    }
    return some;
}

/* ---- building ---- */

typedef struct pn_jtext_chunk {
    struct pn_jtext_chunk *next;
    size_t n, cap;
    pn_jstr pieces[];
} pn_jtext_chunk;

/* Grows by doubling, so that a sum of two strings is small and a long output has few chunks. */
static pn_jtext_chunk *add_chunk(pn_jrun *run, pn_jtext *text) {
    size_t cap = !text->last ? 4 : text->last->cap < 256 ? text->last->cap * 2 : 256;
    pn_jtext_chunk *chunk = pn_jrun_alloc(run, 1, sizeof *chunk + cap * sizeof chunk->pieces[0]);
    if (!chunk) return NULL;
    chunk->cap = cap;
    if (text->last)
        text->last->next = chunk;
    else
        text->first = chunk;
    text->last = chunk;
    return chunk;
}

pn_status pn_jtext_add(pn_jrun *run, pn_jtext *text, pn_jstr piece) {
    if (piece.len == 0) return PN_OK;
    if (piece.len > run->max_text - text->len)
        return pn_jrun_fail_with(run, PN_ERR_LIMIT, "the text passes %zu bytes", run->max_text);
    pn_jtext_chunk *chunk = text->last;
    if (!chunk || chunk->n == chunk->cap) chunk = add_chunk(run, text);
    if (!chunk) return pn_jrun_failed(run);
    chunk->pieces[chunk->n++] = piece;
    text->len += piece.len;
    return PN_OK;
}

pn_status pn_jtext_add_copy(pn_jrun *run, pn_jtext *text, const char *data, size_t len, bool trusted) {
    char *copy = pn_jrun_alloc(run, len, 1);
    if (!copy) return pn_jrun_failed(run);
    memcpy(copy, data, len);
    return pn_jtext_add(run, text, pn_jstr_make(copy, len, trusted));
}

pn_status pn_jtext_add_fill(pn_jrun *run, pn_jtext *text, pn_jstr unit, size_t n) {
    size_t len;
    if (__builtin_mul_overflow(unit.len, n, &len) || len > run->max_text - text->len)
        return pn_jrun_fail_with(run, PN_ERR_LIMIT, "the text passes %zu bytes", run->max_text);
    if (len == 0) return PN_OK;
    PN_TRY(pn_jrun_charge_bytes(run, len));
    char *data = pn_jrun_alloc(run, len, 1);
    pn_jorigin *mask = unit.mask ? pn_jrun_alloc(run, len, sizeof *mask) : NULL;
    if (!data || (unit.mask && !mask)) return pn_jrun_failed(run);
    for (size_t at = 0; at < len; at += unit.len) {
        memcpy(data + at, unit.data, unit.len);
        if (mask) memcpy(mask + at, unit.mask, unit.len * sizeof *mask);
    }
    return pn_jtext_add(run, text, (pn_jstr){data, len, mask, unit.origin});
}

/* Whether all bytes have one provenance, told in *origin. */
static bool is_uniform(const pn_jtext *text, pn_jorigin *origin) {
    *origin = text->first->pieces[0].origin;
    for (const pn_jtext_chunk *chunk = text->first; chunk; chunk = chunk->next)
        for (size_t i = 0; i < chunk->n; i++)
            if (chunk->pieces[i].mask || chunk->pieces[i].origin != *origin) return false;
    return true;
}

pn_status pn_jtext_join(pn_jrun *run, const pn_jtext *text, pn_jstr *out) {
    if (!text->first) {
        *out = PN_JSTR("");
        return PN_OK;
    }
    if (text->first->n == 1 && !text->first->next) {
        *out = text->first->pieces[0];
        return PN_OK;
    }
    pn_jorigin origin;
    bool uniform = is_uniform(text, &origin);
    PN_TRY(pn_jrun_charge_bytes(run, text->len));
    char *data = pn_jrun_alloc(run, text->len, 1);
    pn_jorigin *mask = uniform ? NULL : pn_jrun_alloc(run, text->len, sizeof *mask);
    if (!data || (!uniform && !mask)) return pn_jrun_failed(run);
    size_t len = 0;
    for (const pn_jtext_chunk *chunk = text->first; chunk; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->n; i++) {
            const pn_jstr *piece = &chunk->pieces[i];
            memcpy(data + len, piece->data, piece->len);
            if (mask && piece->mask)
                memcpy(mask + len, piece->mask, piece->len * sizeof *mask);
            else if (mask)
                fill_origin(mask + len, piece->origin, piece->len);
            len += piece->len;
        }
    }
    *out = (pn_jstr){data, len, mask, origin};
    return PN_OK;
}
