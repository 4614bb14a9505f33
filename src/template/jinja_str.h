/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of the interpreter: immutable UTF-8 that knows of each byte who wrote it. A slice
   shares the bytes and the mask, so every operation that copies text out of a string keeps the provenance
   without asking. Positions a template sees count code points; a byte that is not UTF-8 counts as one. */
#ifndef PN_TEMPLATE_JINJA_STR_H
#define PN_TEMPLATE_JINJA_STR_H

#include "template/jinja_run.h"

/* Who wrote a byte: whether it is as good as the template's own text (pn_rendering), and its source. */
typedef uint16_t pn_jorigin;
#define PN_JORIGIN_TRUSTED      1u
#define PN_JORIGIN_OF(source)   ((pn_jorigin)((source) << 1))
#define PN_JORIGIN_SOURCE(made) ((unsigned)(made) >> 1)
#define PN_JORIGIN_MAX_SOURCE   (UINT16_MAX >> 1)

typedef struct pn_jstr {
    const char *data;
    size_t len;
    const pn_jorigin *mask; /* [len]; NULL: all bytes are of `origin` */
    pn_jorigin origin;
} pn_jstr;

#define PN_JSTR(literal) pn_jstr_make((literal), sizeof(literal) - 1, true)
#define PN_JSTR_NONE     SIZE_MAX /* "not found" */

static inline pn_jstr pn_jstr_make(const char *data, size_t len, bool trusted) {
    return (pn_jstr){data, len, NULL, trusted ? PN_JORIGIN_TRUSTED : 0};
}
static inline pn_jstr pn_jstr_slice(pn_jstr s, size_t begin, size_t end) {
    return (pn_jstr){s.data + begin, end - begin, s.mask ? s.mask + begin : NULL, s.origin};
}
static inline pn_str pn_jstr_bytes(pn_jstr s) {
    return (pn_str){s.data, s.len};
}
static inline bool pn_jstr_equal(pn_jstr a, pn_jstr b) {
    return pn_str_equal(pn_jstr_bytes(a), pn_jstr_bytes(b));
}
/* -1, 0 or 1: the order of code points, which is that of UTF-8 bytes. */
int pn_jstr_compare(pn_jstr a, pn_jstr b);

/* ---- characters ---- */

/* Length in bytes of the character at s[at], at least 1; at must be less than s.len. code_point may be NULL.
 */
size_t pn_jstr_char(pn_jstr s, size_t at, uint32_t *code_point);
/* Length in bytes of the last character of s[0..end); end must be at least 1. */
size_t pn_jstr_char_before(pn_jstr s, size_t end, uint32_t *code_point);
size_t pn_jstr_n_chars(pn_jstr s);
/* Byte offset of the nth character; s.len when there are fewer. */
size_t pn_jstr_offset(pn_jstr s, size_t nth);

/* What Python's str.isspace accepts. */
bool pn_jchar_is_space(uint32_t code_point);
/* Where Python's str.splitlines breaks. */
bool pn_jchar_is_line_end(uint32_t code_point);

/* ---- search and strip ---- */

/* Byte offset of the first occurrence that begins at or after `from`, or PN_JSTR_NONE. Linear; the caller
 * charges. */
size_t pn_jstr_find(pn_jstr s, pn_jstr needle, size_t from);
/* The last occurrence. Charges what it costs, which is the product of the lengths for hostile ones. */
pn_status pn_jstr_rfind(pn_jrun *run, pn_jstr s, pn_jstr needle, size_t *out);
bool pn_jstr_starts(pn_jstr s, pn_jstr prefix);
bool pn_jstr_ends(pn_jstr s, pn_jstr suffix);

enum { PN_JSTRIP_LEFT = 1, PN_JSTRIP_RIGHT = 2 };
/* Without white space, or without the characters of *chars, at the given ends. */
pn_jstr pn_jstr_strip(pn_jstr s, const pn_jstr *chars, unsigned ends);

/* ---- case ---- */

typedef enum pn_jcase {
    PN_JCASE_UPPER,
    PN_JCASE_LOWER,
    PN_JCASE_CAPITAL, /* the first character upper, the others lower */
    PN_JCASE_TITLE,   /* the first letter of each run of letters upper, the others lower */
    PN_JCASE_SWAP
} pn_jcase;
/* Unicode's simple mappings (one character to one), and sharp s to SS. */
pn_status pn_jstr_map_case(pn_jrun *run, pn_jstr s, pn_jcase how, pn_jstr *out);

/* Python's str.islower and str.isupper: some letter has the case, and none another. */
bool pn_jstr_has_only_case(pn_jstr s, bool upper);

/* ---- building ---- */

/* A growing text: a list of pieces, each a string that lives as long as the rendering. Init to {0}. */
typedef struct pn_jtext {
    struct pn_jtext_chunk *first, *last;
    size_t len;
} pn_jtext;

/* PN_ERR_LIMIT when the text would pass run->max_text. */
pn_status pn_jtext_add(pn_jrun *run, pn_jtext *text, pn_jstr piece);
/* The same with bytes that the caller will reuse. */
pn_status pn_jtext_add_copy(pn_jrun *run, pn_jtext *text, const char *data, size_t len, bool trusted);
/* `unit` n times. */
pn_status pn_jtext_add_fill(pn_jrun *run, pn_jtext *text, pn_jstr unit, size_t n);
/* The whole as one string. */
pn_status pn_jtext_join(pn_jrun *run, const pn_jtext *text, pn_jstr *out);

#endif
