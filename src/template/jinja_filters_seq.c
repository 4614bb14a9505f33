/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on sequences and dicts. Those that give a generator in Jinja2 give a one-shot iterator; they do
   their work at once, which a template cannot tell apart but by an error in an item that it never reaches. */
#include "template/jinja_filters.h"

#include "template/jinja_eval.h"

static const pn_jvalue absent = {.type = PN_J_ABSENT};

/* ---- paths and keys ---- */

static bool is_index(pn_jstr part, int64_t *out) {
    if (part.len == 0 || part.len > 18) return false;
    *out = 0;
    for (size_t i = 0; i < part.len; i++) {
        if (part.data[i] < '0' || part.data[i] > '9') return false;
        *out = *out * 10 + (part.data[i] - '0');
    }
    return true;
}

static pn_status get_part(pn_jrun *run, const pn_jvalue *key, const pn_jvalue *fallback, pn_jvalue *item) {
    pn_jvalue object = *item;
    PN_TRY(pn_jop_subscript(run, &object, key, item));
    if (item->type == PN_J_UNDEFINED && pn_jarg_given(fallback)) *item = *fallback;
    return PN_OK;
}

pn_status pn_jfilter_get_path(pn_jrun *run, const pn_jvalue *item, const pn_jvalue *attribute,
                              const pn_jvalue *fallback, pn_jvalue *out) {
    *out = *item;
    if (attribute->type != PN_J_STRING) return get_part(run, attribute, fallback, out);
    pn_jstr path = attribute->u.str;
    PN_TRY(pn_jrun_charge_bytes(run, path.len));
    for (size_t begin = 0; begin <= path.len;) {
        size_t dot = pn_jstr_find(path, PN_JSTR("."), begin);
        size_t end = dot == PN_JSTR_NONE ? path.len : dot;
        pn_jstr part = pn_jstr_slice(path, begin, end);
        int64_t index;
        pn_jvalue key = is_index(part, &index) ? pn_jint(index) : pn_jstring(part);
        PN_TRY(get_part(run, &key, fallback, out));
        begin = end + 1;
    }
    return PN_OK;
}

static pn_status fold_case(pn_jrun *run, bool case_sensitive, pn_jvalue *key) {
    if (case_sensitive || key->type != PN_J_STRING) return PN_OK;
    return pn_jstr_map_case(run, key->u.str, PN_JCASE_LOWER, &key->u.str);
}

/* What an item is sorted, grouped or compared by: the value at its path, or itself, in lower case. */
static pn_status make_key(pn_jrun *run, const pn_jvalue *item, const pn_jvalue *attribute,
                          const pn_jvalue *fallback, bool case_sensitive, pn_jvalue *out) {
    *out = *item;
    if (pn_jarg_given(attribute)) PN_TRY(pn_jfilter_get_path(run, item, attribute, fallback, out));
    return fold_case(run, case_sensitive, out);
}

/* The key of sort, whose attribute may name several paths by commas. */
static pn_status make_multi_key(pn_jrun *run, const pn_jvalue *item, const pn_jvalue *attribute,
                                bool case_sensitive, pn_jvalue *out) {
    if (attribute->type != PN_J_STRING) return make_key(run, item, attribute, &absent, case_sensitive, out);
    pn_jstr paths = attribute->u.str;
    pn_jlist keys = {0};
    for (size_t begin = 0; begin <= paths.len;) {
        size_t comma = pn_jstr_find(paths, PN_JSTR(","), begin);
        size_t end = comma == PN_JSTR_NONE ? paths.len : comma;
        pn_jvalue key, path = pn_jstring(pn_jstr_slice(paths, begin, end));
        PN_TRY(make_key(run, item, &path, &absent, case_sensitive, &key));
        PN_TRY(pn_jlist_add(run, &keys, key));
        begin = end + 1;
    }
    return pn_jseq_make(run, PN_J_LIST, keys.items, keys.n, out);
}

/* ---- whole sequences ---- */

