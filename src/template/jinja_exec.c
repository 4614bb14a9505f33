/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_exec.h"

#include "template/jinja_eval.h"
#include "template/jinja_print.h"

/* A failure ends the rendering, so functions here restore the scope only on success. */

/* ---- scopes ---- */

pn_jscope *pn_jscope_make(pn_jrun *run, pn_jscope *parent) {
    pn_jscope *scope = pn_jrun_alloc(run, 1, sizeof *scope);
    if (scope) scope->parent = parent;
    return scope;
}

pn_status pn_jscope_set(pn_jrun *run, pn_jscope *scope, pn_str name, pn_jvalue value) {
    PN_TRY(pn_jrun_charge(run, scope->n / 16));
    for (size_t i = 0; i < scope->n; i++) {
        if (!pn_str_equal(scope->bindings[i].name, name)) continue;
        scope->bindings[i].value = value;
        return PN_OK;
    }
    if (scope->n == scope->cap) {
        size_t cap = scope->cap ? 2 * scope->cap : 4;
        pn_jbinding *bindings = pn_jrun_alloc(run, cap, sizeof *bindings);
        if (!bindings) return pn_jrun_failed(run);
        if (scope->n) memcpy(bindings, scope->bindings, scope->n * sizeof *bindings);
        scope->bindings = bindings;
        scope->cap = cap;
    }
    scope->bindings[scope->n++] = (pn_jbinding){name, value};
    return PN_OK;
}

pn_status pn_jscope_find(pn_jrun *run, pn_str name, const pn_jvalue **out) {
    size_t n_walked = 0;
    *out = NULL;
    for (const pn_jscope *scope = run->scope; scope && !*out; scope = scope->parent) {
        for (size_t i = 0; i < scope->n && !*out; i++)
            if (pn_str_equal(scope->bindings[i].name, name)) *out = &scope->bindings[i].value;
        n_walked += scope->n;
    }
    return pn_jrun_charge(run, n_walked / 16);
}

/* ---- assignment ---- */

static pn_status assign(pn_jrun *run, const pn_jnode *target, const pn_jvalue *value);

static pn_status assign_tuple(pn_jrun *run, const pn_jnodes *targets, const pn_jvalue *value) {
    if (!pn_jvalue_is_iterable(value))
        return pn_jrun_fail(run, "cannot unpack non-iterable %s object", pn_jvalue_type_name(value));
    pn_jlist items;
    PN_TRY(pn_jvalue_collect(run, value, &items));
    if (items.n > targets->n)
        return pn_jrun_fail(run, "too many values to unpack (expected %zu)", targets->n);
    if (items.n < targets->n)
        return pn_jrun_fail(run, "not enough values to unpack (expected %zu, got %zu)", targets->n, items.n);
    for (size_t i = 0; i < items.n; i++)
        PN_TRY(assign(run, targets->items[i], &items.items[i]));
    return PN_OK;
}

static pn_status assign_attribute(pn_jrun *run, const pn_jnode *target, const pn_jvalue *value) {
    pn_jvalue object;
    PN_TRY(pn_jeval(run, target->u.attribute.object, &object));
    pn_str name = target->u.attribute.name;
    if (object.type != PN_J_NAMESPACE)
        return pn_jrun_fail(run, "cannot assign attribute '%.*s' on a value that is no namespace",
                            (int)name.len, name.data);
    if (name.data[0] == '_')
        return pn_jrun_fail(run, "a namespace cannot hold '%.*s': it begins with '_'", (int)name.len,
                            name.data);
    pn_jvalue key = pn_jstring(pn_jstr_make(name.data, name.len, true));
    return pn_jdict_set(run, &object.u.ns->attributes, key, *value);
}

static pn_status assign(pn_jrun *run, const pn_jnode *target, const pn_jvalue *value) {
    switch (target->kind) {
    case PN_JNODE_TUPLE:
        return assign_tuple(run, &target->u.items, value);
    case PN_JNODE_ATTRIBUTE:
        return assign_attribute(run, target, value);
    default:
        return pn_jscope_set(run, run->scope, target->u.name, *value);
    }
}

