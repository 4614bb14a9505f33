/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: scopes, loops, macros' bodies. */
#ifndef PN_TEMPLATE_JINJA_EXEC_H
#define PN_TEMPLATE_JINJA_EXEC_H

#include "template/jinja_ast.h"

typedef struct pn_jbinding {
    pn_str name;
    pn_jvalue value;
} pn_jbinding;

/* Names and their values; set writes to the innermost scope, reading looks outward. An if makes no scope; a
   for makes one per iteration, and so do with, blocks, and each call of a macro, whose parent is where the
   macro was defined. */
typedef struct pn_jscope {
    struct pn_jscope *parent;
    pn_jbinding *bindings; /* [n] of [cap] */
    size_t n, cap;
    bool captured; /* a macro was defined inside and may read it later: not to be reused by the next iteration
                    */
} pn_jscope;

pn_jscope *pn_jscope_make(pn_jrun *run, pn_jscope *parent);
pn_status pn_jscope_set(pn_jrun *run, pn_jscope *scope, pn_str name, pn_jvalue value);
/* NULL in *out when no scope has it. Both charge for the names they walk over. */
pn_status pn_jscope_find(pn_jrun *run, pn_str name, const pn_jvalue **out);

/* What `loop` names in the body of a for. */
typedef struct pn_jloop {
    const pn_jnode *node, *filter; /* filter: NULL when none is to be applied (any more) */
    pn_jscope *outer;              /* where the for stands: the filter is evaluated there */
    pn_jcursor cursor;
    int64_t index0, depth0;
    int64_t length;                   /* -1: not yet known */
    pn_jvalue before, current, after; /* ABSENT when there is none; after: read ahead */
    bool exhausted;
    pn_jvalue last_changed; /* tuple of the last arguments of loop.changed */
} pn_jloop;

/* loop.name; ABSENT in *out when there is no such attribute. */
pn_status pn_jloop_attribute(pn_jrun *run, pn_jloop *loop, pn_str name, pn_jvalue *out);
/* loop(iterable) of a recursive for: the text of its body over other items. */
pn_status pn_jloop_recurse(pn_jrun *run, const pn_jloop *loop, const pn_jvalue *iterable, pn_jvalue *out);

/* Executes the statements; they write to run->out and set names in run->scope. */
pn_status pn_jexec(pn_jrun *run, const pn_jnodes *body);
/* The text that body writes in a scope of its own with the given parent. */
pn_status pn_jexec_to_string(pn_jrun *run, const pn_jnodes *body, pn_jscope *scope, pn_jvalue *out);

#endif