pn_status pn_jfilter_length(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    size_t n;
    if (self->type == PN_J_LOOP) return pn_jop_attribute(run, self, PN_STR("length"), out);
    if (!pn_jvalue_length(self, &n))
        return pn_jrun_fail(run, "object of type '%s' has no len()", pn_jvalue_type_name(self));
    if (self->type == PN_J_STRING) PN_TRY(pn_jrun_charge_bytes(run, self->u.str.len));
    *out = pn_jint((int64_t)n);
    return PN_OK;
}

pn_status pn_jfilter_list(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jlist items;
    PN_TRY(pn_jvalue_collect(run, self, &items));
    return pn_jseq_make(run, PN_J_LIST, items.items, items.n, out);
}

pn_status pn_jfilter_first(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jcursor cursor;
    bool end;
    PN_TRY(pn_jcursor_open(run, self, &cursor));
    PN_TRY(pn_jcursor_next(run, &cursor, out, &end));
    if (end) *out = pn_jundefined_hint("No first item, sequence was empty.");
    return PN_OK;
}

pn_status pn_jfilter_last(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    if (self->type == PN_J_ITERATOR)
        return pn_jrun_fail(run, "'%s' object is not reversible", pn_jvalue_type_name(self));
    if (self->type == PN_J_STRING && self->u.str.len) { /* without making a list of all characters */
        size_t n = pn_jstr_char_before(self->u.str, self->u.str.len, NULL);
        *out = pn_jstring(pn_jstr_slice(self->u.str, self->u.str.len - n, self->u.str.len));
        return PN_OK;
    }
    pn_jlist items;
    PN_TRY(pn_jvalue_collect(run, self, &items));
    *out = items.n ? items.items[items.n - 1] : pn_jundefined_hint("No last item, sequence was empty.");
    return PN_OK;
}

pn_status pn_jfilter_reverse(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jlist items;
    PN_TRY(pn_jvalue_collect(run, self, &items));
    for (size_t i = 0; i < items.n / 2; i++) {
        pn_jvalue swap = items.items[i];
        items.items[i] = items.items[items.n - 1 - i];
        items.items[items.n - 1 - i] = swap;
    }
    if (self->type != PN_J_STRING)
        return pn_jiterator_make(run, "list_reverseiterator", items.items, items.n, out);
    pn_jtext text = {0};
    for (size_t i = 0; i < items.n; i++)
        PN_TRY(pn_jtext_add(run, &text, items.items[i].u.str));
    *out = *self;
    return pn_jtext_join(run, &text, &out->u.str);
}

pn_status pn_jfilter_items(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)args;
    pn_jlist pairs = {0};
    if (self->type != PN_J_DICT && self->type != PN_J_UNDEFINED)
        return pn_jrun_fail(run, "Can only get item pairs from a mapping.");
    for (size_t i = 0; self->type == PN_J_DICT && i < self->u.dict->n; i++) {
        pn_jvalue pair;
        PN_TRY(pn_jtuple2(run, self->u.dict->keys[i], self->u.dict->values[i], &pair));
        PN_TRY(pn_jlist_add(run, &pairs, pair));
    }
    return pn_jiterator_make(run, "generator", pairs.items, pairs.n, out);
}

pn_status pn_jfilter_sum(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jcursor cursor;
    pn_jvalue total = args->positional[1].type == PN_J_ABSENT ? pn_jint(0) : args->positional[1];
    if (total.type == PN_J_STRING) return pn_jrun_fail(run, "sum() can't sum strings");
    PN_TRY(pn_jcursor_open(run, self, &cursor));
    for (;;) {
        pn_jvalue item, left = total;
        bool end;
        PN_TRY(pn_jcursor_next(run, &cursor, &item, &end));
        if (end) break;
        PN_TRY(make_key(run, &item, &args->positional[0], &absent, true, &item));
        PN_TRY(pn_jop_binary(run, PN_JOP_ADD, &left, &item, &total));
    }
    *out = total;
    return PN_OK;
}

/* ---- sorting and grouping ---- */

pn_status pn_jfilter_sort(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    pn_jlist items;
    bool reverse = pn_jarg_truth(&args->positional[0], false),
         sensitive = pn_jarg_truth(&args->positional[1], false);
    PN_TRY(pn_jvalue_collect(run, self, &items));
    pn_jvalue *keys = pn_jrun_alloc(run, items.n, sizeof *keys);
    if (!keys) return pn_jrun_failed(run);
    for (size_t i = 0; i < items.n; i++)
        PN_TRY(make_multi_key(run, &items.items[i], &args->positional[2], sensitive, &keys[i]));
    PN_TRY(pn_jvalue_sort(run, items.items, keys, items.n, reverse));
    return pn_jseq_make(run, PN_J_LIST, items.items, items.n, out);
}