/* ---- loops ---- */

/* Whether the loop's filter lets item through. */
static pn_status passes_filter(pn_jrun *run, const pn_jloop *loop, const pn_jvalue *item, bool *out) {
    *out = true;
    if (!loop->filter) return PN_OK;
    pn_jscope *saved = run->scope;
    run->scope = pn_jscope_make(run, loop->outer);
    if (!run->scope) return pn_jrun_failed(run);
    pn_jvalue verdict;
    PN_TRY(assign(run, loop->node->u.loop.target, item));
    PN_TRY(pn_jeval(run, loop->filter, &verdict));
    run->scope = saved;
    *out = pn_jvalue_truth(&verdict);
    return PN_OK;
}

/* The next item that passes the filter, ABSENT at the end. */
static pn_status pull(pn_jrun *run, pn_jloop *loop, pn_jvalue *out) {
    *out = (pn_jvalue){.type = PN_J_ABSENT};
    while (!loop->exhausted) {
        pn_jvalue item;
        bool passes;
        PN_TRY(pn_jcursor_next(run, &loop->cursor, &item, &loop->exhausted));
        if (loop->exhausted) break;
        PN_TRY(passes_filter(run, loop, &item, &passes));
        if (!passes) continue;
        *out = item;
        break;
    }
    return PN_OK;
}

static pn_status peek(pn_jrun *run, pn_jloop *loop) {
    return loop->after.type == PN_J_ABSENT ? pull(run, loop, &loop->after) : PN_OK;
}

/* Makes the next item current; false in *more at the end. */
static pn_status advance(pn_jrun *run, pn_jloop *loop, bool *more) {
    PN_TRY(peek(run, loop));
    *more = loop->after.type != PN_J_ABSENT;
    if (!*more) return PN_OK;
    loop->before = loop->current;
    loop->current = loop->after;
    loop->after = (pn_jvalue){.type = PN_J_ABSENT};
    loop->index0++;
    return PN_OK;
}

/* A loop over something without a length, or with a filter, is read to its end first. */
static pn_status find_length(pn_jrun *run, pn_jloop *loop) {
    size_t n;
    if (loop->length >= 0) return PN_OK;
    const pn_jvalue *source = &loop->cursor.source;
    if (!loop->filter && pn_jvalue_length(source, &n)) {
        loop->length = (int64_t)n;
        return source->type == PN_J_STRING ? pn_jrun_charge_bytes(run, source->u.str.len) : PN_OK;
    }
    pn_jlist rest = {0};
    PN_TRY(peek(run, loop));
    for (pn_jvalue item = loop->after; item.type != PN_J_ABSENT;) {
        PN_TRY(pn_jlist_add(run, &rest, item));
        PN_TRY(pull(run, loop, &item));
    }
    pn_jvalue list;
    PN_TRY(pn_jseq_make(run, PN_J_LIST, rest.items, rest.n, &list));
    loop->length = loop->index0 + 1 + (int64_t)rest.n;
    loop->cursor = (pn_jcursor){.source = list};
    loop->filter = NULL;
    loop->exhausted = rest.n == 0;
    loop->after = (pn_jvalue){.type = PN_J_ABSENT};
    return PN_OK;
}

typedef enum loop_field {
    LOOP_INDEX,
    LOOP_INDEX0,
    LOOP_REVINDEX,
    LOOP_REVINDEX0,
    LOOP_FIRST,
    LOOP_LAST,
    LOOP_LENGTH,
    LOOP_DEPTH,
    LOOP_DEPTH0,
    LOOP_PREVITEM,
    LOOP_NEXTITEM
} loop_field;

