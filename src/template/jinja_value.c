/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_value.h"

#include "template/jinja_exec.h"

#include <math.h>

/* ---- making ---- */

pn_jvalue pn_jundefined_hint(const char *hint) {
    pn_jundefined u = {.name = hint, .name_len = strlen(hint), .is_hint = true};
    return (pn_jvalue){.type = PN_J_UNDEFINED, .u.undefined = u};
}

pn_jvalue pn_jundefined_name(pn_str name) {
    pn_jundefined u = {.name = name.data, .name_len = name.len};
    return (pn_jvalue){.type = PN_J_UNDEFINED, .u.undefined = u};
}

pn_jvalue pn_jundefined_attribute(const pn_jvalue *owner, pn_str name) {
    pn_jundefined u = {.name = name.data, .name_len = name.len, .owner = pn_jvalue_type_name(owner)};
    return (pn_jvalue){.type = PN_J_UNDEFINED, .u.undefined = u};
}

pn_status pn_jseq_make(pn_jrun *run, pn_jtype type, const pn_jvalue *items, size_t n, pn_jvalue *out) {
    pn_jseq *seq = pn_jrun_alloc(run, 1, sizeof *seq);
    if (!seq) return pn_jrun_failed(run);
    *seq = (pn_jseq){.items = items, .n = n};
    *out = (pn_jvalue){.type = type, .u.seq = seq};
    return PN_OK;
}

pn_status pn_jiterator_make(pn_jrun *run, const char *python_type, const pn_jvalue *items, size_t n,
                            pn_jvalue *out) {
    pn_jvalue list;
    PN_TRY(pn_jseq_make(run, PN_J_LIST, items, n, &list));
    pn_jiterator *iterator = pn_jrun_alloc(run, 1, sizeof *iterator);
    if (!iterator) return pn_jrun_failed(run);
    *iterator = (pn_jiterator){.python_type = python_type, .seq = list.u.seq};
    *out = (pn_jvalue){.type = PN_J_ITERATOR, .u.iterator = iterator};
    return PN_OK;
}

pn_status pn_jtuple2(pn_jrun *run, pn_jvalue first, pn_jvalue second, pn_jvalue *out) {
    pn_jvalue *items = pn_jrun_alloc(run, 2, sizeof *items);
    if (!items) return pn_jrun_failed(run);
    items[0] = first;
    items[1] = second;
    return pn_jseq_make(run, PN_J_TUPLE, items, 2, out);
}

/* A block of the arena twice as large, with the first n elements. */
static void *grow(pn_jrun *run, const void *old, size_t n, size_t cap, size_t size) {
    void *block = pn_jrun_alloc(run, cap, size);
    if (block && n) memcpy(block, old, n * size);
    return block;
}

pn_status pn_jlist_add(pn_jrun *run, pn_jlist *list, pn_jvalue value) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 8;
        pn_jvalue *items = grow(run, list->items, list->n, cap, sizeof *items);
        if (!items) return pn_jrun_failed(run);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = value;
    return PN_OK;
}

/* ---- dicts ---- */

const pn_jvalue *pn_jdict_find_str(const pn_jdict *dict, pn_str key) {
    for (size_t i = 0; i < dict->n; i++)
        if (dict->keys[i].type == PN_J_STRING && pn_str_equal(pn_jstr_bytes(dict->keys[i].u.str), key))
            return &dict->values[i];
    return NULL;
}

static pn_status find_slot(pn_jrun *run, const pn_jdict *dict, const pn_jvalue *key, size_t *out) {
    PN_TRY(pn_jrun_charge(run, dict->n / 8));
    for (size_t i = 0; i < dict->n; i++) {
        bool equal;
        PN_TRY(pn_jvalue_equal(run, &dict->keys[i], key, &equal));
        if (equal) {
            *out = i;
            return PN_OK;
        }
    }
    *out = dict->n;
    return PN_OK;
}

pn_status pn_jdict_find(pn_jrun *run, const pn_jdict *dict, const pn_jvalue *key, const pn_jvalue **out) {
    size_t i = 0;
    PN_TRY(find_slot(run, dict, key, &i));
    *out = i < dict->n ? &dict->values[i] : NULL;
    return PN_OK;
}

