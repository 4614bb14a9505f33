/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, attributes, subscripts and slices, as Python has them. */
#include "template/jinja_eval.h"
#include "template/jinja_print.h"

#include <math.h>
#include <stdio.h>

static const char *operator_text(pn_joperator op) {
    static const char *const texts[] = {
        [PN_JOP_ADD] = "+",       [PN_JOP_SUB] = "-", [PN_JOP_MUL] = "*",         [PN_JOP_DIV] = "/",
        [PN_JOP_FLOORDIV] = "//", [PN_JOP_MOD] = "%", [PN_JOP_POW] = "**",        [PN_JOP_EQ] = "==",
        [PN_JOP_NE] = "!=",       [PN_JOP_LT] = "<",  [PN_JOP_LE] = "<=",         [PN_JOP_GT] = ">",
        [PN_JOP_GE] = ">=",       [PN_JOP_IN] = "in", [PN_JOP_NOT_IN] = "not in",
    };
    return texts[op];
}

static pn_status fail_operands(pn_jrun *run, pn_joperator op, const pn_jvalue *left, const pn_jvalue *right) {
    if (left->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, left);
    if (right->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, right);
    return pn_jrun_fail(run, "unsupported operand types for %s: '%s' and '%s'", operator_text(op),
                        pn_jvalue_type_name(left), pn_jvalue_type_name(right));
}

/* ---- numbers ---- */

static pn_status fail_overflow(pn_jrun *run) {
    return pn_jrun_fail_with(run, PN_ERR_LIMIT, "an integer does not fit 64 bits");
}

static pn_status fail_zero(pn_jrun *run) {
    return pn_jrun_fail(run, "division by zero");
}

/* Rounds towards minus infinity; the remainder has the sign of the divisor. */
static pn_status floor_divide(pn_jrun *run, int64_t a, int64_t b, int64_t *quotient, int64_t *remainder) {
    if (b == 0) return fail_zero(run);
    if (a == INT64_MIN && b == -1) return fail_overflow(run);
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder != 0 && (*remainder < 0) != (b < 0)) {
        *quotient -= 1;
        *remainder += b;
    }
    return PN_OK;
}

static pn_status integer_power(pn_jrun *run, int64_t base, int64_t exponent, pn_jvalue *out) {
    if (exponent < 0) {
        if (base == 0) return fail_zero(run);
        *out = pn_jfloat(pow((double)base, (double)exponent));
        return PN_OK;
    }
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return fail_overflow(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return fail_overflow(run);
    }
    *out = pn_jint(result);
    return PN_OK;
}

static pn_status integer_binary(pn_jrun *run, pn_joperator op, int64_t a, int64_t b, pn_jvalue *out) {
    int64_t result = 0, other;
    bool overflow = false;
    switch (op) {
    case PN_JOP_ADD:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case PN_JOP_SUB:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case PN_JOP_MUL:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case PN_JOP_FLOORDIV:
        PN_TRY(floor_divide(run, a, b, &result, &other));
        break;
    case PN_JOP_MOD:
        PN_TRY(b == -1 ? PN_OK : floor_divide(run, a, b, &other, &result));
        break;
    case PN_JOP_POW:
        return integer_power(run, a, b, out);
    default: /* true division */
        if (b == 0) return fail_zero(run);
        *out = pn_jfloat((double)a / (double)b);
        return PN_OK;
    }
    if (overflow) return fail_overflow(run);
    *out = pn_jint(result);
    return PN_OK;
}

/* Python's float %: the sign of the divisor. */
static double float_remainder(double a, double b) {
    double r = fmod(a, b);
    if (r != 0 && (r < 0) != (b < 0)) return r + b;
    return r == 0 ? copysign(0.0, b) : r;
}

static double float_floor_divide(double a, double b) {
    double r = fmod(a, b), quotient = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) quotient -= 1;
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : quotient == 0 ? copysign(0.0, a / b) : whole;
}

static pn_status float_power(pn_jrun *run, double a, double b, pn_jvalue *out) {
    if (a == 0 && b < 0) return fail_zero(run);
    if (a < 0 && isfinite(b) && b != floor(b)) return pn_jrun_fail(run, "a power that is a complex number");
    double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b)) return pn_jrun_fail(run, "a power is too large");
    *out = pn_jfloat(result);
    return PN_OK;
}

