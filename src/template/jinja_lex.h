/* SPDX-License-Identifier: Apache-2.0 */
/* Template source to tokens, with the white space rules of transformers: trim_blocks, lstrip_blocks, one line
   end at the end of the source dropped, dashes and plus signs on tags obeyed. "\r\n" and "\r" are line ends
   too, and become "\n". */
#ifndef PN_TEMPLATE_JINJA_LEX_H
#define PN_TEMPLATE_JINJA_LEX_H

#include "base/mem.h"
#include "base/slice.h"

typedef enum pn_jtoken_kind {
    PN_JTOKEN_END,
    PN_JTOKEN_DATA,
    PN_JTOKEN_VARIABLE_BEGIN,
    PN_JTOKEN_VARIABLE_END,
    PN_JTOKEN_BLOCK_BEGIN,
    PN_JTOKEN_BLOCK_END,
    PN_JTOKEN_NAME,
    PN_JTOKEN_STRING,
    PN_JTOKEN_INT,
    PN_JTOKEN_FLOAT,
    PN_JTOKEN_ADD,
    PN_JTOKEN_SUB,
    PN_JTOKEN_MUL,
    PN_JTOKEN_DIV,
    PN_JTOKEN_FLOORDIV,
    PN_JTOKEN_MOD,
    PN_JTOKEN_POW,
    PN_JTOKEN_TILDE,
    PN_JTOKEN_LBRACKET,
    PN_JTOKEN_RBRACKET,
    PN_JTOKEN_LPAREN,
    PN_JTOKEN_RPAREN,
    PN_JTOKEN_LBRACE,
    PN_JTOKEN_RBRACE,
    PN_JTOKEN_EQ,
    PN_JTOKEN_NE,
    PN_JTOKEN_GT,
    PN_JTOKEN_GE,
    PN_JTOKEN_LT,
    PN_JTOKEN_LE,
    PN_JTOKEN_ASSIGN,
    PN_JTOKEN_DOT,
    PN_JTOKEN_COLON,
    PN_JTOKEN_PIPE,
    PN_JTOKEN_COMMA,
    PN_JTOKEN_SEMICOLON
} pn_jtoken_kind;

typedef struct pn_jtoken {
    pn_jtoken_kind kind;
    size_t at;   /* byte offset in the source */
    pn_str text; /* DATA, NAME, STRING (without quotes, escapes resolved); else the token as it stands */
    int64_t integer;
    double real;
} pn_jtoken;

typedef enum pn_jlex_state { PN_JLEX_TEXT, PN_JLEX_VARIABLE, PN_JLEX_BLOCK, PN_JLEX_RAW } pn_jlex_state;

#define PN_JINJA_MAX_NESTING 200
#define PN_JINJA_MAX_NAME    1000 /* bytes; looking a name up compares it with others */

typedef struct pn_jlexer {
    pn_str source;
    size_t pos;
    pn_arena *arena; /* for texts that differ from the source */
    pn_error *err;
    pn_jlex_state state;
    pn_jtoken_kind pending; /* begin of a tag whose text before it was given first; END: none */
    size_t pending_at;
    bool line_starting;                  /* what was read last ended a line */
    char brackets[PN_JINJA_MAX_NESTING]; /* the closing brackets that are open */
    size_t n_brackets;
} pn_jlexer;

/* source and arena are borrowed. */
void pn_jlexer_init(pn_jlexer *lexer, pn_str source, pn_arena *arena, pn_error *err);
/* PN_ERR_FORMAT at the character that fits no token; PN_ERR_LIMIT for brackets nested too deep or a
   name too long. */
pn_status pn_jlexer_next(pn_jlexer *lexer, pn_jtoken *out);
/* How a message calls a token: "end of template", "'|'". Writes into buf. */
const char *pn_jtoken_describe(const pn_jtoken *token, char buf[64]);

/* A double from text with a decimal point, whatever the process's locale is; false when text is not wholly a
 * number. */
bool pn_jinja_parse_double(pn_str text, double *out);

#endif
