/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_lex.h"

#include "base/utf8.h"
#include "template/jinja_run.h"
#include "template/jinja_str.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

static pn_status fail(pn_jlexer *lexer, size_t at, const char *message) {
    return pn_fail_at(lexer->err, PN_ERR_FORMAT, at, "chat template, line %zu: %s",
                      pn_jinja_line(lexer->source, at), message);
}

/* ---- line ends and white space ---- */

/* Length of the line end at pos: 0, 1, or 2 for "\r\n". */
static size_t line_end_at(pn_str s, size_t pos) {
    if (pos >= s.len) return 0;
    if (s.data[pos] == '\n') return 1;
    if (s.data[pos] != '\r') return 0;
    return pos + 1 < s.len && s.data[pos + 1] == '\n' ? 2 : 1;
}

static size_t skip_space(pn_str s, size_t pos) {
    pn_jstr text = pn_jstr_make(s.data, s.len, true);
    uint32_t c;
    while (pos < s.len) {
        size_t n = pn_jstr_char(text, pos, &c);
        if (!pn_jchar_is_space(c)) break;
        pos += n;
    }
    return pos;
}

static size_t trim_end(pn_str s, size_t begin, size_t end) {
    pn_jstr text = pn_jstr_strip(pn_jstr_make(s.data + begin, end - begin, true), NULL, PN_JSTRIP_RIGHT);
    return begin + text.len;
}

/* lstrip_blocks: the end of the text without the blanks between the start of the line and the tag at `end`.
 */
static size_t trim_line_start(pn_str s, size_t begin, size_t end, bool line_starting) {
    size_t line = end;
    while (line > begin && s.data[line - 1] != '\n' && s.data[line - 1] != '\r')
        line--;
    if (line == begin && !line_starting) return end;
    pn_str rest = {s.data, end};
    return skip_space(rest, line) == end ? line : end;
}

/* The text source[begin..end) with "\n" for every line end. */
static pn_status normalise(pn_jlexer *lexer, size_t begin, size_t end, pn_str *out) {
    pn_str text = {lexer->source.data + begin, end - begin};
    if (text.len == 0 || !memchr(text.data, '\r', text.len)) {
        *out = text;
        return PN_OK;
    }
    char *copy = pn_arena_alloc(lexer->arena, text.len);
    if (!copy) return pn_fail_memory(lexer->err, "a chat template", text.len);
    size_t len = 0;
    for (size_t i = 0; i < text.len;) {
        size_t n = line_end_at(text, i);
        copy[len++] = n ? '\n' : text.data[i];
        i += n ? n : 1;
    }
    *out = (pn_str){copy, len};
    return PN_OK;
}

void pn_jlexer_init(pn_jlexer *lexer, pn_str source, pn_arena *arena, pn_error *err) {
    *lexer = (pn_jlexer){.source = source, .arena = arena, .err = err, .line_starting = true};
    if (source.len >= 2 && line_end_at(source, source.len - 2) == 2)
        lexer->source.len -= 2;
    else if (source.len >= 1 && line_end_at(source, source.len - 1) == 1)
        lexer->source.len -= 1;
}

/* ---- text between tags ---- */

static bool looking_at(const pn_jlexer *lexer, size_t pos, const char *text) {
    size_t n = strlen(text);
    return n <= lexer->source.len && pos <= lexer->source.len - n &&
           memcmp(lexer->source.data + pos, text, n) == 0;
}

static char sign_at(const pn_jlexer *lexer, size_t pos) {
    char c = pos < lexer->source.len ? lexer->source.data[pos] : '\0';
    return c == '-' || c == '+' ? c : '\0';
}

/* Where the next "{%", "{{" or "{#" begins, or the end of the source. */
static size_t find_tag(const pn_jlexer *lexer, size_t pos) {
    pn_str s = lexer->source;
    for (; pos < s.len; pos++) {
        const char *hit = memchr(s.data + pos, '{', s.len - pos);
        if (!hit) break;
        pos = (size_t)(hit - s.data);
        char next = pos + 1 < s.len ? s.data[pos + 1] : '\0';
        if (next == '%' || next == '{' || next == '#') return pos;
    }
    return s.len;
}