static pn_status float_binary(pn_jrun *run, pn_joperator op, double a, double b, pn_jvalue *out) {
    bool divides = op == PN_JOP_DIV || op == PN_JOP_FLOORDIV || op == PN_JOP_MOD;
    if (divides && b == 0) return fail_zero(run);
    switch (op) {
    case PN_JOP_ADD:
        *out = pn_jfloat(a + b);
        break;
    case PN_JOP_SUB:
        *out = pn_jfloat(a - b);
        break;
    case PN_JOP_MUL:
        *out = pn_jfloat(a * b);
        break;
    case PN_JOP_DIV:
        *out = pn_jfloat(a / b);
        break;
    case PN_JOP_FLOORDIV:
        *out = pn_jfloat(float_floor_divide(a, b));
        break;
    case PN_JOP_MOD:
        *out = pn_jfloat(float_remainder(a, b));
        break;
    default:
        return float_power(run, a, b, out);
    }
    return PN_OK;
}

pn_status pn_jop_negate(pn_jrun *run, const pn_jvalue *operand, pn_jvalue *out) {
    int64_t i;
    if (operand->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, operand);
    if (operand->type == PN_J_FLOAT) {
        *out = pn_jfloat(-operand->u.real);
        return PN_OK;
    }
    if (!pn_jvalue_as_int(operand, &i))
        return pn_jrun_fail(run, "bad operand type for unary -: '%s'", pn_jvalue_type_name(operand));
    if (i == INT64_MIN) return fail_overflow(run);
    *out = pn_jint(-i);
    return PN_OK;
}

/* ---- sequences ---- */

static bool is_list_or_tuple(const pn_jvalue *v) {
    return v->type == PN_J_LIST || v->type == PN_J_TUPLE;
}

static pn_status join_strings(pn_jrun *run, const pn_jvalue *left, const pn_jvalue *right, pn_jvalue *out) {
    pn_jtext text = {0};
    PN_TRY(pn_jtext_add(run, &text, left->u.str));
    PN_TRY(pn_jtext_add(run, &text, right->u.str));
    *out = pn_jstring(PN_JSTR(""));
    return pn_jtext_join(run, &text, &out->u.str);
}

static pn_status join_lists(pn_jrun *run, const pn_jvalue *left, const pn_jvalue *right, pn_jvalue *out) {
    size_t n = left->u.seq->n, n_right = right->u.seq->n;
    pn_jvalue *items = pn_jrun_alloc(run, n + n_right, sizeof *items);
    if (!items) return pn_jrun_failed(run);
    PN_TRY(pn_jrun_charge(run, (n + n_right) / 8));
    if (n) memcpy(items, left->u.seq->items, n * sizeof *items);
    if (n_right) memcpy(items + n, right->u.seq->items, n_right * sizeof *items);
    return pn_jseq_make(run, left->type, items, n + n_right, out);
}

static pn_status repeat(pn_jrun *run, const pn_jvalue *unit, int64_t times, pn_jvalue *out) {
    size_t n = times > 0 ? (size_t)times : 0;
    if (unit->type == PN_J_STRING) {
        pn_jtext text = {0};
        PN_TRY(pn_jtext_add_fill(run, &text, unit->u.str, n));
        *out = pn_jstring(PN_JSTR(""));
        return pn_jtext_join(run, &text, &out->u.str);
    }
    size_t n_items;
    if (__builtin_mul_overflow(unit->u.seq->n, n, &n_items)) n_items = SIZE_MAX;
    pn_jvalue *items = pn_jrun_alloc(run, n_items, sizeof *items);
    if (!items) return pn_jrun_failed(run);
    PN_TRY(pn_jrun_charge(run, n_items / 8));
    for (size_t i = 0; i < n_items; i++)
        items[i] = unit->u.seq->items[i % unit->u.seq->n];
    return pn_jseq_make(run, unit->type, items, n_items, out);
}

static bool can_repeat(const pn_jvalue *v) {
    return v->type == PN_J_STRING || is_list_or_tuple(v);
}