static pn_status loop_field_value(pn_jrun *run, pn_jloop *loop, loop_field field, pn_jvalue *out) {
    bool needs_length = field == LOOP_LENGTH || field == LOOP_REVINDEX || field == LOOP_REVINDEX0;
    if (needs_length) PN_TRY(find_length(run, loop));
    if (field == LOOP_LAST || field == LOOP_NEXTITEM) PN_TRY(peek(run, loop));
    switch (field) {
    case LOOP_INDEX:
        *out = pn_jint(loop->index0 + 1);
        break;
    case LOOP_INDEX0:
        *out = pn_jint(loop->index0);
        break;
    case LOOP_REVINDEX:
        *out = pn_jint(loop->length - loop->index0);
        break;
    case LOOP_REVINDEX0:
        *out = pn_jint(loop->length - loop->index0 - 1);
        break;
    case LOOP_FIRST:
        *out = pn_jbool(loop->index0 == 0);
        break;
    case LOOP_LAST:
        *out = pn_jbool(loop->after.type == PN_J_ABSENT);
        break;
    case LOOP_LENGTH:
        *out = pn_jint(loop->length);
        break;
    case LOOP_DEPTH:
        *out = pn_jint(loop->depth0 + 1);
        break;
    case LOOP_DEPTH0:
        *out = pn_jint(loop->depth0);
        break;
    case LOOP_PREVITEM:
        *out =
            loop->before.type != PN_J_ABSENT ? loop->before : pn_jundefined_hint("there is no previous item");
        break;
    case LOOP_NEXTITEM:
        *out = loop->after.type != PN_J_ABSENT ? loop->after : pn_jundefined_hint("there is no next item");
        break;
    }
    return PN_OK;
}

pn_status pn_jloop_attribute(pn_jrun *run, pn_jloop *loop, pn_str name, pn_jvalue *out) {
    static const struct {
        const char *name;
        loop_field field;
    } fields[] = {
        {"index", LOOP_INDEX},         {"index0", LOOP_INDEX0},     {"revindex", LOOP_REVINDEX},
        {"revindex0", LOOP_REVINDEX0}, {"first", LOOP_FIRST},       {"last", LOOP_LAST},
        {"length", LOOP_LENGTH},       {"depth", LOOP_DEPTH},       {"depth0", LOOP_DEPTH0},
        {"previtem", LOOP_PREVITEM},   {"nextitem", LOOP_NEXTITEM},
    };
    *out = (pn_jvalue){.type = PN_J_ABSENT};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (pn_str_equal(name, pn_str_from(fields[i].name)))
            return loop_field_value(run, loop, fields[i].field, out);
    return PN_OK;
}

/* Binds the target and `loop` in the scope of one iteration and executes the body there. */
static pn_status run_iteration(pn_jrun *run, pn_jloop *loop) {
    PN_TRY(assign(run, loop->node->u.loop.target, &loop->current));
    pn_jvalue self = {.type = PN_J_LOOP, .u.loop = loop};
    PN_TRY(pn_jscope_set(run, run->scope, PN_STR("loop"), self));
    return pn_jexec(run, &loop->node->u.loop.body);
}

static pn_status run_loop(pn_jrun *run, const pn_jnode *node, pn_jscope *outer, const pn_jvalue *iterable,
                          int64_t depth0) {
    pn_jloop *loop = pn_jrun_alloc(run, 1, sizeof *loop);
    if (!loop) return pn_jrun_failed(run);
    *loop = (pn_jloop){.node = node, .outer = outer, .index0 = -1, .depth0 = depth0, .length = -1};
    loop->filter = node->u.loop.filter;
    PN_TRY(pn_jcursor_open(run, iterable, &loop->cursor));
    pn_jscope *saved = run->scope;
    run->scope = NULL;
    bool completed = false; /* as Jinja2 has it, else runs unless an iteration came to the end of the body */
    for (;;) {
        bool more;
        PN_TRY(advance(run, loop, &more));
        if (!more) break;
        if (run->scope && !run->scope->captured)
            run->scope->n = 0; /* no one can see it any more */
        else
            run->scope = pn_jscope_make(run, outer);
        if (!run->scope) return pn_jrun_failed(run);
        PN_TRY(run_iteration(run, loop));
        pn_jflow flow = run->flow;
        run->flow = PN_JFLOW_NORMAL;
        completed = completed || flow == PN_JFLOW_NORMAL;
        if (flow == PN_JFLOW_BREAK) break;
    }
    if (!completed && node->u.loop.otherwise.n) {
        run->scope = pn_jscope_make(run, outer);
        if (!run->scope) return pn_jrun_failed(run);
        PN_TRY(pn_jexec(run, &node->u.loop.otherwise));
    }
    run->scope = saved;
    return PN_OK;
}

