/* SPDX-License-Identifier: Apache-2.0 */
/* The tests: what may stand after `is`. */
#include "template/jinja_eval.h"
#include "template/jinja_print.h"

/* ---- what only looks at the value ---- */

static bool is_defined(const pn_jvalue *v) {
    return v->type != PN_J_UNDEFINED;
}

static bool is_undefined(const pn_jvalue *v) {
    return v->type == PN_J_UNDEFINED;
}

static bool is_none(const pn_jvalue *v) {
    return v->type == PN_J_NONE;
}

static bool is_boolean(const pn_jvalue *v) {
    return v->type == PN_J_BOOL;
}

static bool is_true(const pn_jvalue *v) {
    return v->type == PN_J_BOOL && v->u.boolean;
}

static bool is_false(const pn_jvalue *v) {
    return v->type == PN_J_BOOL && !v->u.boolean;
}

static bool is_integer(const pn_jvalue *v) {
    return v->type == PN_J_INT;
}

static bool is_float(const pn_jvalue *v) {
    return v->type == PN_J_FLOAT;
}

static bool is_string(const pn_jvalue *v) {
    return v->type == PN_J_STRING;
}

static bool is_mapping(const pn_jvalue *v) {
    return v->type == PN_J_DICT;
}

static bool is_sequence(const pn_jvalue *v) {
    return v->type == PN_J_STRING || v->type == PN_J_LIST || v->type == PN_J_TUPLE || v->type == PN_J_DICT ||
           v->type == PN_J_RANGE || v->type == PN_J_UNDEFINED;
}

static bool is_filter(const pn_jvalue *v) {
    return v->type == PN_J_STRING && pn_jfilter_find(pn_jstr_bytes(v->u.str));
}

static bool is_test(const pn_jvalue *v) {
    return v->type == PN_J_STRING && pn_jtest_exists(pn_jstr_bytes(v->u.str));
}

/* There are no strings marked as HTML here. */
static bool is_escaped(const pn_jvalue *v) {
    (void)v;
    return false;
}

static const struct {
    const char *name;
    bool (*holds)(const pn_jvalue *v);
} predicates[] = {
    {"boolean", is_boolean},
    {"callable", pn_jvalue_is_callable},
    {"defined", is_defined},
    {"escaped", is_escaped},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_float},
    {"integer", is_integer},
    {"iterable", pn_jvalue_is_iterable},
    {"mapping", is_mapping},
    {"none", is_none},
    {"number", pn_jvalue_is_number},
    {"sequence", is_sequence},
    {"string", is_string},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_undefined},
};

/* ---- what computes or takes an argument ---- */

static pn_status answer(pn_jvalue *out, bool holds) {
    *out = pn_jbool(holds);
    return PN_OK;
}

static pn_status test_case(pn_jrun *run, const pn_jvalue *self, bool upper, pn_jvalue *out) {
    pn_jstr s;
    PN_TRY(pn_jvalue_str(run, self, &s));
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 2));
    return answer(out, pn_jstr_has_only_case(s, upper));
}

static pn_status test_lower(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return test_case(run, self, false, out);
}

static pn_status test_upper(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return test_case(run, self, true, out);
}

static pn_status test_sameas(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    if (self->type == PN_J_STRING) PN_TRY(pn_jrun_charge_bytes(run, self->u.str.len));
    return answer(out, pn_jvalue_same(self, &args->positional[0]));
}

static pn_status remainder_is(pn_jrun *run, const pn_jvalue *self, pn_jvalue divisor, int64_t wanted,
                              pn_jvalue *out) {
    pn_jvalue remainder, expected = pn_jint(wanted);
    bool equal;
    PN_TRY(pn_jop_binary(run, PN_JOP_MOD, self, &divisor, &remainder));
    PN_TRY(pn_jvalue_equal(run, &remainder, &expected, &equal));
    return answer(out, equal);
}

static pn_status test_odd(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return remainder_is(run, self, pn_jint(2), 1, out);
}

static pn_status test_even(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    return remainder_is(run, self, pn_jint(2), 0, out);
}

static pn_status test_divisibleby(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return remainder_is(run, self, args->positional[0], 0, out);
}

static pn_status compared(pn_jrun *run, pn_joperator op, const pn_jvalue *self, const pn_jargs *args,
                          pn_jvalue *out) {
    bool holds;
    PN_TRY(pn_jop_compare(run, op, self, &args->positional[0], &holds));
    return answer(out, holds);
}

static pn_status test_eq(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_EQ, self, args, out);
}

static pn_status test_ne(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_NE, self, args, out);
}

static pn_status test_lt(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_LT, self, args, out);
}

static pn_status test_le(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_LE, self, args, out);
}

static pn_status test_gt(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_GT, self, args, out);
}

static pn_status test_ge(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_GE, self, args, out);
}

static pn_status test_in(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return compared(run, PN_JOP_IN, self, args, out);
}

static const pn_jfunction tests[] = {
    {"divisibleby", "num", test_divisibleby},
    {"eq", "other", test_eq},
    {"equalto", "other", test_eq},
    {"==", "other", test_eq},
    {"even", "", test_even},
    {"ge", "other", test_ge},
    {">=", "other", test_ge},
    {"greaterthan", "other", test_gt},
    {"gt", "other", test_gt},
    {">", "other", test_gt},
    {"in", "seq", test_in},
    {"le", "other", test_le},
    {"<=", "other", test_le},
    {"lessthan", "other", test_lt},
    {"lower", "", test_lower},
    {"lt", "other", test_lt},
    {"<", "other", test_lt},
    {"ne", "other", test_ne},
    {"!=", "other", test_ne},
    {"odd", "", test_odd},
    {"sameas", "other", test_sameas},
    {"upper", "", test_upper},
};

/* ---- finding ---- */

static size_t find_predicate(pn_str name) {
    size_t i = 0;
    while (i < sizeof predicates / sizeof predicates[0] &&
           !pn_str_equal(name, pn_str_from(predicates[i].name)))
        i++;
    return i;
}

static const pn_jfunction *find_test(pn_str name) {
    return pn_jfunction_find(tests, sizeof tests / sizeof tests[0], name);
}

bool pn_jtest_exists(pn_str name) {
    return find_predicate(name) < sizeof predicates / sizeof predicates[0] || find_test(name);
}

pn_status pn_jtest_call(pn_jrun *run, pn_str name, const pn_jvalue *subject, const pn_jargs *args,
                        bool *out) {
    size_t predicate = find_predicate(name);
    const pn_jfunction *test = find_test(name);
    int len = name.len < 80 ? (int)name.len : 80;
    pn_jvalue verdict;
    if (test) {
        PN_TRY(pn_jfunction_call(run, test, subject, args, &verdict));
        *out = pn_jvalue_truth(&verdict);
        return PN_OK;
    }
    if (predicate == sizeof predicates / sizeof predicates[0])
        return pn_jrun_fail(run, "no test named '%.*s'", len, name.data);
    if (args->n_positional || args->n_keywords)
        return pn_jrun_fail(run, "the test '%.*s' takes no argument", len, name.data);
    *out = predicates[predicate].holds(subject);
    return PN_OK;
}