/* Position after a closing mark ("%}" or "#}") at pos with what it trims, or 0 when there is none. */
static size_t close_tag(pn_jlexer *lexer, size_t pos, const char *mark) {
    char sign = sign_at(lexer, pos);
    size_t end = pos + (sign ? 1 : 0);
    if (!looking_at(lexer, end, mark)) return 0;
    end += 2;
    if (sign == '-') end = skip_space(lexer->source, end);
    if (!sign) end += line_end_at(lexer->source, end); /* trim_blocks */
    return end;
}

static void ended_at(pn_jlexer *lexer, size_t end) {
    lexer->pos = end;
    char last = end ? lexer->source.data[end - 1] : '\n';
    lexer->line_starting = last == '\n' || last == '\r';
}

static pn_status skip_comment(pn_jlexer *lexer, size_t begin) {
    for (size_t pos = begin + 2 + (sign_at(lexer, begin + 2) ? 1 : 0); pos < lexer->source.len; pos++) {
        size_t end = close_tag(lexer, pos, "#}");
        if (!end) continue;
        ended_at(lexer, end);
        return PN_OK;
    }
    return fail(lexer, begin, "a comment is not closed, expected '#}'");
}

/* Position after "{% word %}" at pos, or 0. For raw itself only a dash trims; endraw ends like any block. */
static size_t match_word_tag(pn_jlexer *lexer, size_t pos, const char *word, bool trims) {
    if (!looking_at(lexer, pos, "{%")) return 0;
    pos += 2;
    pos += sign_at(lexer, pos) ? 1 : 0;
    pos = skip_space(lexer->source, pos);
    if (!looking_at(lexer, pos, word)) return 0;
    pos = skip_space(lexer->source, pos + strlen(word));
    if (trims) return close_tag(lexer, pos, "%}");
    if (looking_at(lexer, pos, "-%}")) return skip_space(lexer->source, pos + 3);
    return looking_at(lexer, pos, "%}") ? pos + 2 : 0;
}

static pn_status make_data(pn_jlexer *lexer, size_t begin, size_t end, pn_jtoken *out) {
    *out = (pn_jtoken){.kind = PN_JTOKEN_DATA, .at = begin};
    return normalise(lexer, begin, end, &out->text);
}

/* End of the text before the tag at `tag`, by the sign of the tag. */
static size_t text_end(pn_jlexer *lexer, size_t begin, size_t tag, bool is_variable) {
    char sign = sign_at(lexer, tag + 2);
    if (sign == '-') return trim_end(lexer->source, begin, tag);
    if (sign == '+' || is_variable) return tag;
    return trim_line_start(lexer->source, begin, tag, lexer->line_starting);
}

static pn_status next_raw(pn_jlexer *lexer, pn_jtoken *out) {
    size_t begin = lexer->pos;
    for (size_t pos = find_tag(lexer, begin); pos < lexer->source.len; pos = find_tag(lexer, pos + 1)) {
        size_t end = match_word_tag(lexer, pos, "endraw", true);
        if (!end) continue;
        PN_TRY(make_data(lexer, begin, text_end(lexer, begin, pos, false), out));
        lexer->state = PN_JLEX_TEXT;
        ended_at(lexer, end);
        return PN_OK;
    }
    return fail(lexer, begin, "a raw block is not closed, expected '{% endraw %}'");
}