static pn_status exec_for(pn_jrun *run, const pn_jnode *node) {
    pn_jvalue iterable;
    PN_TRY(pn_jeval(run, node->u.loop.iterable, &iterable));
    return run_loop(run, node, run->scope, &iterable, 0);
}

pn_status pn_jloop_recurse(pn_jrun *run, const pn_jloop *loop, const pn_jvalue *iterable, pn_jvalue *out) {
    if (!loop->node->u.loop.recursive)
        return pn_jrun_fail(run, "the loop must have the 'recursive' marker to be called recursively");
    pn_jtext text = {0}, *saved_out = run->out;
    run->out = &text;
    pn_status status = run_loop(run, loop->node, loop->outer, iterable, loop->depth0 + 1);
    run->out = saved_out;
    if (status != PN_OK) return status;
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, &text, &out->u.str);
}

/* ---- blocks ---- */

pn_status pn_jexec_to_string(pn_jrun *run, const pn_jnodes *body, pn_jscope *scope, pn_jvalue *out) {
    pn_jtext text = {0}, *saved_out = run->out;
    pn_jscope *saved_scope = run->scope;
    run->out = &text;
    run->scope = scope;
    pn_status status = pn_jexec(run, body);
    run->out = saved_out;
    run->scope = saved_scope;
    if (status != PN_OK) return status;
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, &text, &out->u.str);
}

static pn_status block_to_string(pn_jrun *run, const pn_jnodes *body, pn_jvalue *out) {
    pn_jscope *scope = pn_jscope_make(run, run->scope);
    return scope ? pn_jexec_to_string(run, body, scope, out) : pn_jrun_failed(run);
}

static pn_status exec_set(pn_jrun *run, const pn_jnode *node) {
    pn_jvalue value;
    PN_TRY(pn_jeval(run, node->u.set.value, &value));
    return assign(run, node->u.set.target, &value);
}

static pn_status exec_set_block(pn_jrun *run, const pn_jnode *node) {
    pn_jvalue value;
    PN_TRY(block_to_string(run, &node->u.set.body, &value));
    if (run->flow != PN_JFLOW_NORMAL) return PN_OK; /* left by break or continue */
    if (node->u.set.filter) PN_TRY(pn_jeval_filters(run, node->u.set.filter, &value, &value));
    return assign(run, node->u.set.target, &value);
}

static pn_status exec_filter_block(pn_jrun *run, const pn_jnode *node) {
    pn_jvalue value;
    PN_TRY(block_to_string(run, &node->u.block.body, &value));
    if (run->flow != PN_JFLOW_NORMAL) return PN_OK;
    PN_TRY(pn_jeval_filters(run, node->u.block.filter, &value, &value));
    return pn_jprint(run, run->out, &value);
}

static pn_status exec_scope(pn_jrun *run, const pn_jnodes *body, pn_jscope *scope) {
    pn_jscope *saved = run->scope;
    run->scope = scope;
    PN_TRY(pn_jexec(run, body));
    run->scope = saved;
    return PN_OK;
}

/* The values are evaluated outside of the new scope. */
static pn_status exec_with(pn_jrun *run, const pn_jnode *node) {
    pn_jscope *outer = run->scope, *inner = pn_jscope_make(run, outer);
    if (!inner) return pn_jrun_failed(run);
    for (size_t i = 0; i < node->u.block.targets.n; i++) {
        pn_jvalue value;
        PN_TRY(pn_jeval(run, node->u.block.values.items[i], &value));
        run->scope = inner;
        PN_TRY(assign(run, node->u.block.targets.items[i], &value));
        run->scope = outer;
    }
    return exec_scope(run, &node->u.block.body, inner);
}

static pn_status exec_generation(pn_jrun *run, const pn_jnode *node) {
    pn_jscope *scope = pn_jscope_make(run, run->scope);
    return scope ? exec_scope(run, &node->u.block.body, scope) : pn_jrun_failed(run);
}

