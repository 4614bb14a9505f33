/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, and the operators on values. */
#ifndef PN_TEMPLATE_JINJA_EVAL_H
#define PN_TEMPLATE_JINJA_EVAL_H

#include "template/jinja_call.h"

/* The value of an expression in run->scope. */
pn_status pn_jeval(pn_jrun *run, const pn_jnode *node, pn_jvalue *out);
/* The arguments of a call, *args and **kwargs spread. */
pn_status pn_jeval_args(pn_jrun *run, const pn_jcall_args *from, pn_jargs *out);
/* Applies a chain of filters, as a block has it, to value. */
pn_status pn_jeval_filters(pn_jrun *run, const pn_jnode *filter, const pn_jvalue *value, pn_jvalue *out);

/* ---- jinja_ops.c ---- */

/* left op right, for the arithmetic operators. */
pn_status pn_jop_binary(pn_jrun *run, pn_joperator op, const pn_jvalue *left, const pn_jvalue *right,
                        pn_jvalue *out);
/* For the comparisons, `in` and `not in`. */
pn_status pn_jop_compare(pn_jrun *run, pn_joperator op, const pn_jvalue *left, const pn_jvalue *right,
                         bool *out);
pn_status pn_jop_negate(pn_jrun *run, const pn_jvalue *operand, pn_jvalue *out);
pn_status pn_jop_contains(pn_jrun *run, const pn_jvalue *container, const pn_jvalue *item, bool *out);

/* object.name: an attribute or method first, then an item. An undefined value when there is neither. */
pn_status pn_jop_attribute(pn_jrun *run, const pn_jvalue *object, pn_str name, pn_jvalue *out);
/* object[index]: an item first, then an attribute. */
pn_status pn_jop_subscript(pn_jrun *run, const pn_jvalue *object, const pn_jvalue *index, pn_jvalue *out);
/* object[begin:end:step]; none or ABSENT for what is not given. */
pn_status pn_jop_slice(pn_jrun *run, const pn_jvalue *object, const pn_jvalue *begin, const pn_jvalue *end,
                       const pn_jvalue *step, pn_jvalue *out);

#endif