/* The text up to the next tag; the tag itself becomes pending, is skipped, or changes the state. */
static pn_status next_text(pn_jlexer *lexer, pn_jtoken *out) {
    size_t begin = lexer->pos, tag = find_tag(lexer, begin);
    if (tag == lexer->source.len) {
        PN_TRY(make_data(lexer, begin, tag, out));
        lexer->pos = tag;
        if (out->text.len == 0) *out = (pn_jtoken){.kind = PN_JTOKEN_END, .at = tag};
        return PN_OK;
    }
    bool is_variable = lexer->source.data[tag + 1] == '{';
    PN_TRY(make_data(lexer, begin, text_end(lexer, begin, tag, is_variable), out));
    size_t raw = match_word_tag(lexer, tag, "raw", false);
    if (lexer->source.data[tag + 1] == '#') return skip_comment(lexer, tag);
    if (raw) {
        lexer->state = PN_JLEX_RAW;
        ended_at(lexer, raw);
        return PN_OK;
    }
    lexer->state = is_variable ? PN_JLEX_VARIABLE : PN_JLEX_BLOCK;
    lexer->pending = is_variable ? PN_JTOKEN_VARIABLE_BEGIN : PN_JTOKEN_BLOCK_BEGIN;
    lexer->pending_at = tag;
    lexer->pos = tag + 2 + (sign_at(lexer, tag + 2) ? 1 : 0);
    return PN_OK;
}

/* ---- strings ---- */

static void put_char(char *text, size_t *len, uint32_t c) {
    *len += pn_utf8_encode(c, text + *len);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* \xNN, \uNNNN, \UNNNNNNNN: n digits at s[0..len). */
static bool read_hex(const char *s, size_t len, size_t n, uint32_t *out) {
    uint32_t c = 0;
    for (size_t i = 0; i < n; i++) {
        int digit = i < len ? hex_digit(s[i]) : -1;
        if (digit < 0) return false;
        c = c << 4 | (uint32_t)digit;
    }
    *out = c;
    return c <= 0x10FFFF;
}

/* Octal: up to three digits. Returns how many were read. */
static size_t read_octal(const char *s, size_t len, uint32_t *out) {
    size_t n = 0;
    *out = 0;
    while (n < 3 && n < len && s[n] >= '0' && s[n] <= '7')
        *out = *out << 3 | (uint32_t)(s[n++] - '0');
    return n;
}

/* A backslash before a character beyond ASCII stays, and Python then writes that character as an escape. */
static void put_escaped_non_ascii(char *text, size_t *len, uint32_t c) {
    const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    char buf[16];
    int n = snprintf(buf, sizeof buf, format, c);
    memcpy(text + *len, buf, (size_t)n);
    *len += (size_t)n;
}

/* Resolves the escape after the backslash at s[0..n); returns the bytes read, 0 for a broken one. Writes at
 * most 10. */
static size_t put_escape(pn_str s, char *text, size_t *len) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char kind = s.data[0];
    const char *simple = kind ? strchr(from, kind) : NULL;
    uint32_t c;
    if (simple) {
        text[(*len)++] = to[simple - from];
        return 1;
    }
    if (line_end_at(s, 0)) return line_end_at(s, 0); /* a joined line */
    size_t n = read_octal(s.data, s.len, &c);
    if (n) {
        put_char(text, len, c);
        return n;
    }
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits) {
        if (!read_hex(s.data + 1, s.len - 1, digits, &c)) return 0;
        put_char(text, len, c);
        return 1 + digits;
    }
    n = pn_jstr_char(pn_jstr_make(s.data, s.len, true), 0, &c);
    if (c >= 0x80 && n > 1) {
        put_escaped_non_ascii(text, len, c);
        return n;
    }
    text[(*len)++] = '\\';
    text[(*len)++] = kind;
    return 1;
}

static pn_status next_string(pn_jlexer *lexer, pn_jtoken *out) {
    pn_str s = lexer->source;
    size_t begin = lexer->pos, end = begin + 1;
    char quote = s.data[begin];
    bool plain = true;
    while (end < s.len && s.data[end] != quote) {
        plain = plain && s.data[end] != '\\';
        end += s.data[end] == '\\' ? 2 : 1;
    }
    if (end >= s.len) return fail(lexer, begin, "a string is not closed");
    *out = (pn_jtoken){.kind = PN_JTOKEN_STRING, .at = begin};
    lexer->pos = end + 1;
    if (plain) return normalise(lexer, begin + 1, end, &out->text);
    /* The longest result is a backslash before a two-byte character: six bytes for three. */
    char *text = pn_arena_alloc(lexer->arena, 3 * (end - begin));
    if (!text) return pn_fail_memory(lexer->err, "a chat template", 3 * (end - begin));
    size_t len = 0;
    for (size_t i = begin + 1; i < end;) {
        size_t n = line_end_at(s, i);
        if (s.data[i] != '\\') {
            text[len++] = n ? '\n' : s.data[i];
            i += n ? n : 1;
            continue;
        }
        n = put_escape((pn_str){s.data + i + 1, end - i - 1}, text, &len);
        if (!n) return fail(lexer, i, "a string has a broken \\x or \\u escape");
        i += 1 + n;
    }
    out->text = (pn_str){text, len};
    return PN_OK;
}