static pn_status exec_macro(pn_jrun *run, const pn_jnode *node) {
    pn_jvalue macro;
    PN_TRY(pn_jmacro_make(run, &node->u.macro.def, &macro));
    return pn_jscope_set(run, run->scope, node->u.macro.def.name, macro);
}

/* {% call(params) callee(args) %}body{% endcall %}: the body is given to the callee as its keyword argument
 * `caller`. */
static pn_status exec_call_block(pn_jrun *run, const pn_jnode *node) {
    const pn_jnode *call = node->u.macro.call;
    pn_jvalue callee, result, *values;
    pn_jargs args;
    PN_TRY(pn_jeval(run, call->u.call.subject, &callee));
    PN_TRY(pn_jeval_args(run, &call->u.call.args, &args));
    pn_str *names = pn_jrun_alloc(run, args.n_keywords + 1, sizeof *names);
    values = names ? pn_jrun_alloc(run, args.n_keywords + 1, sizeof *values) : NULL;
    if (!values) return pn_jrun_failed(run);
    for (size_t i = 0; i < args.n_keywords; i++) {
        names[i] = args.names[i];
        values[i] = args.values[i];
    }
    names[args.n_keywords] = PN_STR("caller");
    PN_TRY(pn_jmacro_make(run, &node->u.macro.def, &values[args.n_keywords]));
    args.names = names;
    args.values = values;
    args.n_keywords++;
    PN_TRY(pn_jcall(run, &callee, &args, &result));
    return pn_jprint(run, run->out, &result);
}

/* ---- statements ---- */

static pn_status exec_output(pn_jrun *run, const pn_jnode *node) {
    pn_jvalue value;
    PN_TRY(pn_jeval(run, node->u.operand, &value));
    return pn_jprint(run, run->out, &value);
}

static pn_status exec_if(pn_jrun *run, const pn_jnode *node) {
    for (size_t i = 0; i < node->u.branches.tests.n; i++) {
        pn_jvalue test;
        PN_TRY(pn_jeval(run, node->u.branches.tests.items[i], &test));
        if (pn_jvalue_truth(&test)) return pn_jexec(run, &node->u.branches.bodies[i]);
    }
    return pn_jexec(run, &node->u.branches.otherwise);
}

static pn_status exec_statement(pn_jrun *run, const pn_jnode *node) {
    switch (node->kind) {
    case PN_JNODE_DATA:
        return pn_jtext_add(run, run->out, node->u.data);
    case PN_JNODE_OUTPUT:
        return exec_output(run, node);
    case PN_JNODE_IF:
        return exec_if(run, node);
    case PN_JNODE_FOR:
        return exec_for(run, node);
    case PN_JNODE_BREAK:
        run->flow = PN_JFLOW_BREAK;
        return PN_OK;
    case PN_JNODE_CONTINUE:
        run->flow = PN_JFLOW_CONTINUE;
        return PN_OK;
    case PN_JNODE_SET:
        return exec_set(run, node);
    case PN_JNODE_SET_BLOCK:
        return exec_set_block(run, node);
    case PN_JNODE_MACRO:
        return exec_macro(run, node);
    case PN_JNODE_CALL_BLOCK:
        return exec_call_block(run, node);
    case PN_JNODE_FILTER_BLOCK:
        return exec_filter_block(run, node);
    case PN_JNODE_WITH:
        return exec_with(run, node);
    case PN_JNODE_GENERATION:
        return exec_generation(run, node);
    default:
        return pn_jrun_fail(run, "an expression stands where a statement belongs");
    }
}

pn_status pn_jexec(pn_jrun *run, const pn_jnodes *body) {
    PN_TRY(pn_jrun_enter(run));
    for (size_t i = 0; i < body->n && run->flow == PN_JFLOW_NORMAL; i++) {
        run->at = body->items[i]->at;
        PN_TRY(pn_jrun_charge(run, 1));
        PN_TRY(exec_statement(run, body->items[i]));
    }
    pn_jrun_leave(run);
    return PN_OK;
}