pn_status pn_jfilter_dictsort(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    bool sensitive = pn_jarg_truth(&args->positional[0], false),
         reverse = pn_jarg_truth(&args->positional[2], false);
    pn_jstr by = PN_JSTR("key");
    if (self->type != PN_J_DICT)
        return pn_jrun_fail(run, "dictsort takes a dict, not '%s'", pn_jvalue_type_name(self));
    if (args->positional[1].type != PN_J_ABSENT)
        PN_TRY(pn_jarg_str(run, &args->positional[1], "dictsort()'s by", &by));
    bool by_value = pn_jstr_equal(by, PN_JSTR("value"));
    if (!by_value && !pn_jstr_equal(by, PN_JSTR("key")))
        return pn_jrun_fail(run, "You can only sort by either \"key\" or \"value\"");
    const pn_jdict *dict = self->u.dict;
    pn_jvalue *pairs = pn_jrun_alloc(run, dict->n, sizeof *pairs);
    pn_jvalue *keys = pairs ? pn_jrun_alloc(run, dict->n, sizeof *keys) : NULL;
    if (!keys) return pn_jrun_failed(run);
    for (size_t i = 0; i < dict->n; i++) {
        PN_TRY(pn_jtuple2(run, dict->keys[i], dict->values[i], &pairs[i]));
        keys[i] = by_value ? dict->values[i] : dict->keys[i];
        PN_TRY(fold_case(run, sensitive, &keys[i]));
    }
    PN_TRY(pn_jvalue_sort(run, pairs, keys, dict->n, reverse));
    return pn_jseq_make(run, PN_J_LIST, pairs, dict->n, out);
}

/* The tuple (grouper, list), whose members have names too. */
static pn_status make_group(pn_jrun *run, pn_jvalue grouper, const pn_jvalue *items, size_t n,
                            pn_jvalue *out) {
    pn_jvalue list;
    PN_TRY(pn_jseq_make(run, PN_J_LIST, items, n, &list));
    pn_jvalue *pair = pn_jrun_alloc(run, 2, sizeof *pair);
    pn_jseq *seq = pair ? pn_jrun_alloc(run, 1, sizeof *seq) : NULL;
    if (!seq) return pn_jrun_failed(run);
    pair[0] = grouper;
    pair[1] = list;
    *seq = (pn_jseq){.items = pair, .n = 2, .kind = PN_JSEQ_GROUP};
    *out = (pn_jvalue){.type = PN_J_TUPLE, .u.seq = seq};
    return PN_OK;
}

pn_status pn_jfilter_groupby(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    const pn_jvalue *attribute = &args->positional[0], *fallback = &args->positional[1];
    bool sensitive = pn_jarg_truth(&args->positional[2], false);
    pn_jlist items, groups = {0};
    PN_TRY(pn_jvalue_collect(run, self, &items));
    pn_jvalue *keys = pn_jrun_alloc(run, items.n, sizeof *keys);
    if (!keys) return pn_jrun_failed(run);
    for (size_t i = 0; i < items.n; i++)
        PN_TRY(make_key(run, &items.items[i], attribute, fallback, sensitive, &keys[i]));
    PN_TRY(pn_jvalue_sort(run, items.items, keys, items.n, false));
    for (size_t begin = 0, end; begin < items.n; begin = end) {
        bool equal = true;
        for (end = begin + 1; end < items.n; end++) {
            PN_TRY(pn_jvalue_equal(run, &keys[begin], &keys[end], &equal));
            if (!equal) break;
        }
        pn_jvalue grouper, group;
        PN_TRY(make_key(run, &items.items[begin], attribute, fallback, true, &grouper));
        PN_TRY(make_group(run, grouper, items.items + begin, end - begin, &group));
        PN_TRY(pn_jlist_add(run, &groups, group));
    }
    return pn_jseq_make(run, PN_J_LIST, groups.items, groups.n, out);
}