/* ---- numbers ---- */

bool pn_jinja_parse_double(pn_str text, double *out) {
    char buf[512];
    if (text.len == 0 || text.len >= sizeof buf) return false;
    memcpy(buf, text.data, text.len);
    buf[text.len] = '\0';
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) return false;
    char *end;
    double value = strtod_l(buf, &end, c_locale);
    freelocale(c_locale);
    if (end != buf + text.len) return false;
    *out = value;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* End of digits that single underscores may separate, or pos when there is none. */
static size_t skip_digits(pn_str s, size_t pos) {
    if (pos >= s.len || !is_digit(s.data[pos])) return pos;
    while (pos < s.len) {
        bool joined = s.data[pos] == '_' && pos + 1 < s.len && is_digit(s.data[pos + 1]);
        if (!is_digit(s.data[pos]) && !joined) break;
        pos++;
    }
    return pos;
}

static size_t skip_exponent(pn_str s, size_t pos) {
    if (pos >= s.len || (s.data[pos] != 'e' && s.data[pos] != 'E')) return pos;
    size_t digits = pos + 1;
    if (digits < s.len && (s.data[digits] == '+' || s.data[digits] == '-')) digits++;
    size_t end = skip_digits(s, digits);
    return end > digits ? end : pos;
}

/* End of a float at pos, or pos when what stands there is none. */
static size_t match_float(pn_str s, size_t pos) {
    if (pos > 0 && s.data[pos - 1] == '.') return pos; /* a.0.1 is two subscripts */
    size_t whole = skip_digits(s, pos), end = whole;
    if (end < s.len && s.data[end] == '.' && skip_digits(s, end + 1) > end + 1) end = skip_digits(s, end + 1);
    end = skip_exponent(s, end);
    return end > whole ? end : pos;
}

static bool is_digit_of(char c, int base) {
    int value = hex_digit(c);
    return value >= 0 && value < base;
}

/* Base of the integer at pos, and where its digits begin. */
static int integer_base(pn_str s, size_t pos, size_t *digits) {
    char mark = pos + 2 < s.len && s.data[pos] == '0' ? (char)(s.data[pos + 1] | 0x20) : '\0';
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    *digits = pos + 2;
    if (base != 10 && s.data[pos + 2] == '_') (*digits)++;
    if (base != 10 && *digits < s.len && is_digit_of(s.data[*digits], base)) return base;
    *digits = pos;
    return 10;
}

static pn_status next_integer(pn_jlexer *lexer, pn_jtoken *out) {
    pn_str s = lexer->source;
    size_t pos;
    int base = integer_base(s, lexer->pos, &pos);
    bool zero = base == 10 && s.data[pos] == '0'; /* Python knows no 0123 */
    int64_t value = 0;
    for (; pos < s.len; pos++) {
        if (s.data[pos] == '_' && pos + 1 < s.len && is_digit_of(s.data[pos + 1], zero ? 1 : base)) continue;
        if (!is_digit_of(s.data[pos], zero ? 1 : base)) break;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, hex_digit(s.data[pos]), &value))
            return fail(lexer, lexer->pos, "an integer does not fit 64 bits");
    }
    *out = (pn_jtoken){.kind = PN_JTOKEN_INT, .at = lexer->pos, .integer = value};
    out->text = (pn_str){s.data + lexer->pos, pos - lexer->pos};
    lexer->pos = pos;
    return PN_OK;
}