pn_status pn_jop_binary(pn_jrun *run, pn_joperator op, const pn_jvalue *left, const pn_jvalue *right,
                        pn_jvalue *out) {
    int64_t i, j;
    double x, y;
    bool left_int = pn_jvalue_as_int(left, &i), right_int = pn_jvalue_as_int(right, &j);
    if (left_int && right_int) return integer_binary(run, op, i, j, out);
    if (pn_jvalue_as_double(left, &x) && pn_jvalue_as_double(right, &y))
        return float_binary(run, op, x, y, out);
    if (op == PN_JOP_ADD && left->type == PN_J_STRING && right->type == PN_J_STRING)
        return join_strings(run, left, right, out);
    if (op == PN_JOP_ADD && is_list_or_tuple(left) && left->type == right->type)
        return join_lists(run, left, right, out);
    if (op == PN_JOP_MUL && can_repeat(left) && right_int) return repeat(run, left, j, out);
    if (op == PN_JOP_MUL && can_repeat(right) && left_int) return repeat(run, right, i, out);
    if (op == PN_JOP_MOD && left->type == PN_J_STRING)
        return pn_jformat_percent(run, left->u.str, right, out);
    return fail_operands(run, op, left, right);
}

/* ---- comparison ---- */

pn_status pn_jop_contains(pn_jrun *run, const pn_jvalue *container, const pn_jvalue *item, bool *out) {
    const pn_jvalue *found;
    if (container->type == PN_J_STRING) {
        if (item->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, item);
        if (item->type != PN_J_STRING)
            return pn_jrun_fail(run, "'in <string>' requires string as left operand, not %s",
                                pn_jvalue_type_name(item));
        PN_TRY(pn_jrun_charge_bytes(run, container->u.str.len));
        *out = pn_jstr_find(container->u.str, item->u.str, 0) != PN_JSTR_NONE;
        return PN_OK;
    }
    if (container->type == PN_J_DICT) {
        if (!pn_jvalue_is_hashable(item))
            return pn_jrun_fail(run, "unhashable type: '%s'", pn_jvalue_type_name(item));
        PN_TRY(pn_jdict_find(run, container->u.dict, item, &found));
        *out = found != NULL;
        return PN_OK;
    }
    if (!pn_jvalue_is_iterable(container))
        return pn_jrun_fail(run, "argument of type '%s' is not iterable", pn_jvalue_type_name(container));
    pn_jcursor cursor;
    PN_TRY(pn_jcursor_open(run, container, &cursor));
    *out = false;
    for (bool done = false; !done && !*out;) {
        pn_jvalue other;
        PN_TRY(pn_jcursor_next(run, &cursor, &other, &done));
        if (!done) PN_TRY(pn_jvalue_equal(run, &other, item, out));
    }
    return PN_OK;
}

pn_status pn_jop_compare(pn_jrun *run, pn_joperator op, const pn_jvalue *left, const pn_jvalue *right,
                         bool *out) {
    bool positive = op == PN_JOP_EQ || op == PN_JOP_IN;
    pn_status status;
    int order;
    switch (op) {
    case PN_JOP_EQ:
    case PN_JOP_NE:
        status = pn_jvalue_equal(run, left, right, out);
        *out = *out == positive;
        return status;
    case PN_JOP_IN:
    case PN_JOP_NOT_IN:
        PN_TRY(pn_jop_contains(run, right, left, out));
        *out = *out == positive;
        return PN_OK;
    default:
        PN_TRY(pn_jvalue_compare(run, operator_text(op), left, right, &order));
        *out = (order == -1 && (op == PN_JOP_LT || op == PN_JOP_LE)) ||
               (order == 1 && (op == PN_JOP_GT || op == PN_JOP_GE)) ||
               (order == 0 && (op == PN_JOP_LE || op == PN_JOP_GE));
        return PN_OK;
    }
}

/* ---- attributes and subscripts ---- */

/* A bound method, an attribute of the few objects that have some, or ABSENT. */
static pn_status own_attribute(pn_jrun *run, const pn_jvalue *object, pn_str name, pn_jvalue *out) {
    *out = (pn_jvalue){.type = PN_J_ABSENT};
    if (object->type == PN_J_LOOP) PN_TRY(pn_jloop_attribute(run, object->u.loop, name, out));
    if (object->type == PN_J_MACRO) PN_TRY(pn_jmacro_attribute(run, object->u.macro, name, out));
    if (object->type == PN_J_CYCLER && pn_str_equal(name, PN_STR("current")))
        *out = object->u.cycler->items->items[object->u.cycler->at];
    if (object->type == PN_J_TUPLE && object->u.seq->kind == PN_JSEQ_GROUP) {
        if (pn_str_equal(name, PN_STR("grouper"))) *out = object->u.seq->items[0];
        if (pn_str_equal(name, PN_STR("list"))) *out = object->u.seq->items[1];
    }
    if (out->type != PN_J_ABSENT) return PN_OK;
    bool forbidden = false;
    const pn_jfunction *method = pn_jmethod_find(object, name, &forbidden);
    if (forbidden) {
        *out = pn_jundefined_hint("access to a method that would change a list or dict is unsafe");
        return PN_OK;
    }
    if (!method) return PN_OK;
    pn_jvalue *self = pn_jrun_alloc(run, 1, sizeof *self);
    if (!self) return pn_jrun_failed(run);
    *self = *object;
    *out = (pn_jvalue){.type = PN_J_METHOD, .u.method = {method, self}};
    return PN_OK;
}