pn_status pn_jfilter_unique(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    bool sensitive = pn_jarg_truth(&args->positional[0], false);
    pn_jlist items, kept = {0};
    pn_jdict seen = {0};
    PN_TRY(pn_jvalue_collect(run, self, &items));
    for (size_t i = 0; i < items.n; i++) {
        pn_jvalue key;
        size_t before = seen.n;
        PN_TRY(make_key(run, &items.items[i], &args->positional[1], &absent, sensitive, &key));
        PN_TRY(pn_jdict_set(run, &seen, key, pn_jnone()));
        if (seen.n > before) PN_TRY(pn_jlist_add(run, &kept, items.items[i]));
    }
    return pn_jiterator_make(run, "generator", kept.items, kept.n, out);
}

/* The first of the least (order -1) or greatest (order 1) items. */
static pn_status extreme(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, int wanted,
                         pn_jvalue *out) {
    bool sensitive = pn_jarg_truth(&args->positional[0], false);
    pn_jvalue best_key;
    pn_jlist items;
    PN_TRY(pn_jvalue_collect(run, self, &items));
    *out = pn_jundefined_hint("No aggregated item, sequence was empty.");
    for (size_t i = 0; i < items.n; i++) {
        pn_jvalue key;
        int order = wanted;
        PN_TRY(make_key(run, &items.items[i], &args->positional[1], &absent, sensitive, &key));
        if (i) PN_TRY(pn_jvalue_compare(run, wanted < 0 ? "<" : ">", &key, &best_key, &order));
        if (order != wanted) continue;
        best_key = key;
        *out = items.items[i];
    }
    return PN_OK;
}

pn_status pn_jfilter_min(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return extreme(run, self, args, -1, out);
}

pn_status pn_jfilter_max(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return extreme(run, self, args, 1, out);
}

/* ---- cutting ---- */

pn_status pn_jfilter_batch(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    int64_t size;
    pn_jlist items, batches = {0};
    PN_TRY(pn_jarg_int(run, &args->positional[0], "batch()'s linecount", 0, &size));
    PN_TRY(pn_jvalue_collect(run, self, &items));
    size_t step = size > 0 ? (size_t)size : items.n + 1; /* as in Jinja2, where no batch is ever that full */
    for (size_t begin = 0; begin < items.n; begin += step) {
        size_t n = items.n - begin < step ? items.n - begin : step;
        pn_jlist batch = {0};
        for (size_t i = 0; i < n; i++)
            PN_TRY(pn_jlist_add(run, &batch, items.items[begin + i]));
        for (size_t i = n; size > 0 && i < step && pn_jarg_given(&args->positional[1]); i++)
            PN_TRY(pn_jlist_add(run, &batch, args->positional[1]));
        pn_jvalue list;
        PN_TRY(pn_jseq_make(run, PN_J_LIST, batch.items, batch.n, &list));
        PN_TRY(pn_jlist_add(run, &batches, list));
        if (step > items.n - begin) break;
    }
    return pn_jiterator_make(run, "generator", batches.items, batches.n, out);
}

/* `slices` columns; the first ones are longer by one when the items do not divide evenly. */
pn_status pn_jfilter_slice(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    int64_t slices;
    pn_jlist items, columns = {0};
    PN_TRY(pn_jarg_int(run, &args->positional[0], "slice()'s slices", 0, &slices));
    PN_TRY(pn_jvalue_collect(run, self, &items));
    if (slices == 0) return pn_jrun_fail(run, "integer division or modulo by zero");
    for (int64_t column = 0, begin = 0; column < slices; column++) {
        PN_TRY(pn_jrun_charge(run, 1));
        bool longer = column < (int64_t)items.n % slices;
        int64_t end = begin + (int64_t)items.n / slices + (longer ? 1 : 0);
        pn_jlist slice = {0};
        for (int64_t i = begin; i < end; i++)
            PN_TRY(pn_jlist_add(run, &slice, items.items[i]));
        if (!longer && pn_jarg_given(&args->positional[1]))
            PN_TRY(pn_jlist_add(run, &slice, args->positional[1]));
        pn_jvalue list;
        PN_TRY(pn_jseq_make(run, PN_J_LIST, slice.items, slice.n, &list));
        PN_TRY(pn_jlist_add(run, &columns, list));
        begin = end;
    }
    return pn_jiterator_make(run, "generator", columns.items, columns.n, out);
}