static pn_status next_number(pn_jlexer *lexer, pn_jtoken *out) {
    size_t begin = lexer->pos, end = match_float(lexer->source, begin);
    if (end == begin) return next_integer(lexer, out);
    char digits[400];
    size_t n = 0;
    for (size_t i = begin; i < end && n < sizeof digits; i++)
        if (lexer->source.data[i] != '_') digits[n++] = lexer->source.data[i];
    *out =
        (pn_jtoken){.kind = PN_JTOKEN_FLOAT, .at = begin, .text = {lexer->source.data + begin, end - begin}};
    if (n == sizeof digits || !pn_jinja_parse_double((pn_str){digits, n}, &out->real))
        return fail(lexer, begin, "a number is too long");
    lexer->pos = end;
    return PN_OK;
}

/* ---- names and operators ---- */

/* Length of the character at pos when it may stand in a name, else 0. */
static size_t name_char(pn_str s, size_t pos) {
    if (pos >= s.len) return 0;
    uint32_t c;
    size_t n = pn_jstr_char(pn_jstr_make(s.data, s.len, true), pos, &c);
    if (c < 0x80) return is_digit((char)c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ? n : 0;
    if (n == 1) return 0; /* not UTF-8 */
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    return letter || category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                   category == UTF8PROC_CATEGORY_ND
               ? n
               : 0;
}

static const struct {
    char text[3];
    pn_jtoken_kind kind;
} operators[] = {
    /* the longer ones first */
    {"//", PN_JTOKEN_FLOORDIV}, {"**", PN_JTOKEN_POW},      {"==", PN_JTOKEN_EQ},    {"!=", PN_JTOKEN_NE},
    {">=", PN_JTOKEN_GE},       {"<=", PN_JTOKEN_LE},       {"+", PN_JTOKEN_ADD},    {"-", PN_JTOKEN_SUB},
    {"/", PN_JTOKEN_DIV},       {"*", PN_JTOKEN_MUL},       {"%", PN_JTOKEN_MOD},    {"~", PN_JTOKEN_TILDE},
    {"[", PN_JTOKEN_LBRACKET},  {"]", PN_JTOKEN_RBRACKET},  {"(", PN_JTOKEN_LPAREN}, {")", PN_JTOKEN_RPAREN},
    {"{", PN_JTOKEN_LBRACE},    {"}", PN_JTOKEN_RBRACE},    {">", PN_JTOKEN_GT},     {"<", PN_JTOKEN_LT},
    {"=", PN_JTOKEN_ASSIGN},    {".", PN_JTOKEN_DOT},       {":", PN_JTOKEN_COLON},  {"|", PN_JTOKEN_PIPE},
    {",", PN_JTOKEN_COMMA},     {";", PN_JTOKEN_SEMICOLON},
};

static pn_status track_bracket(pn_jlexer *lexer, char c) {
    char closing = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '\0';
    if (closing) {
        if (lexer->n_brackets == PN_JINJA_MAX_NESTING)
            return pn_fail_at(lexer->err, PN_ERR_LIMIT, lexer->pos,
                              "chat template, line %zu: brackets nested deeper than %d",
                              pn_jinja_line(lexer->source, lexer->pos), PN_JINJA_MAX_NESTING);
        lexer->brackets[lexer->n_brackets++] = closing;
        return PN_OK;
    }
    if (c != ')' && c != ']' && c != '}') return PN_OK;
    char message[64];
    if (lexer->n_brackets == 0) {
        snprintf(message, sizeof message, "unexpected '%c'", c);
        return fail(lexer, lexer->pos, message);
    }
    char expected = lexer->brackets[--lexer->n_brackets];
    if (expected == c) return PN_OK;
    snprintf(message, sizeof message, "unexpected '%c', expected '%c'", c, expected);
    return fail(lexer, lexer->pos, message);
}

static pn_status next_operator(pn_jlexer *lexer, pn_jtoken *out) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!looking_at(lexer, lexer->pos, operators[i].text)) continue;
        size_t n = strlen(operators[i].text);
        if (n == 1) PN_TRY(track_bracket(lexer, operators[i].text[0]));
        *out = (pn_jtoken){.kind = operators[i].kind, .at = lexer->pos};
        out->text = (pn_str){lexer->source.data + lexer->pos, n};
        lexer->pos += n;
        return PN_OK;
    }
    char message[64];
    snprintf(message, sizeof message, "unexpected character 0x%02x",
             (unsigned)(unsigned char)lexer->source.data[lexer->pos]);
    return fail(lexer, lexer->pos, message);
}

