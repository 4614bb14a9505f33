/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the interpreter: Python's, as far as a chat template can make them. Lists, dicts and strings
   never change after they are made (the sandbox of transformers forbids it), so they are shared freely; what
   changes has a pointer: namespaces, loops, one-shot iterators, cyclers and joiners. Integers are 64 bits
   wide; a result that does not fit is PN_ERR_LIMIT. */
#ifndef PN_TEMPLATE_JINJA_VALUE_H
#define PN_TEMPLATE_JINJA_VALUE_H

#include "template/jinja_str.h"

typedef enum pn_jtype {
    PN_J_ABSENT = 0, /* an argument that was not given; no expression has it as its value */
    PN_J_UNDEFINED,
    PN_J_NONE,
    PN_J_BOOL,
    PN_J_INT,
    PN_J_FLOAT,
    PN_J_STRING,
    PN_J_LIST,
    PN_J_TUPLE,
    PN_J_DICT,
    PN_J_VIEW, /* dict.keys(), .values(), .items() */
    PN_J_RANGE,
    PN_J_ITERATOR, /* what map, select, reverse, … give: can be walked once */
    PN_J_NAMESPACE,
    PN_J_LOOP,
    PN_J_MACRO,
    PN_J_FUNCTION,
    PN_J_METHOD,
    PN_J_CYCLER,
    PN_J_JOINER
} pn_jtype;

typedef struct pn_jvalue pn_jvalue;

typedef enum pn_jseq_kind {
    PN_JSEQ_PLAIN,
    PN_JSEQ_GROUP, /* a tuple (grouper, list) of the groupby filter */
    PN_JSEQ_KEYS,
    PN_JSEQ_VALUES,
    PN_JSEQ_ITEMS
} pn_jseq_kind;

/* List, tuple or view. */
typedef struct pn_jseq {
    const pn_jvalue *items; /* [n] */
    size_t n;
    pn_jseq_kind kind;
} pn_jseq;

/* In the order of insertion. */
typedef struct pn_jdict {
    pn_jvalue *keys, *values; /* [n] of [cap] */
    size_t n, cap;
} pn_jdict;

typedef struct pn_jrange {
    int64_t start, step, n; /* start, start + step, …: n of them */
} pn_jrange;

typedef struct pn_jiterator {
    const char *python_type;
    const pn_jseq *seq;
    size_t at;
} pn_jiterator;

/* How an undefined value tells of itself when it is used. */
typedef struct pn_jundefined {
    const char
        *name; /* of the variable, attribute or element; or, without owner and with is_hint, the message */
    size_t name_len;
    const char *owner; /* Python type of the object that has no such attribute, or NULL */
    bool is_hint, is_element;
} pn_jundefined;

typedef struct pn_jnamespace {
    pn_jdict attributes;
} pn_jnamespace;

typedef struct pn_jcycler {
    const pn_jseq *items;
    size_t at;
} pn_jcycler;

typedef struct pn_jjoiner {
    pn_jstr separator;
    bool used;
} pn_jjoiner;

struct pn_jfunction; /* jinja_call.h */

typedef struct pn_jmethod {
    const struct pn_jfunction *function;
    const pn_jvalue *self;
} pn_jmethod;

struct pn_jvalue {
    pn_jtype type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        pn_jstr str;
        const pn_jseq *seq; /* LIST, TUPLE, VIEW */
        const pn_jdict *dict;
        pn_jrange range;
        pn_jiterator *iterator;
        pn_jundefined undefined;
        pn_jnamespace *ns;
        struct pn_jloop *loop;         /* jinja_exec.h */
        const struct pn_jmacro *macro; /* jinja_call.h */
        const struct pn_jfunction *function;
        pn_jmethod method;
        pn_jcycler *cycler;
        pn_jjoiner *joiner;
    } u;
};

/* ---- making ---- */

static inline pn_jvalue pn_jnone(void) {
    return (pn_jvalue){.type = PN_J_NONE};
}
static inline pn_jvalue pn_jbool(bool b) {
    return (pn_jvalue){.type = PN_J_BOOL, .u.boolean = b};
}
static inline pn_jvalue pn_jint(int64_t i) {
    return (pn_jvalue){.type = PN_J_INT, .u.integer = i};
}
static inline pn_jvalue pn_jfloat(double d) {
    return (pn_jvalue){.type = PN_J_FLOAT, .u.real = d};
}
static inline pn_jvalue pn_jstring(pn_jstr s) {
    return (pn_jvalue){.type = PN_J_STRING, .u.str = s};
}
/* An undefined whose use fails with `hint`, which must live as long as the rendering. */
pn_jvalue pn_jundefined_hint(const char *hint);
pn_jvalue pn_jundefined_name(pn_str name);
/* "'dict object' has no attribute 'x'". */
pn_jvalue pn_jundefined_attribute(const pn_jvalue *owner, pn_str name);

