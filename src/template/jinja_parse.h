/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent, one function per rule of Jinja2's grammar: statements in jinja_parse.c, expressions in
   jinja_parse_expr.c. Inside the parser a rule returns its node, or NULL after p->status and the error were
   set. */
#ifndef PN_TEMPLATE_JINJA_PARSE_H
#define PN_TEMPLATE_JINJA_PARSE_H

#include "template/jinja_ast.h"
#include "template/jinja_lex.h"

/* Parses a whole template into nodes of the arena. source must outlive them. PN_ERR_FORMAT with the position,
   the line and what was expected; PN_ERR_LIMIT for nesting past PN_JINJA_MAX_NESTING. */
pn_status pn_jinja_parse(pn_str source, pn_arena *arena, pn_jnodes *out, pn_error *err);

typedef struct pn_jparser {
    pn_jlexer lexer;
    pn_jtoken current, next;
    pn_arena *arena;
    pn_error *err;
    pn_status status;
    int depth;      /* nested rules: each is C stack */
    int loop_depth; /* for loops around, within the innermost macro: where break may stand */
    bool uses_varargs, uses_kwargs, uses_caller; /* names seen since the innermost macro began */
} pn_jparser;

/* ---- shared by the two files ---- */

bool pn_jparser_advance(pn_jparser *p);
/* Fails at the current token: "expected <what>, got <token>". Always NULL. */
void *pn_jparser_expected(pn_jparser *p, const char *what);
void *pn_jparser_fail(pn_jparser *p, pn_status code, size_t at, const char *message);
bool pn_jparser_enter(pn_jparser *p);
void pn_jparser_leave(pn_jparser *p);

/* Whether the current token is this name. */
bool pn_jparser_at_name(const pn_jparser *p, const char *name);
/* Whether it was there and was skipped; a failure to read on shows in p->status. */
bool pn_jparser_skip(pn_jparser *p, pn_jtoken_kind kind);
bool pn_jparser_skip_name(pn_jparser *p, const char *name);
/* Skips the token that must be here; what is how a message calls it. */
bool pn_jparser_expect(pn_jparser *p, pn_jtoken_kind kind, const char *what);

void *pn_jparser_alloc(pn_jparser *p, size_t n, size_t size);
pn_jnode *pn_jparser_node(pn_jparser *p, pn_jnode_kind kind, size_t at);
/* Appends node, which may be NULL after a failure. */
bool pn_jparser_push(pn_jparser *p, pn_jnodes *list, pn_jnode *node);

pn_jnode *pn_jparse_expression(pn_jparser *p);
/* An expression that may be a tuple without parentheses; with_condition allows "a if b". */
pn_jnode *pn_jparse_tuple(pn_jparser *p, bool with_condition);
/* A target of set, for or with: a name, a tuple of them, or with with_attribute also a namespace's attribute.
 */
pn_jnode *pn_jparse_target(pn_jparser *p, bool with_attribute);
/* "| name(args)…", or with start_inline "name(args) | …", over subject, which is NULL in a block. */
pn_jnode *pn_jparse_filters(pn_jparser *p, pn_jnode *subject, bool start_inline);

#endif