/* ---- inside a tag ---- */

/* Position after the end of the tag, or 0 when it does not end here. Inside brackets the marks are operators.
 */
static size_t match_tag_end(pn_jlexer *lexer) {
    if (lexer->n_brackets) return 0;
    if (lexer->state == PN_JLEX_BLOCK) return close_tag(lexer, lexer->pos, "%}");
    if (looking_at(lexer, lexer->pos, "-}}")) return skip_space(lexer->source, lexer->pos + 3);
    return looking_at(lexer, lexer->pos, "}}") ? lexer->pos + 2 : 0;
}

static pn_status next_in_tag(pn_jlexer *lexer, pn_jtoken *out) {
    pn_str s = lexer->source;
    lexer->pos = skip_space(s, lexer->pos);
    size_t at = lexer->pos, end = match_tag_end(lexer); /* first of all: "-%}" is no minus */
    if (end) {
        bool block = lexer->state == PN_JLEX_BLOCK;
        *out = (pn_jtoken){.kind = block ? PN_JTOKEN_BLOCK_END : PN_JTOKEN_VARIABLE_END, .at = at};
        out->text = block ? PN_STR("%}") : PN_STR("}}");
        lexer->state = PN_JLEX_TEXT;
        ended_at(lexer, end);
        return PN_OK;
    }
    if (at >= s.len) {
        *out = (pn_jtoken){.kind = PN_JTOKEN_END, .at = at};
        return PN_OK;
    }
    if (is_digit(s.data[at])) return next_number(lexer, out);
    if (s.data[at] == '\'' || s.data[at] == '"') return next_string(lexer, out);
    if (!name_char(s, at)) return next_operator(lexer, out);
    while (name_char(s, lexer->pos))
        lexer->pos += name_char(s, lexer->pos);
    if (lexer->pos - at > PN_JINJA_MAX_NAME)
        return pn_fail_at(lexer->err, PN_ERR_LIMIT, at,
                          "chat template, line %zu: a name is longer than %d bytes", pn_jinja_line(s, at),
                          PN_JINJA_MAX_NAME);
    *out = (pn_jtoken){.kind = PN_JTOKEN_NAME, .at = at, .text = {s.data + at, lexer->pos - at}};
    return PN_OK;
}

pn_status pn_jlexer_next(pn_jlexer *lexer, pn_jtoken *out) {
    for (;;) {
        if (lexer->pending != PN_JTOKEN_END) {
            *out = (pn_jtoken){.kind = lexer->pending, .at = lexer->pending_at};
            out->text = lexer->pending == PN_JTOKEN_BLOCK_BEGIN ? PN_STR("{%") : PN_STR("{{");
            lexer->pending = PN_JTOKEN_END;
            return PN_OK;
        }
        if (lexer->state == PN_JLEX_VARIABLE || lexer->state == PN_JLEX_BLOCK) return next_in_tag(lexer, out);
        PN_TRY(lexer->state == PN_JLEX_RAW ? next_raw(lexer, out) : next_text(lexer, out));
        if (out->kind != PN_JTOKEN_DATA || out->text.len) return PN_OK;
    }
}

const char *pn_jtoken_describe(const pn_jtoken *token, char buf[64]) {
    switch (token->kind) {
    case PN_JTOKEN_END:
        return "the end of the template";
    case PN_JTOKEN_DATA:
        return "text";
    case PN_JTOKEN_STRING:
        return "a string";
    default:
        snprintf(buf, 64, "'%.*s'", token->text.len < 40 ? (int)token->text.len : 40, token->text.data);
        return buf;
    }
}
