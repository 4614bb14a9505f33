/* SPDX-License-Identifier: Apache-2.0 */
/* One rendering of a chat template: its memory, its bounds, and how it fails.

   The interpreter is cut by meaning: jinja_lex (source to tokens), jinja_parse and jinja_parse_expr (tokens
   to the tree of jinja_ast.h), jinja_exec (statements), jinja_eval (expressions), jinja_call (calling
   things), jinja_ops (operators and subscripts), jinja_value and jinja_str (what is computed with),
   jinja_print, jinja_json and jinja_format (values as text), and one table of names each in jinja_filters,
   jinja_tests, jinja_methods and jinja_globals. Names begin with pn_j, j for Jinja. Semantics are those of
   Jinja2 3.1 with Python 3 values; where a comment says "Python", it says what is copied. */
#ifndef PN_TEMPLATE_JINJA_RUN_H
#define PN_TEMPLATE_JINJA_RUN_H

#include "base/mem.h"
#include "base/slice.h"

/* How a statement ended. */
typedef enum pn_jflow { PN_JFLOW_NORMAL, PN_JFLOW_BREAK, PN_JFLOW_CONTINUE } pn_jflow;

typedef struct pn_jrun {
    pn_arena arena; /* every value of this rendering; nothing is given back before its end */
    size_t bytes_left;
    uint64_t steps_left;
    size_t max_text;  /* longest string, and longest output */
    int depth;        /* nested evaluations, each of which is C stack */
    pn_str source;    /* of the template, to tell the line of an error */
    size_t at;        /* byte offset in source of what is being evaluated */
    pn_status status; /* the first failure */
    pn_error *err;
    int64_t now;
    unsigned json_source; /* of strings that are made of JSON now (PN_JORIGIN_OF) */
    struct pn_jscope *scope;
    struct pn_jtext *out; /* where the statements write */
    pn_jflow flow;
} pn_jrun;

/* Sources of text: none in particular, the clock, and the fields of messages from there on. */
#define PN_SOURCE_CLOCK   1u
#define PN_SOURCE_MESSAGE 2u

/* Deepest nesting of evaluations and of values that are compared or printed: Python's own recursion limit. A
   level costs at most about 1 KiB of C stack. */
#define PN_JINJA_MAX_DEPTH 1000

/* The failure that happened; never PN_OK, which lets a compiler see that results are set on PN_OK. */
static inline pn_status pn_jrun_failed(const pn_jrun *run) {
    return run->status != PN_OK ? run->status : PN_ERR_MEMORY;
}

/* n * size zeroed bytes of the arena; NULL with run->status set (PN_ERR_LIMIT, PN_ERR_MEMORY). */
void *pn_jrun_alloc(pn_jrun *run, size_t n, size_t size);

/* Fails with PN_ERR_TEMPLATE, "line N: <message>" and the position of what is being evaluated. */
pn_status pn_jrun_fail(pn_jrun *run, const char *fmt, ...) PN_PRINTF(2, 3);
/* The same with another code. */
pn_status pn_jrun_fail_with(pn_jrun *run, pn_status code, const char *fmt, ...) PN_PRINTF(3, 4);

/* Takes `cost` off the steps that are left; PN_ERR_LIMIT when there are no more. */
pn_status pn_jrun_charge(pn_jrun *run, uint64_t cost);
/* The cost of walking over n bytes of text. */
pn_status pn_jrun_charge_bytes(pn_jrun *run, size_t n_bytes);

/* One level of recursion more, PN_ERR_LIMIT past the bound; leave only after a successful enter. */
pn_status pn_jrun_enter(pn_jrun *run);
void pn_jrun_leave(pn_jrun *run);

/* The line, from 1, of a byte offset. */
size_t pn_jinja_line(pn_str source, size_t position);

#endif