pn_status pn_jdict_set(pn_jrun *run, pn_jdict *dict, pn_jvalue key, pn_jvalue value) {
    if (!pn_jvalue_is_hashable(&key))
        return pn_jrun_fail(run, "unhashable type: '%s'", pn_jvalue_type_name(&key));
    size_t i = 0;
    PN_TRY(find_slot(run, dict, &key, &i));
    if (i == dict->cap) {
        size_t cap = dict->cap ? dict->cap * 2 : 4;
        pn_jvalue *keys = grow(run, dict->keys, dict->n, cap, sizeof *keys);
        pn_jvalue *values = keys ? grow(run, dict->values, dict->n, cap, sizeof *values) : NULL;
        if (!values) return pn_jrun_failed(run);
        dict->keys = keys;
        dict->values = values;
        dict->cap = cap;
    }
    if (i == dict->n) dict->keys[dict->n++] = key;
    dict->values[i] = value;
    return PN_OK;
}

pn_status pn_jdict_copy(pn_jrun *run, const pn_jdict *from, pn_jdict *to) {
    pn_jvalue *keys = grow(run, from->keys, from->n, from->n, sizeof *keys);
    pn_jvalue *values = keys ? grow(run, from->values, from->n, from->n, sizeof *values) : NULL;
    if (!values) return pn_jrun_failed(run);
    *to = (pn_jdict){.keys = keys, .values = values, .n = from->n, .cap = from->n};
    return PN_OK;
}

/* ---- asking ---- */

const char *pn_jvalue_type_name(const pn_jvalue *v) {
    static const char *const view_names[] = {
        [PN_JSEQ_KEYS] = "dict_keys", [PN_JSEQ_VALUES] = "dict_values", [PN_JSEQ_ITEMS] = "dict_items"};
    static const char *const names[] = {
        [PN_J_UNDEFINED] = "Undefined",
        [PN_J_NONE] = "NoneType",
        [PN_J_BOOL] = "bool",
        [PN_J_INT] = "int",
        [PN_J_FLOAT] = "float",
        [PN_J_STRING] = "str",
        [PN_J_LIST] = "list",
        [PN_J_TUPLE] = "tuple",
        [PN_J_DICT] = "dict",
        [PN_J_RANGE] = "range",
        [PN_J_NAMESPACE] = "Namespace",
        [PN_J_LOOP] = "LoopContext",
        [PN_J_MACRO] = "Macro",
        [PN_J_FUNCTION] = "function",
        [PN_J_METHOD] = "builtin_function_or_method",
        [PN_J_CYCLER] = "Cycler",
        [PN_J_JOINER] = "Joiner",
    };
    if (v->type == PN_J_VIEW) return view_names[v->u.seq->kind];
    if (v->type == PN_J_ITERATOR) return v->u.iterator->python_type;
    return v->type == PN_J_ABSENT ? "nothing" : names[v->type];
}

bool pn_jvalue_length(const pn_jvalue *v, size_t *n) {
    switch (v->type) {
    case PN_J_UNDEFINED:
        *n = 0;
        return true;
    case PN_J_STRING:
        *n = pn_jstr_n_chars(v->u.str);
        return true;
    case PN_J_LIST:
    case PN_J_TUPLE:
    case PN_J_VIEW:
        *n = v->u.seq->n;
        return true;
    case PN_J_DICT:
        *n = v->u.dict->n;
        return true;
    case PN_J_RANGE:
        *n = (size_t)v->u.range.n;
        return true;
    default:
        return false;
    }
}

bool pn_jvalue_truth(const pn_jvalue *v) {
    size_t n;
    switch (v->type) {
    case PN_J_NONE:
        return false;
    case PN_J_BOOL:
        return v->u.boolean;
    case PN_J_INT:
        return v->u.integer != 0;
    case PN_J_FLOAT:
        return v->u.real != 0;
    case PN_J_STRING:
        return v->u.str.len > 0;
    default:
        return !pn_jvalue_length(v, &n) || n > 0;
    }
}

