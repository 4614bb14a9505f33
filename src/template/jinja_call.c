/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_call.h"

#include "template/jinja_eval.h"

/* ---- functions of the tables ---- */

const pn_jfunction *pn_jfunction_find(const pn_jfunction *table, size_t n, pn_str name) {
    for (size_t i = 0; i < n; i++)
        if (pn_str_equal(name, pn_str_from(table[i].name))) return &table[i];
    return NULL;
}

/* The next name of a list of parameters; false at its end. */
static bool next_param(const char **params, pn_str *name, bool *optional) {
    while (**params == ' ')
        (*params)++;
    size_t n = strcspn(*params, " ");
    if (n == 0) return false;
    *optional = (*params)[n - 1] == '?';
    *name = (pn_str){*params, n - (*optional ? 1 : 0)};
    *params += n;
    return true;
}

static pn_status bind(pn_jrun *run, const pn_jfunction *function, const pn_jargs *args,
                      pn_jvalue bound[PN_JARGS_MAX_PARAMS], size_t *n_bound) {
    const char *params = function->params;
    pn_str name;
    bool optional;
    size_t n = 0, n_used = 0;
    PN_TRY(pn_jrun_charge(run, args->n_keywords));
    for (; next_param(&params, &name, &optional); n++) {
        bound[n] = (pn_jvalue){.type = PN_J_ABSENT};
        if (n < args->n_positional) bound[n] = args->positional[n];
        for (size_t i = 0; i < args->n_keywords; i++) {
            if (!pn_str_equal(args->names[i], name)) continue;
            if (bound[n].type != PN_J_ABSENT)
                return pn_jrun_fail(run, "%s() got multiple values for argument '%.*s'", function->name,
                                    (int)name.len, name.data);
            bound[n] = args->values[i];
            n_used++;
        }
        if (bound[n].type == PN_J_ABSENT && !optional)
            return pn_jrun_fail(run, "%s() misses the argument '%.*s'", function->name, (int)name.len,
                                name.data);
    }
    if (args->n_positional > n)
        return pn_jrun_fail(run, "%s() takes at most %zu arguments, %zu are given", function->name, n,
                            args->n_positional);
    if (n_used < args->n_keywords)
        return pn_jrun_fail(run, "%s() got an unexpected keyword argument; it takes (%s)", function->name,
                            function->params);
    *n_bound = n;
    return PN_OK;
}

pn_status pn_jfunction_call(pn_jrun *run, const pn_jfunction *function, const pn_jvalue *self,
                            const pn_jargs *args, pn_jvalue *out) {
    if (function->params[0] == '*') return function->call(run, self, args, out);
    pn_jvalue bound[PN_JARGS_MAX_PARAMS];
    pn_jargs bound_args = {.positional = bound};
    PN_TRY(bind(run, function, args, bound, &bound_args.n_positional));
    return function->call(run, self, &bound_args, out);
}

/* ---- macros ---- */

pn_status pn_jmacro_make(pn_jrun *run, const pn_jmacro_def *def, pn_jvalue *out) {
    pn_jmacro *macro = pn_jrun_alloc(run, 1, sizeof *macro);
    if (!macro) return pn_jrun_failed(run);
    *macro = (pn_jmacro){.def = def, .scope = run->scope};
    for (pn_jscope *scope = run->scope; scope && !scope->captured; scope = scope->parent)
        scope->captured = true;
    *out = (pn_jvalue){.type = PN_J_MACRO, .u.macro = macro};
    return PN_OK;
}

pn_status pn_jmacro_attribute(pn_jrun *run, const pn_jmacro *macro, pn_str name, pn_jvalue *out) {
    const pn_jmacro_def *def = macro->def;
    *out = (pn_jvalue){.type = PN_J_ABSENT};
    if (pn_str_equal(name, PN_STR("name"))) {
        *out = pn_jstring(pn_jstr_make(def->name.data, def->name.len, true));
    } else if (pn_str_equal(name, PN_STR("catch_kwargs"))) {
        *out = pn_jbool(def->uses_kwargs);
    } else if (pn_str_equal(name, PN_STR("catch_varargs"))) {
        *out = pn_jbool(def->uses_varargs);
    } else if (pn_str_equal(name, PN_STR("caller"))) {
        *out = pn_jbool(def->uses_caller);
    } else if (pn_str_equal(name, PN_STR("arguments"))) {
        pn_jlist names = {0};
        for (size_t i = 0; i < def->params.n; i++) {
            pn_str param = def->params.items[i]->u.name;
            PN_TRY(pn_jlist_add(run, &names, pn_jstring(pn_jstr_make(param.data, param.len, true))));
        }
        return pn_jseq_make(run, PN_J_TUPLE, names.items, names.n, out);
    }
    return PN_OK;
}