/* object[index] for what can be subscripted; ABSENT when it has no such item. */
static pn_status item(pn_jrun *run, const pn_jvalue *object, const pn_jvalue *index, pn_jvalue *out) {
    *out = (pn_jvalue){.type = PN_J_ABSENT};
    if (object->type == PN_J_DICT) {
        const pn_jvalue *found = NULL;
        if (pn_jvalue_is_hashable(index)) PN_TRY(pn_jdict_find(run, object->u.dict, index, &found));
        if (found) *out = *found;
        return PN_OK;
    }
    bool indexed = object->type == PN_J_STRING || object->type == PN_J_RANGE || is_list_or_tuple(object);
    int64_t i;
    size_t n;
    if (!indexed || !pn_jvalue_as_int(index, &i) || !pn_jvalue_length(object, &n)) return PN_OK;
    if (object->type == PN_J_STRING) PN_TRY(pn_jrun_charge_bytes(run, object->u.str.len * 2));
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return PN_OK;
    if (object->type == PN_J_RANGE) {
        *out = pn_jint(object->u.range.start + i * object->u.range.step);
    } else if (object->type == PN_J_STRING) {
        size_t at = pn_jstr_offset(object->u.str, (size_t)i);
        *out = pn_jstring(pn_jstr_slice(object->u.str, at, at + pn_jstr_char(object->u.str, at, NULL)));
    } else {
        *out = object->u.seq->items[i];
    }
    return PN_OK;
}

/* For a walk over n names, each of which may be as long as the one looked for and differ only at its end. */
static pn_status charge_search(pn_jrun *run, size_t n, pn_str name) {
    return pn_jrun_charge(run, n / 8 + n * (name.len / 32));
}

static pn_status namespace_attribute(pn_jrun *run, const pn_jvalue *ns, pn_str name, const pn_jvalue **out) {
    PN_TRY(charge_search(run, ns->u.ns->attributes.n, name));
    *out = pn_jdict_find_str(&ns->u.ns->attributes, name);
    return PN_OK;
}

pn_status pn_jop_attribute(pn_jrun *run, const pn_jvalue *object, pn_str name, pn_jvalue *out) {
    if (object->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, object);
    const pn_jvalue *found = NULL;
    if (object->type == PN_J_NAMESPACE) PN_TRY(namespace_attribute(run, object, name, &found));
    if (!found) PN_TRY(own_attribute(run, object, name, out));
    if (!found && out->type != PN_J_ABSENT) return PN_OK;
    if (!found && object->type == PN_J_DICT) {
        PN_TRY(charge_search(run, object->u.dict->n, name));
        found = pn_jdict_find_str(object->u.dict, name);
    }
    *out = found ? *found : pn_jundefined_attribute(object, name);
    return PN_OK;
}

pn_status pn_jop_subscript(pn_jrun *run, const pn_jvalue *object, const pn_jvalue *index, pn_jvalue *out) {
    if (object->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, object);
    PN_TRY(item(run, object, index, out));
    if (out->type != PN_J_ABSENT) return PN_OK;
    if (index->type == PN_J_STRING) {
        pn_str name = pn_jstr_bytes(index->u.str);
        const pn_jvalue *found = NULL;
        if (object->type == PN_J_NAMESPACE) PN_TRY(namespace_attribute(run, object, name, &found));
        if (!found) PN_TRY(own_attribute(run, object, name, out));
        if (found) *out = *found;
        if (out->type == PN_J_ABSENT) *out = pn_jundefined_attribute(object, name);
        return PN_OK;
    }
    pn_jtext text = {0};
    pn_jstr name;
    PN_TRY(pn_jprint_repr(run, &text, index));
    PN_TRY(pn_jtext_join(run, &text, &name));
    *out = pn_jundefined_attribute(object, pn_jstr_bytes(name));
    out->u.undefined.is_element = true;
    return PN_OK;
}