bool pn_jvalue_is_iterable(const pn_jvalue *v) {
    size_t n;
    return v->type == PN_J_ITERATOR || v->type == PN_J_STRING || pn_jvalue_length(v, &n);
}

bool pn_jvalue_is_callable(const pn_jvalue *v) {
    switch (v->type) {
    case PN_J_UNDEFINED: /* it has a __call__, which fails */
    case PN_J_LOOP:
    case PN_J_MACRO:
    case PN_J_FUNCTION:
    case PN_J_METHOD:
    case PN_J_JOINER:
        return true;
    default:
        return false;
    }
}

bool pn_jvalue_is_number(const pn_jvalue *v) {
    return v->type == PN_J_BOOL || v->type == PN_J_INT || v->type == PN_J_FLOAT;
}

bool pn_jvalue_as_int(const pn_jvalue *v, int64_t *out) {
    if (v->type == PN_J_BOOL)
        *out = v->u.boolean;
    else if (v->type == PN_J_INT)
        *out = v->u.integer;
    else
        return false;
    return true;
}

bool pn_jvalue_as_double(const pn_jvalue *v, double *out) {
    int64_t i;
    if (v->type == PN_J_FLOAT)
        *out = v->u.real;
    else if (pn_jvalue_as_int(v, &i))
        *out = (double)i;
    else
        return false;
    return true;
}

bool pn_jvalue_is_hashable(const pn_jvalue *v) {
    if (v->type == PN_J_LIST || v->type == PN_J_DICT || v->type == PN_J_VIEW) return false;
    if (v->type != PN_J_TUPLE) return true;
    for (size_t i = 0; i < v->u.seq->n; i++) {
        const pn_jvalue *item = &v->u.seq->items[i];
        /* A tuple of tuples of … is rare and deep only by malice; one level is looked into. */
        if (item->type == PN_J_LIST || item->type == PN_J_DICT || item->type == PN_J_VIEW) return false;
    }
    return true;
}

static bool equal_range(pn_jrange a, pn_jrange b) {
    if (a.n != b.n) return false;
    return a.n == 0 || (a.start == b.start && (a.n == 1 || a.step == b.step));
}

bool pn_jvalue_same(const pn_jvalue *a, const pn_jvalue *b) {
    if (a->type != b->type) return false;
    switch (a->type) {
    case PN_J_NONE:
        return true;
    case PN_J_BOOL:
        return a->u.boolean == b->u.boolean;
    case PN_J_INT:
        return a->u.integer == b->u.integer;
    case PN_J_FLOAT:
        return a->u.real == b->u.real;
    case PN_J_STRING:
        return pn_jstr_equal(a->u.str, b->u.str);
    case PN_J_LIST:
    case PN_J_TUPLE:
    case PN_J_VIEW:
        return a->u.seq == b->u.seq;
    case PN_J_DICT:
        return a->u.dict == b->u.dict;
    case PN_J_RANGE:
        return equal_range(a->u.range, b->u.range);
    case PN_J_ITERATOR:
        return a->u.iterator == b->u.iterator;
    case PN_J_NAMESPACE:
        return a->u.ns == b->u.ns;
    case PN_J_LOOP:
        return a->u.loop == b->u.loop;
    case PN_J_MACRO:
        return a->u.macro == b->u.macro;
    case PN_J_FUNCTION:
        return a->u.function == b->u.function;
    case PN_J_CYCLER:
        return a->u.cycler == b->u.cycler;
    case PN_J_JOINER:
        return a->u.joiner == b->u.joiner;
    default:
        return false;
    }
}

pn_status pn_jundefined_fail(pn_jrun *run, const pn_jvalue *v) {
    const pn_jundefined *u = &v->u.undefined;
    int len = u->name_len < 200 ? (int)u->name_len : 200;
    if (u->is_hint) return pn_jrun_fail(run, "%.*s", len, u->name);
    if (!u->owner) return pn_jrun_fail(run, "'%.*s' is undefined", len, u->name);
    if (u->is_element) return pn_jrun_fail(run, "%s object has no element %.*s", u->owner, len, u->name);
    return pn_jrun_fail(run, "'%s object' has no attribute '%.*s'", u->owner, len, u->name);
}

