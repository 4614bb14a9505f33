/* SPDX-License-Identifier: Apache-2.0 */
/* Things that can be called, and their arguments. Filters, tests, methods and global functions are rows of
 * tables. */
#ifndef PN_TEMPLATE_JINJA_CALL_H
#define PN_TEMPLATE_JINJA_CALL_H

#include "template/jinja_exec.h"

typedef struct pn_jargs {
    const pn_jvalue *positional; /* [n_positional] */
    size_t n_positional;
    const pn_str *names; /* [n_keywords] */
    const pn_jvalue *values;
    size_t n_keywords;
} pn_jargs;

#define PN_JARGS_MAX_PARAMS 8

/* self: the filtered or tested value, or the object whose method this is; ABSENT for a global function.
   args->positional has one value per parameter, ABSENT for an optional one that was not given. */
typedef pn_status (*pn_jfunction_fn)(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                     pn_jvalue *out);

typedef struct pn_jfunction {
    const char *name;
    /* Names of the parameters by spaces, optional ones ending in "?": "old new count?". "*": any arguments,
     * as given. */
    const char *params;
    pn_jfunction_fn call;
} pn_jfunction;

/* The row of that name, or NULL. */
const pn_jfunction *pn_jfunction_find(const pn_jfunction *table, size_t n, pn_str name);
/* Binds args to the parameters and calls. PN_ERR_TEMPLATE for arguments that do not fit. */
pn_status pn_jfunction_call(pn_jrun *run, const pn_jfunction *function, const pn_jvalue *self,
                            const pn_jargs *args, pn_jvalue *out);

typedef struct pn_jmacro {
    const pn_jmacro_def *def;
    pn_jscope *scope; /* where it was defined */
} pn_jmacro;

/* A macro value over the scope that is current. */
pn_status pn_jmacro_make(pn_jrun *run, const pn_jmacro_def *def, pn_jvalue *out);
pn_status pn_jmacro_attribute(pn_jrun *run, const pn_jmacro *macro, pn_str name, pn_jvalue *out);

/* callee(args). */
pn_status pn_jcall(pn_jrun *run, const pn_jvalue *callee, const pn_jargs *args, pn_jvalue *out);

/* ---- the tables ---- */

const pn_jfunction *pn_jfilter_find(pn_str name);
bool pn_jtest_exists(pn_str name);
const pn_jfunction *pn_jglobal_find(pn_str name);
/* A method of the value's type. *forbidden: Python has it, but it would change the object. */
const pn_jfunction *pn_jmethod_find(const pn_jvalue *object, pn_str name, bool *forbidden);

/* subject | name(args); the name is looked up. */
pn_status pn_jfilter_call(pn_jrun *run, pn_str name, const pn_jvalue *subject, const pn_jargs *args,
                          pn_jvalue *out);
/* subject is name(args). */
pn_status pn_jtest_call(pn_jrun *run, pn_str name, const pn_jvalue *subject, const pn_jargs *args, bool *out);

/* ---- reading arguments; `what` names the argument in a message ---- */

/* An integer or bool, or `otherwise` when absent or none. */
pn_status pn_jarg_int(pn_jrun *run, const pn_jvalue *arg, const char *what, int64_t otherwise, int64_t *out);
pn_status pn_jarg_str(pn_jrun *run, const pn_jvalue *arg, const char *what, pn_jstr *out);
bool pn_jarg_truth(const pn_jvalue *arg, bool otherwise);
static inline bool pn_jarg_given(const pn_jvalue *arg) {
    return arg->type != PN_J_ABSENT && arg->type != PN_J_NONE;
}

#endif
