/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a parsed template. It lives in the template's arena and never changes. */
#ifndef PN_TEMPLATE_JINJA_AST_H
#define PN_TEMPLATE_JINJA_AST_H

#include "template/jinja_value.h"

typedef enum pn_jnode_kind {
    /* expressions */
    PN_JNODE_CONST,
    PN_JNODE_NAME,
    PN_JNODE_LIST,
    PN_JNODE_TUPLE,
    PN_JNODE_DICT,
    PN_JNODE_NOT,
    PN_JNODE_NEGATE,
    PN_JNODE_PLUS,
    PN_JNODE_BINARY,
    PN_JNODE_AND,
    PN_JNODE_OR,
    PN_JNODE_COMPARE,
    PN_JNODE_CONCAT,    /* a ~ b ~ c */
    PN_JNODE_CONDITION, /* a if b else c */
    PN_JNODE_ATTRIBUTE, /* a.b; as a target of set: a namespace's attribute */
    PN_JNODE_SUBSCRIPT, /* a[b] */
    PN_JNODE_SLICE,     /* a[b:c:d] */
    PN_JNODE_CALL,
    PN_JNODE_FILTER,
    PN_JNODE_TEST,
    /* statements */
    PN_JNODE_DATA,
    PN_JNODE_OUTPUT,
    PN_JNODE_IF,
    PN_JNODE_FOR,
    PN_JNODE_BREAK,
    PN_JNODE_CONTINUE,
    PN_JNODE_SET,
    PN_JNODE_SET_BLOCK,
    PN_JNODE_MACRO,
    PN_JNODE_CALL_BLOCK,
    PN_JNODE_FILTER_BLOCK,
    PN_JNODE_WITH,
    PN_JNODE_GENERATION
} pn_jnode_kind;

typedef enum pn_joperator {
    PN_JOP_ADD,
    PN_JOP_SUB,
    PN_JOP_MUL,
    PN_JOP_DIV,
    PN_JOP_FLOORDIV,
    PN_JOP_MOD,
    PN_JOP_POW,
    PN_JOP_EQ,
    PN_JOP_NE,
    PN_JOP_LT,
    PN_JOP_LE,
    PN_JOP_GT,
    PN_JOP_GE,
    PN_JOP_IN,
    PN_JOP_NOT_IN
} pn_joperator;

typedef struct pn_jnode pn_jnode;

typedef struct pn_jnodes {
    pn_jnode **items;
    size_t n, cap;
} pn_jnodes;

/* What stands between the parentheses of a call, filter or test. */
typedef struct pn_jcall_args {
    pn_jnodes positional;
    pn_jnodes keywords; /* values */
    pn_str *keyword_names;
    pn_jnode *star, *star_star; /* *args and **kwargs, or NULL */
} pn_jcall_args;

/* A macro, or the body of a call block as its caller. */
typedef struct pn_jmacro_def {
    pn_str name;
    pn_jnodes params;   /* NAME nodes */
    pn_jnodes defaults; /* of the last defaults.n params */
    pn_jnodes body;
    bool uses_varargs, uses_kwargs, uses_caller;
} pn_jmacro_def;

struct pn_jnode {
    pn_jnode_kind kind;
    uint32_t at; /* byte offset in the source */
    union {
        pn_jvalue constant;
        pn_str name;
        pn_jnodes items;   /* LIST, TUPLE, CONCAT; DICT: key, value, key, … */
        pn_jnode *operand; /* NOT, NEGATE, PLUS, OUTPUT */
        struct {
            pn_joperator op;
            pn_jnode *left, *right;
        } binary; /* AND and OR too */
        struct {
            pn_jnodes operands; /* n + 1 */
            pn_joperator *ops;  /* n */
        } compare;
        struct {
            pn_jnode *test, *yes, *no; /* no may be NULL */
        } condition;
        struct {
            pn_jnode *object;
            pn_str name;
        } attribute;
        struct {
            pn_jnode *object, *index;
        } subscript;
        struct {
            pn_jnode *object, *begin, *end, *step; /* all but object may be NULL */
        } slice;
        struct {
            pn_jnode *subject; /* what is called, filtered or tested; NULL in a filter block */
            pn_str name;       /* of the filter or test */
            pn_jcall_args args;
        } call;
        pn_jstr data;
        struct {
            pn_jnodes tests;   /* of if and each elif */
            pn_jnodes *bodies; /* [tests.n] */
            pn_jnodes otherwise;
        } branches;
        struct {
            pn_jnode *target, *iterable, *filter; /* filter may be NULL */
            pn_jnodes body, otherwise;
            bool recursive;
        } loop;
        struct {
            pn_jnode *target, *value, *filter; /* value: SET; filter of a SET_BLOCK may be NULL */
            pn_jnodes body;                    /* SET_BLOCK */
        } set;
        struct {
            pn_jmacro_def def;
            pn_jnode *call; /* CALL_BLOCK */
        } macro;
        struct {
            pn_jnodes targets, values; /* WITH */
            pn_jnode *filter;          /* FILTER_BLOCK */
            pn_jnodes body;            /* GENERATION too */
        } block;
    } u;
};

#endif