/* ---- comparing ---- */

static pn_status equal_seq(pn_jrun *run, const pn_jseq *a, const pn_jseq *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++)
        PN_TRY(pn_jvalue_equal(run, &a->items[i], &b->items[i], out));
    return PN_OK;
}

static pn_status equal_dict(pn_jrun *run, const pn_jdict *a, const pn_jdict *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++) {
        const pn_jvalue *other;
        PN_TRY(pn_jdict_find(run, b, &a->keys[i], &other));
        *out = other != NULL;
        if (other) PN_TRY(pn_jvalue_equal(run, &a->values[i], other, out));
    }
    return PN_OK;
}

static pn_status equal_deep(pn_jrun *run, const pn_jvalue *a, const pn_jvalue *b, bool *out) {
    switch (a->type) {
    case PN_J_LIST:
    case PN_J_TUPLE:
        return equal_seq(run, a->u.seq, b->u.seq, out);
    case PN_J_DICT:
        return equal_dict(run, a->u.dict, b->u.dict, out);
    default:
        *out = pn_jvalue_same(a, b);
        return PN_OK;
    }
}

pn_status pn_jvalue_equal(pn_jrun *run, const pn_jvalue *a, const pn_jvalue *b, bool *out) {
    PN_TRY(pn_jrun_charge(run, 1));
    if (pn_jvalue_is_number(a) && pn_jvalue_is_number(b)) {
        int order;
        pn_status status = pn_jvalue_compare(run, "==", a, b, &order);
        *out = status == PN_OK && order == 0;
        return status;
    }
    *out = false;
    if (a->type != b->type) return PN_OK;
    if (a->type == PN_J_STRING) {
        *out = pn_jstr_equal(a->u.str, b->u.str);
        return a->u.str.len == b->u.str.len ? pn_jrun_charge_bytes(run, a->u.str.len) : PN_OK;
    }
    if (a->type == PN_J_UNDEFINED) {
        *out = true;
        return PN_OK;
    }
    PN_TRY(pn_jrun_enter(run));
    pn_status status = equal_deep(run, a, b, out);
    pn_jrun_leave(run);
    return status;
}

static int order_numbers(const pn_jvalue *a, const pn_jvalue *b) {
    int64_t i, j;
    if (pn_jvalue_as_int(a, &i) && pn_jvalue_as_int(b, &j)) return (i > j) - (i < j);
    double x = 0, y = 0;
    pn_jvalue_as_double(a, &x);
    pn_jvalue_as_double(b, &y);
    if (isnan(x) || isnan(y)) return PN_JORDER_NONE;
    return (x > y) - (x < y);
}

static pn_status compare_seq(pn_jrun *run, const char *op, const pn_jseq *a, const pn_jseq *b, int *out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool equal;
        PN_TRY(pn_jvalue_equal(run, &a->items[i], &b->items[i], &equal));
        if (!equal) return pn_jvalue_compare(run, op, &a->items[i], &b->items[i], out);
    }
    *out = (a->n > b->n) - (a->n < b->n);
    return PN_OK;
}

pn_status pn_jvalue_compare(pn_jrun *run, const char *op, const pn_jvalue *a, const pn_jvalue *b, int *out) {
    PN_TRY(pn_jrun_charge(run, 1));
    if (pn_jvalue_is_number(a) && pn_jvalue_is_number(b)) {
        *out = order_numbers(a, b);
        return PN_OK;
    }
    if (a->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, a);
    if (b->type == PN_J_UNDEFINED) return pn_jundefined_fail(run, b);
    if (a->type == PN_J_STRING && b->type == PN_J_STRING) {
        *out = pn_jstr_compare(a->u.str, b->u.str);
        return pn_jrun_charge_bytes(run, a->u.str.len < b->u.str.len ? a->u.str.len : b->u.str.len);
    }
    if (a->type == b->type && (a->type == PN_J_LIST || a->type == PN_J_TUPLE)) {
        PN_TRY(pn_jrun_enter(run));
        pn_status status = compare_seq(run, op, a->u.seq, b->u.seq, out);
        pn_jrun_leave(run);
        return status;
    }
    return pn_jrun_fail(run, "'%s' not supported between instances of '%s' and '%s'", op,
                        pn_jvalue_type_name(a), pn_jvalue_type_name(b));
}

