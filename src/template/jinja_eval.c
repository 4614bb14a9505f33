/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_eval.h"

#include "template/jinja_print.h"

static pn_status eval_name(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    const pn_jvalue *found;
    PN_TRY(pn_jscope_find(run, node->u.name, &found));
    const pn_jfunction *global = found ? NULL : pn_jglobal_find(node->u.name);
    if (found)
        *out = *found;
    else if (global)
        *out = (pn_jvalue){.type = PN_J_FUNCTION, .u.function = global};
    else
        *out = pn_jundefined_name(node->u.name);
    return PN_OK;
}

static pn_status eval_items(pn_jrun *run, const pn_jnodes *nodes, pn_jvalue **out) {
    pn_jvalue *items = pn_jrun_alloc(run, nodes->n, sizeof *items);
    if (!items) return pn_jrun_failed(run);
    for (size_t i = 0; i < nodes->n; i++)
        PN_TRY(pn_jeval(run, nodes->items[i], &items[i]));
    *out = items;
    return PN_OK;
}

static pn_status eval_sequence(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue *items;
    PN_TRY(eval_items(run, &node->u.items, &items));
    pn_jtype type = node->kind == PN_JNODE_TUPLE ? PN_J_TUPLE : PN_J_LIST;
    return pn_jseq_make(run, type, items, node->u.items.n, out);
}

static pn_status eval_dict(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jdict *dict = pn_jrun_alloc(run, 1, sizeof *dict);
    if (!dict) return pn_jrun_failed(run);
    for (size_t i = 0; i < node->u.items.n; i += 2) {
        pn_jvalue key, value;
        PN_TRY(pn_jeval(run, node->u.items.items[i], &key));
        PN_TRY(pn_jeval(run, node->u.items.items[i + 1], &value));
        PN_TRY(pn_jdict_set(run, dict, key, value));
    }
    *out = (pn_jvalue){.type = PN_J_DICT, .u.dict = dict};
    return PN_OK;
}

static pn_status eval_not(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue operand;
    PN_TRY(pn_jeval(run, node->u.operand, &operand));
    *out = pn_jbool(!pn_jvalue_truth(&operand));
    return PN_OK;
}

static pn_status eval_sign(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue operand;
    PN_TRY(pn_jeval(run, node->u.operand, &operand));
    if (node->kind == PN_JNODE_NEGATE) return pn_jop_negate(run, &operand, out);
    if (operand.type == PN_J_UNDEFINED) return pn_jundefined_fail(run, &operand);
    if (!pn_jvalue_is_number(&operand))
        return pn_jrun_fail(run, "bad operand type for unary +: '%s'", pn_jvalue_type_name(&operand));
    *out = operand.type == PN_J_BOOL ? pn_jint(operand.u.boolean) : operand;
    return PN_OK;
}

static pn_status eval_binary(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue left, right;
    PN_TRY(pn_jeval(run, node->u.binary.left, &left));
    PN_TRY(pn_jeval(run, node->u.binary.right, &right));
    return pn_jop_binary(run, node->u.binary.op, &left, &right, out);
}

/* Both give the operand that decided, as in Python. */
static pn_status eval_and_or(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    PN_TRY(pn_jeval(run, node->u.binary.left, out));
    bool decided = pn_jvalue_truth(out) == (node->kind == PN_JNODE_OR);
    return decided ? PN_OK : pn_jeval(run, node->u.binary.right, out);
}

/* a < b < c: each operand is evaluated once, and none after the first comparison that fails. */
static pn_status eval_compare(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    const pn_jnodes *operands = &node->u.compare.operands;
    pn_jvalue left, right;
    bool holds = true;
    PN_TRY(pn_jeval(run, operands->items[0], &left));
    for (size_t i = 1; i < operands->n && holds; i++) {
        PN_TRY(pn_jeval(run, operands->items[i], &right));
        PN_TRY(pn_jop_compare(run, node->u.compare.ops[i - 1], &left, &right, &holds));
        left = right;
    }
    *out = pn_jbool(holds);
    return PN_OK;
}