/* The index of a keyword argument, or args->n_keywords. */
static size_t find_keyword(const pn_jargs *args, pn_str name) {
    size_t i = 0;
    while (i < args->n_keywords && !pn_str_equal(args->names[i], name))
        i++;
    return i;
}

static bool has_param(const pn_jmacro_def *def, pn_str name) {
    for (size_t i = 0; i < def->params.n; i++)
        if (pn_str_equal(def->params.items[i]->u.name, name)) return true;
    return false;
}

/* Parameter i of the macro by position or by name; ABSENT in *out when it is not given. */
static pn_status given_param(pn_jrun *run, const pn_jmacro_def *def, const pn_jargs *args, size_t i,
                             pn_jvalue *out) {
    pn_str name = def->params.items[i]->u.name;
    size_t keyword = find_keyword(args, name);
    PN_TRY(pn_jrun_charge(run, args->n_keywords / 16));
    if (i >= args->n_positional) {
        *out = keyword < args->n_keywords ? args->values[keyword] : (pn_jvalue){.type = PN_J_ABSENT};
        return PN_OK;
    }
    if (keyword < args->n_keywords && !def->uses_kwargs)
        return pn_jrun_fail(run, "macro '%.*s' takes no keyword argument '%.*s'", (int)def->name.len,
                            def->name.data, (int)name.len, name.data);
    *out = args->positional[i];
    return PN_OK;
}

/* First what is given, then the defaults in order: they see the other parameters, and themselves as
 * undefined. */
static pn_status bind_params(pn_jrun *run, const pn_jmacro_def *def, const pn_jargs *args) {
    size_t first_default = def->params.n - def->defaults.n;
    pn_jvalue value = {.type = PN_J_ABSENT};
    for (size_t i = 0; i < def->params.n; i++) {
        pn_str name = def->params.items[i]->u.name;
        PN_TRY(given_param(run, def, args, i, &value));
        if (value.type == PN_J_ABSENT) value = pn_jundefined_name(name);
        PN_TRY(pn_jscope_set(run, run->scope, name, value));
    }
    for (size_t i = first_default; i < def->params.n; i++) {
        PN_TRY(given_param(run, def, args, i, &value));
        if (value.type != PN_J_ABSENT) continue;
        PN_TRY(pn_jeval(run, def->defaults.items[i - first_default], &value));
        PN_TRY(pn_jscope_set(run, run->scope, def->params.items[i]->u.name, value));
    }
    return PN_OK;
}

static pn_status bind_varargs(pn_jrun *run, const pn_jmacro_def *def, const pn_jargs *args) {
    size_t n_params = def->params.n;
    if (!def->uses_varargs && args->n_positional > n_params)
        return pn_jrun_fail(run, "macro '%.*s' takes not more than %zu argument(s)", (int)def->name.len,
                            def->name.data, n_params);
    if (!def->uses_varargs) return PN_OK;
    size_t n = args->n_positional > n_params ? args->n_positional - n_params : 0;
    pn_jvalue rest;
    PN_TRY(pn_jseq_make(run, PN_J_TUPLE, n ? args->positional + n_params : NULL, n, &rest));
    return pn_jscope_set(run, run->scope, PN_STR("varargs"), rest);
}

static pn_status bind_kwargs(pn_jrun *run, const pn_jmacro_def *def, const pn_jargs *args) {
    pn_jdict *rest = pn_jrun_alloc(run, 1, sizeof *rest);
    if (!rest) return pn_jrun_failed(run);
    for (size_t i = 0; i < args->n_keywords; i++) {
        pn_str name = args->names[i];
        bool is_caller = def->uses_caller && pn_str_equal(name, PN_STR("caller"));
        PN_TRY(pn_jrun_charge(run, def->params.n / 16));
        if (has_param(def, name) || is_caller) continue;
        if (!def->uses_kwargs)
            return pn_jrun_fail(run, "macro '%.*s' takes no keyword argument '%.*s'", (int)def->name.len,
                                def->name.data, (int)name.len, name.data);
        PN_TRY(pn_jdict_set(run, rest, pn_jstring(pn_jstr_make(name.data, name.len, true)), args->values[i]));
    }
    pn_jvalue kwargs = {.type = PN_J_DICT, .u.dict = rest};
    return def->uses_kwargs ? pn_jscope_set(run, run->scope, PN_STR("kwargs"), kwargs) : PN_OK;
}