/* ---- slices ---- */

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high) {
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

/* First item, step and count of what a slice takes of n items. */
static pn_status slice_bounds(pn_jrun *run, int64_t n, const pn_jvalue *begin, const pn_jvalue *end,
                              const pn_jvalue *step, pn_jrange *out) {
    int64_t stride, first, last;
    PN_TRY(pn_jarg_int(run, step, "a slice's step", 1, &stride));
    if (stride == 0) return pn_jrun_fail(run, "slice step cannot be zero");
    if (stride < -n - 1) stride = -n - 1; /* as good as any larger one, and does not overflow */
    if (stride > n + 1) stride = n + 1;
    bool back = stride < 0;
    PN_TRY(pn_jarg_int(run, begin, "a slice's begin", back ? INT64_MAX : 0, &first));
    PN_TRY(pn_jarg_int(run, end, "a slice's end", back ? INT64_MIN : INT64_MAX, &last));
    first = back ? clamp(first, n, -1, n - 1) : clamp(first, n, 0, n);
    last = back ? clamp(last, n, -1, n - 1) : clamp(last, n, 0, n);
    int64_t distance = back ? first - last : last - first, size = back ? -stride : stride;
    *out = (pn_jrange){first, stride, distance > 0 ? (distance + size - 1) / size : 0};
    return PN_OK;
}

static pn_status slice_string(pn_jrun *run, pn_jstr s, pn_jrange range, pn_jvalue *out) {
    PN_TRY(pn_jrun_charge_bytes(run, s.len * 4));
    if (range.step == 1 || range.n == 0) {
        size_t begin = range.n ? pn_jstr_offset(s, (size_t)range.start) : 0;
        size_t len = pn_jstr_offset(pn_jstr_slice(s, begin, s.len), (size_t)range.n);
        *out = pn_jstring(pn_jstr_slice(s, begin, begin + len));
        return PN_OK;
    }
    pn_jlist chars;
    pn_jvalue whole = pn_jstring(s);
    pn_jtext text = {0};
    PN_TRY(pn_jvalue_collect(run, &whole, &chars));
    for (int64_t i = 0; i < range.n; i++)
        PN_TRY(pn_jtext_add(run, &text, chars.items[range.start + i * range.step].u.str));
    *out = whole;
    return pn_jtext_join(run, &text, &out->u.str);
}

static pn_status slice_sequence(pn_jrun *run, const pn_jvalue *object, pn_jrange range, pn_jvalue *out) {
    const pn_jvalue *items = object->u.seq->items;
    if (range.step == 1 && range.n > 0)
        return pn_jseq_make(run, object->type, items + range.start, (size_t)range.n, out);
    pn_jvalue *taken = pn_jrun_alloc(run, (size_t)range.n, sizeof *taken);
    if (!taken) return pn_jrun_failed(run);
    PN_TRY(pn_jrun_charge(run, (uint64_t)range.n / 8));
    for (int64_t i = 0; i < range.n; i++)
        taken[i] = items[range.start + i * range.step];
    return pn_jseq_make(run, object->type, taken, (size_t)range.n, out);
}

pn_status pn_jop_slice(pn_jrun *run, const pn_jvalue *object, const pn_jvalue *begin, const pn_jvalue *end,
                       const pn_jvalue *step, pn_jvalue *out) {
    size_t n;
    pn_jrange range = {0};
    if (object->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, object);
    bool sliced = object->type == PN_J_STRING || object->type == PN_J_RANGE || is_list_or_tuple(object);
    if (!sliced || !pn_jvalue_length(object, &n))
        return pn_jrun_fail(run, "'%s' object cannot be sliced", pn_jvalue_type_name(object));
    PN_TRY(slice_bounds(run, (int64_t)n, begin, end, step, &range));
    if (object->type == PN_J_STRING) return slice_string(run, object->u.str, range, out);
    if (object->type != PN_J_RANGE) return slice_sequence(run, object, range, out);
    pn_jrange of = object->u.range;
    if (range.n) range.start = of.start + range.start * of.step;
    range.step = range.n > 1 ? of.step * range.step : 1; /* one item has no step that could overflow */
    *out = (pn_jvalue){.type = PN_J_RANGE, .u.range = range};
    return PN_OK;
}