static pn_status eval_concat(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jtext text = {0};
    pn_jvalue *items;
    PN_TRY(eval_items(run, &node->u.items, &items));
    for (size_t i = 0; i < node->u.items.n; i++)
        PN_TRY(pn_jprint(run, &text, &items[i]));
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, &text, &out->u.str);
}

static pn_status eval_condition(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue test;
    PN_TRY(pn_jeval(run, node->u.condition.test, &test));
    if (pn_jvalue_truth(&test)) return pn_jeval(run, node->u.condition.yes, out);
    if (node->u.condition.no) return pn_jeval(run, node->u.condition.no, out);
    *out = pn_jundefined_hint("the inline if-expression evaluated to false and no else section was defined");
    return PN_OK;
}

static pn_status eval_attribute(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue object;
    PN_TRY(pn_jeval(run, node->u.attribute.object, &object));
    return pn_jop_attribute(run, &object, node->u.attribute.name, out);
}

static pn_status eval_subscript(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue object, index;
    PN_TRY(pn_jeval(run, node->u.subscript.object, &object));
    PN_TRY(pn_jeval(run, node->u.subscript.index, &index));
    return pn_jop_subscript(run, &object, &index, out);
}

static pn_status eval_optional(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    *out = (pn_jvalue){.type = PN_J_ABSENT};
    return node ? pn_jeval(run, node, out) : PN_OK;
}

static pn_status eval_slice(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue object, begin, end, step;
    PN_TRY(pn_jeval(run, node->u.slice.object, &object));
    PN_TRY(eval_optional(run, node->u.slice.begin, &begin));
    PN_TRY(eval_optional(run, node->u.slice.end, &end));
    PN_TRY(eval_optional(run, node->u.slice.step, &step));
    return pn_jop_slice(run, &object, &begin, &end, &step, out);
}

/* ---- calls ---- */

static pn_status spread_keywords(pn_jrun *run, const pn_jdict *dict, pn_str *names, pn_jvalue *values) {
    for (size_t i = 0; i < dict->n; i++) {
        if (dict->keys[i].type != PN_J_STRING) return pn_jrun_fail(run, "keywords must be strings");
        names[i] = pn_jstr_bytes(dict->keys[i].u.str);
        values[i] = dict->values[i];
    }
    return PN_OK;
}

static pn_status eval_keywords(pn_jrun *run, const pn_jcall_args *from, pn_jargs *out) {
    pn_jvalue more = {.type = PN_J_ABSENT};
    PN_TRY(eval_optional(run, from->star_star, &more));
    if (more.type != PN_J_ABSENT && more.type != PN_J_DICT)
        return pn_jrun_fail(run, "argument after ** must be a mapping, not %s", pn_jvalue_type_name(&more));
    size_t n = from->keywords.n, n_more = more.type == PN_J_DICT ? more.u.dict->n : 0;
    pn_str *names = pn_jrun_alloc(run, n + n_more, sizeof *names);
    pn_jvalue *values = names ? pn_jrun_alloc(run, n + n_more, sizeof *values) : NULL;
    if (!values) return pn_jrun_failed(run);
    for (size_t i = 0; i < n; i++) {
        names[i] = from->keyword_names[i];
        PN_TRY(pn_jeval(run, from->keywords.items[i], &values[i]));
    }
    if (n_more) PN_TRY(spread_keywords(run, more.u.dict, names + n, values + n));
    out->names = names;
    out->values = values;
    out->n_keywords = n + n_more;
    return PN_OK;
}

pn_status pn_jeval_args(pn_jrun *run, const pn_jcall_args *from, pn_jargs *out) {
    pn_jvalue *items = NULL;
    if (from->positional.n) PN_TRY(eval_items(run, &from->positional, &items));
    pn_jlist all = {.items = items, .n = from->positional.n, .cap = from->positional.n};
    if (from->star) {
        pn_jvalue star;
        pn_jlist more = {0};
        PN_TRY(pn_jeval(run, from->star, &star));
        PN_TRY(pn_jvalue_collect(run, &star, &more));
        for (size_t i = 0; i < more.n; i++)
            PN_TRY(pn_jlist_add(run, &all, more.items[i]));
    }
    *out = (pn_jargs){.positional = all.items, .n_positional = all.n};
    return from->keywords.n || from->star_star ? eval_keywords(run, from, out) : PN_OK;
}