/* ---- walking ---- */

pn_status pn_jcursor_open(pn_jrun *run, const pn_jvalue *v, pn_jcursor *out) {
    if (!pn_jvalue_is_iterable(v))
        return pn_jrun_fail(run, "'%s' object is not iterable", pn_jvalue_type_name(v));
    *out = (pn_jcursor){.source = *v};
    return PN_OK;
}

pn_status pn_jcursor_next(pn_jrun *run, pn_jcursor *cursor, pn_jvalue *out, bool *done) {
    PN_TRY(pn_jrun_charge(run, 1));
    const pn_jvalue *v = &cursor->source;
    size_t *at = v->type == PN_J_ITERATOR ? &v->u.iterator->at : &cursor->at;
    size_t n = v->type == PN_J_STRING ? v->u.str.len : 0;
    if (v->type == PN_J_ITERATOR)
        n = v->u.iterator->seq->n;
    else if (v->type != PN_J_STRING)
        pn_jvalue_length(v, &n);
    *done = *at >= n;
    if (*done) return PN_OK;
    size_t i = *at;
    size_t step = 1;
    if (v->type == PN_J_STRING) {
        step = pn_jstr_char(v->u.str, i, NULL);
        *out = pn_jstring(pn_jstr_slice(v->u.str, i, i + step));
    } else if (v->type == PN_J_DICT) {
        *out = v->u.dict->keys[i];
    } else if (v->type == PN_J_RANGE) {
        *out = pn_jint(v->u.range.start + (int64_t)i * v->u.range.step);
    } else {
        *out = v->type == PN_J_ITERATOR ? v->u.iterator->seq->items[i] : v->u.seq->items[i];
    }
    *at += step;
    return PN_OK;
}

pn_status pn_jvalue_collect(pn_jrun *run, const pn_jvalue *v, pn_jlist *out) {
    pn_jcursor cursor = {0};
    PN_TRY(pn_jcursor_open(run, v, &cursor));
    pn_jlist list = {0};
    for (;;) {
        pn_jvalue item;
        bool done;
        PN_TRY(pn_jcursor_next(run, &cursor, &item, &done));
        if (done) break;
        PN_TRY(pn_jlist_add(run, &list, item));
    }
    *out = list;
    return PN_OK;
}

/* ---- sorting ---- */

typedef struct sort_pair {
    pn_jvalue key, item;
} sort_pair;

/* Merges the sorted halves [begin, middle) and [middle, end) of from into to. */
static pn_status merge(pn_jrun *run, const sort_pair *from, sort_pair *to, size_t begin, size_t middle,
                       size_t end, bool reverse) {
    size_t left = begin, right = middle;
    for (size_t i = begin; i < end; i++) {
        bool take_right = left == middle;
        if (!take_right && right < end) {
            int order = 0;
            PN_TRY(pn_jvalue_compare(run, "<", &from[right].key, &from[left].key, &order));
            take_right = order == (reverse ? 1 : -1);
        }
        to[i] = take_right ? from[right++] : from[left++];
    }
    return PN_OK;
}

pn_status pn_jvalue_sort(pn_jrun *run, pn_jvalue *items, pn_jvalue *keys, size_t n, bool reverse) {
    sort_pair *from = pn_jrun_alloc(run, n, sizeof *from);
    sort_pair *to = pn_jrun_alloc(run, n, sizeof *to);
    if (!from || !to) return pn_jrun_failed(run);
    for (size_t i = 0; i < n; i++)
        from[i] = (sort_pair){keys[i], items[i]};
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = begin + 2 * width < n ? begin + 2 * width : n;
            PN_TRY(merge(run, from, to, begin, middle, end, reverse));
        }
        sort_pair *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < n; i++) {
        keys[i] = from[i].key;
        items[i] = from[i].item;
    }
    return PN_OK;
}