static pn_status bind_caller(pn_jrun *run, const pn_jmacro_def *def, const pn_jargs *args) {
    if (!def->uses_caller) return PN_OK;
    size_t i = find_keyword(args, PN_STR("caller"));
    pn_jvalue caller = i < args->n_keywords ? args->values[i] : pn_jundefined_hint("No caller defined");
    return pn_jscope_set(run, run->scope, PN_STR("caller"), caller);
}

static pn_status call_macro(pn_jrun *run, const pn_jmacro *macro, const pn_jargs *args, pn_jvalue *out) {
    const pn_jmacro_def *def = macro->def;
    pn_jscope *saved = run->scope, *scope = pn_jscope_make(run, macro->scope);
    if (!scope) return pn_jrun_failed(run);
    run->scope = scope;
    PN_TRY(bind_caller(run, def, args));
    PN_TRY(bind_kwargs(run, def, args));
    PN_TRY(bind_varargs(run, def, args));
    PN_TRY(bind_params(run, def, args));
    PN_TRY(pn_jexec_to_string(run, &def->body, scope, out));
    run->scope = saved;
    return PN_OK;
}

/* ---- calling ---- */

pn_status pn_jcall(pn_jrun *run, const pn_jvalue *callee, const pn_jargs *args, pn_jvalue *out) {
    static const pn_jvalue no_self = {.type = PN_J_ABSENT};
    switch (callee->type) {
    case PN_J_UNDEFINED:
        return pn_jundefined_fail(run, callee);
    case PN_J_FUNCTION:
        return pn_jfunction_call(run, callee->u.function, &no_self, args, out);
    case PN_J_METHOD:
        return pn_jfunction_call(run, callee->u.method.function, callee->u.method.self, args, out);
    case PN_J_MACRO:
        return call_macro(run, callee->u.macro, args, out);
    case PN_J_LOOP:
        if (args->n_positional != 1 || args->n_keywords)
            return pn_jrun_fail(run, "loop() takes one argument");
        return pn_jloop_recurse(run, callee->u.loop, &args->positional[0], out);
    case PN_J_JOINER:
        *out = pn_jstring(callee->u.joiner->used ? callee->u.joiner->separator : PN_JSTR(""));
        callee->u.joiner->used = true;
        return PN_OK;
    default:
        return pn_jrun_fail(run, "'%s' object is not callable", pn_jvalue_type_name(callee));
    }
}

pn_status pn_jfilter_call(pn_jrun *run, pn_str name, const pn_jvalue *subject, const pn_jargs *args,
                          pn_jvalue *out) {
    const pn_jfunction *filter = pn_jfilter_find(name);
    int len = name.len < 80 ? (int)name.len : 80;
    if (!filter) return pn_jrun_fail(run, "no filter named '%.*s'", len, name.data);
    return pn_jfunction_call(run, filter, subject, args, out);
}

/* ---- reading arguments ---- */

pn_status pn_jarg_int(pn_jrun *run, const pn_jvalue *arg, const char *what, int64_t otherwise, int64_t *out) {
    if (!pn_jarg_given(arg)) {
        *out = otherwise;
        return PN_OK;
    }
    if (pn_jvalue_as_int(arg, out)) return PN_OK;
    if (arg->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, arg);
    return pn_jrun_fail(run, "%s must be an integer, not '%s'", what, pn_jvalue_type_name(arg));
}

pn_status pn_jarg_str(pn_jrun *run, const pn_jvalue *arg, const char *what, pn_jstr *out) {
    if (arg->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, arg);
    if (arg->type != PN_J_STRING)
        return pn_jrun_fail(run, "%s must be str, not '%s'", what, pn_jvalue_type_name(arg));
    *out = arg->u.str;
    return PN_OK;
}

bool pn_jarg_truth(const pn_jvalue *arg, bool otherwise) {
    return arg->type == PN_J_ABSENT ? otherwise : pn_jvalue_truth(arg);
}