/* ---- map and select ---- */

/* args without its first n positional ones. */
static pn_jargs rest_of(const pn_jargs *args, size_t n) {
    pn_jargs rest = *args;
    rest.positional += n;
    rest.n_positional -= n;
    return rest;
}

static const pn_jvalue *keyword(const pn_jargs *args, pn_str name) {
    for (size_t i = 0; i < args->n_keywords; i++)
        if (pn_str_equal(args->names[i], name)) return &args->values[i];
    return &absent;
}

/* map('filter', …) or map(attribute=…, default=…). */
pn_status pn_jfilter_map(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    const pn_jvalue *attribute = keyword(args, PN_STR("attribute")),
                    *fallback = keyword(args, PN_STR("default"));
    bool by_attribute = args->n_positional == 0 && attribute->type != PN_J_ABSENT;
    pn_jstr name = PN_JSTR("");
    pn_jargs rest = {0};
    pn_jlist items, mapped = {0};
    if (!by_attribute && args->n_positional == 0) return pn_jrun_fail(run, "map requires a filter argument");
    if (!by_attribute) {
        PN_TRY(pn_jarg_str(run, &args->positional[0], "map()'s filter", &name));
        rest = rest_of(args, 1);
    } else if (args->n_keywords > 1 + (fallback->type != PN_J_ABSENT ? 1u : 0u)) {
        return pn_jrun_fail(run, "map() got an unexpected keyword argument");
    }
    if (!pn_jvalue_truth(self)) return pn_jiterator_make(run, "generator", NULL, 0, out);
    PN_TRY(pn_jvalue_collect(run, self, &items));
    for (size_t i = 0; i < items.n; i++) {
        pn_jvalue value;
        PN_TRY(by_attribute ? pn_jfilter_get_path(run, &items.items[i], attribute, fallback, &value)
                            : pn_jfilter_call(run, pn_jstr_bytes(name), &items.items[i], &rest, &value));
        PN_TRY(pn_jlist_add(run, &mapped, value));
    }
    return pn_jiterator_make(run, "generator", mapped.items, mapped.n, out);
}

/* Keeps the items whose test, or whose attribute's test, gives `wanted`; without a test, whose truth does. */
static pn_status select_items(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, bool by_attribute,
                              bool wanted, pn_jvalue *out) {
    size_t skip = by_attribute ? 1 : 0;
    pn_jstr test = PN_JSTR("");
    pn_jlist items, kept = {0};
    if (!pn_jvalue_truth(self)) return pn_jiterator_make(run, "generator", NULL, 0, out);
    if (args->n_positional < skip) return pn_jrun_fail(run, "Missing parameter for attribute name");
    bool has_test = args->n_positional > skip;
    if (has_test) PN_TRY(pn_jarg_str(run, &args->positional[skip], "the name of a test", &test));
    pn_jargs rest = has_test ? rest_of(args, skip + 1) : (pn_jargs){0};
    PN_TRY(pn_jvalue_collect(run, self, &items));
    for (size_t i = 0; i < items.n; i++) {
        pn_jvalue value = items.items[i];
        if (by_attribute)
            PN_TRY(pn_jfilter_get_path(run, &items.items[i], &args->positional[0], &absent, &value));
        bool holds = pn_jvalue_truth(&value);
        if (has_test) PN_TRY(pn_jtest_call(run, pn_jstr_bytes(test), &value, &rest, &holds));
        if (holds == wanted) PN_TRY(pn_jlist_add(run, &kept, items.items[i]));
    }
    return pn_jiterator_make(run, "generator", kept.items, kept.n, out);
}

pn_status pn_jfilter_select(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return select_items(run, self, args, false, true, out);
}

pn_status pn_jfilter_reject(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return select_items(run, self, args, false, false, out);
}

pn_status pn_jfilter_selectattr(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return select_items(run, self, args, true, true, out);
}

pn_status pn_jfilter_rejectattr(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    return select_items(run, self, args, true, false, out);
}