/* A list or tuple of items that the caller gives away. */
pn_status pn_jseq_make(pn_jrun *run, pn_jtype type, const pn_jvalue *items, size_t n, pn_jvalue *out);
pn_status pn_jiterator_make(pn_jrun *run, const char *python_type, const pn_jvalue *items, size_t n,
                            pn_jvalue *out);
pn_status pn_jtuple2(pn_jrun *run, pn_jvalue first, pn_jvalue second, pn_jvalue *out);

/* A list that grows. Init to {0}. */
typedef struct pn_jlist {
    pn_jvalue *items;
    size_t n, cap;
} pn_jlist;
pn_status pn_jlist_add(pn_jrun *run, pn_jlist *list, pn_jvalue value);

/* ---- dicts ---- */

/* The value under key, or NULL; *status tells of a key that cannot be compared within the bounds. */
pn_status pn_jdict_find(pn_jrun *run, const pn_jdict *dict, const pn_jvalue *key, const pn_jvalue **out);
/* The same for a string key; never fails. */
const pn_jvalue *pn_jdict_find_str(const pn_jdict *dict, pn_str key);
/* Adds or replaces. PN_ERR_TEMPLATE for a key that Python cannot hash. */
pn_status pn_jdict_set(pn_jrun *run, pn_jdict *dict, pn_jvalue key, pn_jvalue value);
pn_status pn_jdict_copy(pn_jrun *run, const pn_jdict *from, pn_jdict *to);

/* ---- asking ---- */

/* Python's name of the type: "str", "dict", "NoneType". */
const char *pn_jvalue_type_name(const pn_jvalue *v);
bool pn_jvalue_truth(const pn_jvalue *v);
/* len(v); false when Python has none for the type. */
bool pn_jvalue_length(const pn_jvalue *v, size_t *n);
bool pn_jvalue_is_iterable(const pn_jvalue *v);
bool pn_jvalue_is_callable(const pn_jvalue *v);
bool pn_jvalue_is_number(const pn_jvalue *v); /* bool, int, float */
/* bool and int as an integer. */
bool pn_jvalue_as_int(const pn_jvalue *v, int64_t *out);
/* A number as a double. */
bool pn_jvalue_as_double(const pn_jvalue *v, double *out);
bool pn_jvalue_is_hashable(const pn_jvalue *v);
/* Python's `is`, where small integers and equal strings count as the same object. */
bool pn_jvalue_same(const pn_jvalue *a, const pn_jvalue *b);

/* Fails with the message of an undefined value that was used; owner and name as Jinja2 words them. */
pn_status pn_jundefined_fail(pn_jrun *run, const pn_jvalue *v);

/* a == b. */
pn_status pn_jvalue_equal(pn_jrun *run, const pn_jvalue *a, const pn_jvalue *b, bool *out);
/* What comparing with a NaN gives: neither less, equal nor greater. */
#define PN_JORDER_NONE 2
/* -1, 0, 1 or PN_JORDER_NONE; PN_ERR_TEMPLATE, naming `op`, when Python cannot order the two. */
pn_status pn_jvalue_compare(pn_jrun *run, const char *op, const pn_jvalue *a, const pn_jvalue *b, int *out);

/* ---- walking ---- */

/* A place in anything that can be iterated. */
typedef struct pn_jcursor {
    pn_jvalue source;
    size_t at;
} pn_jcursor;

/* PN_ERR_TEMPLATE when Python cannot iterate over v. */
pn_status pn_jcursor_open(pn_jrun *run, const pn_jvalue *v, pn_jcursor *out);
/* *done instead of a value at the end. Charges a step. */
pn_status pn_jcursor_next(pn_jrun *run, pn_jcursor *cursor, pn_jvalue *out, bool *done);
/* list(v). */
pn_status pn_jvalue_collect(pn_jrun *run, const pn_jvalue *v, pn_jlist *out);

/* Stable sort of items by keys (both [n], both reordered); reverse keeps equal items in their order, as
 * Python does. */
pn_status pn_jvalue_sort(pn_jrun *run, pn_jvalue *items, pn_jvalue *keys, size_t n, bool reverse);

#endif