static pn_status eval_call(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue callee;
    pn_jargs args;
    PN_TRY(pn_jeval(run, node->u.call.subject, &callee));
    PN_TRY(pn_jeval_args(run, &node->u.call.args, &args));
    run->at = node->at;
    return pn_jcall(run, &callee, &args, out);
}

static pn_status apply_filter(pn_jrun *run, const pn_jnode *node, const pn_jvalue *subject, pn_jvalue *out) {
    pn_jargs args;
    PN_TRY(pn_jeval_args(run, &node->u.call.args, &args));
    run->at = node->at;
    return pn_jfilter_call(run, node->u.call.name, subject, &args, out);
}

static pn_status eval_filter(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue subject;
    PN_TRY(pn_jeval(run, node->u.call.subject, &subject));
    return apply_filter(run, node, &subject, out);
}

pn_status pn_jeval_filters(pn_jrun *run, const pn_jnode *filter, const pn_jvalue *value, pn_jvalue *out) {
    pn_jvalue subject = *value;
    PN_TRY(pn_jrun_enter(run));
    if (filter->u.call.subject) PN_TRY(pn_jeval_filters(run, filter->u.call.subject, value, &subject));
    pn_jrun_leave(run);
    return apply_filter(run, filter, &subject, out);
}

static pn_status eval_test(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    pn_jvalue subject;
    pn_jargs args;
    bool holds;
    PN_TRY(pn_jeval(run, node->u.call.subject, &subject));
    PN_TRY(pn_jeval_args(run, &node->u.call.args, &args));
    run->at = node->at;
    PN_TRY(pn_jtest_call(run, node->u.call.name, &subject, &args, &holds));
    *out = pn_jbool(holds);
    return PN_OK;
}

/* ---- dispatch ---- */

static pn_status eval_node(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    switch (node->kind) {
    case PN_JNODE_CONST:
        *out = node->u.constant;
        return PN_OK;
    case PN_JNODE_NAME:
        return eval_name(run, node, out);
    case PN_JNODE_LIST:
    case PN_JNODE_TUPLE:
        return eval_sequence(run, node, out);
    case PN_JNODE_DICT:
        return eval_dict(run, node, out);
    case PN_JNODE_NOT:
        return eval_not(run, node, out);
    case PN_JNODE_NEGATE:
    case PN_JNODE_PLUS:
        return eval_sign(run, node, out);
    case PN_JNODE_BINARY:
        return eval_binary(run, node, out);
    case PN_JNODE_AND:
    case PN_JNODE_OR:
        return eval_and_or(run, node, out);
    case PN_JNODE_COMPARE:
        return eval_compare(run, node, out);
    case PN_JNODE_CONCAT:
        return eval_concat(run, node, out);
    case PN_JNODE_CONDITION:
        return eval_condition(run, node, out);
    case PN_JNODE_ATTRIBUTE:
        return eval_attribute(run, node, out);
    case PN_JNODE_SUBSCRIPT:
        return eval_subscript(run, node, out);
    case PN_JNODE_SLICE:
        return eval_slice(run, node, out);
    case PN_JNODE_CALL:
        return eval_call(run, node, out);
    case PN_JNODE_FILTER:
        return eval_filter(run, node, out);
    case PN_JNODE_TEST:
        return eval_test(run, node, out);
    default:
        return pn_jrun_fail(run, "a statement stands where an expression belongs");
    }
}

pn_status pn_jeval(pn_jrun *run, const pn_jnode *node, pn_jvalue *out) {
    size_t outer = run->at;
    PN_TRY(pn_jrun_charge(run, 1));
    PN_TRY(pn_jrun_enter(run));
    run->at = node->at;
    PN_TRY(eval_node(run, node, out));
    run->at = outer; /* what the outer node still does may fail at its own place */
    pn_jrun_leave(run);
    return PN_OK;
}
