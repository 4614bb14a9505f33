/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of lists, tuples, dicts, cyclers and loops, and which methods are withheld because they would
   change their object: transformers renders in an immutable sandbox. Those of strings are in
   jinja_methods_str.c. */
#include "template/jinja_methods.h"

#include "template/jinja_eval.h"

/* ---- lists and tuples ---- */

static pn_status method_sequence_index(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                       pn_jvalue *out) {
    const pn_jseq *seq = self->u.seq;
    int64_t n = (int64_t)seq->n, begin, end;
    PN_TRY(pn_jarg_int(run, &args->positional[1], "index()'s start", 0, &begin));
    PN_TRY(pn_jarg_int(run, &args->positional[2], "index()'s end", n, &end));
    if (begin < 0) begin = begin < -n ? 0 : begin + n;
    if (end < 0) end += n;
    for (int64_t i = begin; i < end && i < n; i++) {
        bool equal;
        PN_TRY(pn_jvalue_equal(run, &seq->items[i], &args->positional[0], &equal));
        if (!equal) continue;
        *out = pn_jint(i);
        return PN_OK;
    }
    return pn_jrun_fail(run, "the value of index() is not in the %s", pn_jvalue_type_name(self));
}

static pn_status method_sequence_count(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                       pn_jvalue *out) {
    int64_t n = 0;
    for (size_t i = 0; i < self->u.seq->n; i++) {
        bool equal;
        PN_TRY(pn_jvalue_equal(run, &self->u.seq->items[i], &args->positional[0], &equal));
        n += equal;
    }
    *out = pn_jint(n);
    return PN_OK;
}

/* Nothing can change a list or dict, so a copy is the object itself. */
static pn_status method_copy(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)run;
    (void)args;
    *out = *self;
    return PN_OK;
}

/* ---- dicts ---- */

static pn_status method_dict_get(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    const pn_jvalue *found = NULL;
    if (!pn_jvalue_is_hashable(&args->positional[0]))
        return pn_jrun_fail(run, "unhashable type: '%s'", pn_jvalue_type_name(&args->positional[0]));
    PN_TRY(pn_jdict_find(run, self->u.dict, &args->positional[0], &found));
    if (!found && args->positional[1].type != PN_J_ABSENT) found = &args->positional[1];
    *out = found ? *found : pn_jnone();
    return PN_OK;
}

static pn_status make_view(pn_jrun *run, const pn_jvalue *items, size_t n, pn_jseq_kind kind,
                           pn_jvalue *out) {
    pn_jseq *seq = pn_jrun_alloc(run, 1, sizeof *seq);
    if (!seq) return pn_jrun_failed(run);
    *seq = (pn_jseq){.items = items, .n = n, .kind = kind};
    *out = (pn_jvalue){.type = PN_J_VIEW, .u.seq = seq};
    return PN_OK;
}

static pn_status method_dict_keys(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return make_view(run, self->u.dict->keys, self->u.dict->n, PN_JSEQ_KEYS, out);
}

static pn_status method_dict_values(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                    pn_jvalue *out) {
    (void)args;
    return make_view(run, self->u.dict->values, self->u.dict->n, PN_JSEQ_VALUES, out);
}

static pn_status method_dict_items(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                   pn_jvalue *out) {
    (void)args;
    const pn_jdict *dict = self->u.dict;
    pn_jvalue *pairs = pn_jrun_alloc(run, dict->n, sizeof *pairs);
    if (!pairs) return pn_jrun_failed(run);
    PN_TRY(pn_jrun_charge(run, dict->n / 4));
    for (size_t i = 0; i < dict->n; i++)
        PN_TRY(pn_jtuple2(run, dict->keys[i], dict->values[i], &pairs[i]));
    return make_view(run, pairs, dict->n, PN_JSEQ_ITEMS, out);
}

/* ---- loops and cyclers ---- */

static pn_status method_loop_cycle(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                   pn_jvalue *out) {
    if (args->n_positional == 0) return pn_jrun_fail(run, "no items for cycling given");
    *out = args->positional[(size_t)self->u.loop->index0 % args->n_positional];
    return PN_OK;
}

static pn_status method_loop_changed(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                     pn_jvalue *out) {
    pn_jvalue now;
    bool equal = false;
    PN_TRY(pn_jseq_make(run, PN_J_TUPLE, args->positional, args->n_positional, &now));
    pn_jvalue *last = &self->u.loop->last_changed;
    if (last->type != PN_J_ABSENT) PN_TRY(pn_jvalue_equal(run, last, &now, &equal));
    *last = now;
    *out = pn_jbool(!equal);
    return PN_OK;
}

static pn_status method_cycler_next(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                    pn_jvalue *out) {
    (void)run;
    (void)args;
    pn_jcycler *cycler = self->u.cycler;
    *out = cycler->items->items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->items->n;
    return PN_OK;
}

static pn_status method_cycler_reset(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                     pn_jvalue *out) {
    (void)run;
    (void)args;
    self->u.cycler->at = 0;
    *out = pn_jnone();
    return PN_OK;
}

/* ---- the tables ---- */

static const pn_jfunction list_methods[] = {
    {"copy", "", method_copy},
    {"count", "value", method_sequence_count},
    {"index", "value start? end?", method_sequence_index},
};

static const pn_jfunction tuple_methods[] = {
    {"count", "value", method_sequence_count},
    {"index", "value start? end?", method_sequence_index},
};

static const pn_jfunction dict_methods[] = {
    {"copy", "", method_copy},          {"get", "key default?", method_dict_get},
    {"items", "", method_dict_items},   {"keys", "", method_dict_keys},
    {"values", "", method_dict_values},
};

static const pn_jfunction loop_methods[] = {
    {"changed", "*", method_loop_changed},
    {"cycle", "*", method_loop_cycle},
};

static const pn_jfunction cycler_methods[] = {
    {"next", "", method_cycler_next},
    {"reset", "", method_cycler_reset},
};

static const char *const list_mutators[] = {"append", "clear",   "extend", "insert", "pop",
                                            "remove", "reverse", "sort",   NULL};
static const char *const dict_mutators[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};

static bool is_one_of(pn_str name, const char *const *names) {
    for (; names && *names; names++)
        if (pn_str_equal(name, pn_str_from(*names))) return true;
    return false;
}

#define FIND(table, name) pn_jfunction_find(table, sizeof(table) / sizeof((table)[0]), (name))

const pn_jfunction *pn_jmethod_find(const pn_jvalue *object, pn_str name, bool *forbidden) {
    *forbidden = false;
    switch (object->type) {
    case PN_J_STRING:
        return pn_jmethod_find_str(name);
    case PN_J_LIST:
        *forbidden = is_one_of(name, list_mutators);
        return FIND(list_methods, name);
    case PN_J_TUPLE:
        return FIND(tuple_methods, name);
    case PN_J_DICT:
        *forbidden = is_one_of(name, dict_mutators);
        return FIND(dict_methods, name);
    case PN_J_LOOP:
        return FIND(loop_methods, name);
    case PN_J_CYCLER:
        return FIND(cycler_methods, name);
    default:
        return NULL;
    }
}
