/* SPDX-License-Identifier: Apache-2.0 */
/* Global functions: Jinja2's, and those that transformers adds. */
#include "template/jinja_eval.h"
#include "template/jinja_print.h"

#include <locale.h>
#include <time.h>

/* Items that Jinja2's sandbox lets a range have. */
#define MAX_RANGE 100000

/* How many items range(start, stop, step) has; more than MAX_RANGE count as MAX_RANGE + 1. */
static int64_t range_length(int64_t start, int64_t stop, int64_t step) {
    if (step == 0 || (step > 0 ? start >= stop : start <= stop)) return 0;
    uint64_t distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = (distance - 1) / size + 1;
    return n > MAX_RANGE ? MAX_RANGE + 1 : (int64_t)n;
}

static pn_status global_range(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)self;
    int64_t first, second, step;
    for (size_t i = 0; i < 3; i++)
        if (args->positional[i].type == PN_J_NONE)
            return pn_jrun_fail(run, "'NoneType' object cannot be interpreted as an integer");
    PN_TRY(pn_jarg_int(run, &args->positional[0], "range()'s argument", 0, &first));
    bool one = args->positional[1].type == PN_J_ABSENT;
    PN_TRY(pn_jarg_int(run, &args->positional[1], "range()'s stop", 0, &second));
    PN_TRY(pn_jarg_int(run, &args->positional[2], "range()'s step", 1, &step));
    if (step == 0) return pn_jrun_fail(run, "range() arg 3 must not be zero");
    int64_t start = one ? 0 : first, stop = one ? first : second, n = range_length(start, stop, step);
    if (n > MAX_RANGE)
        return pn_jrun_fail_with(run, PN_ERR_LIMIT,
                                 "Range too big. The sandbox blocks ranges larger than %d.", MAX_RANGE);
    *out = (pn_jvalue){.type = PN_J_RANGE, .u.range = {start, step, n}};
    return PN_OK;
}

/* dict(mapping or pairs, name=value, …) into *dict. */
static pn_status fill_dict(pn_jrun *run, const pn_jargs *args, pn_jdict *dict) {
    if (args->n_positional > 1)
        return pn_jrun_fail(run, "dict expected at most 1 argument, got %zu", args->n_positional);
    const pn_jvalue *from = args->n_positional ? &args->positional[0] : NULL;
    if (from && from->type == PN_J_DICT) PN_TRY(pn_jdict_copy(run, from->u.dict, dict));
    if (from && from->type != PN_J_DICT) {
        pn_jlist pairs;
        PN_TRY(pn_jvalue_collect(run, from, &pairs));
        for (size_t i = 0; i < pairs.n; i++) {
            pn_jlist pair;
            PN_TRY(pn_jvalue_collect(run, &pairs.items[i], &pair));
            if (pair.n != 2)
                return pn_jrun_fail(run, "dict() wants pairs, item %zu has %zu values", i, pair.n);
            PN_TRY(pn_jdict_set(run, dict, pair.items[0], pair.items[1]));
        }
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        pn_jvalue key = pn_jstring(pn_jstr_make(args->names[i].data, args->names[i].len, true));
        PN_TRY(pn_jdict_set(run, dict, key, args->values[i]));
    }
    return PN_OK;
}

static pn_status global_dict(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)self;
    pn_jdict *dict = pn_jrun_alloc(run, 1, sizeof *dict);
    if (!dict) return pn_jrun_failed(run);
    PN_TRY(fill_dict(run, args, dict));
    *out = (pn_jvalue){.type = PN_J_DICT, .u.dict = dict};
    return PN_OK;
}

static pn_status global_namespace(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)self;
    pn_jnamespace *ns = pn_jrun_alloc(run, 1, sizeof *ns);
    if (!ns) return pn_jrun_failed(run);
    PN_TRY(fill_dict(run, args, &ns->attributes));
    for (size_t i = 0; i < ns->attributes.n; i++) {
        const pn_jvalue *name = &ns->attributes.keys[i];
        if (name->type == PN_J_STRING && name->u.str.len && name->u.str.data[0] == '_')
            return pn_jrun_fail(run, "a namespace cannot hold a name that begins with '_'");
    }
    *out = (pn_jvalue){.type = PN_J_NAMESPACE, .u.ns = ns};
    return PN_OK;
}

static pn_status global_cycler(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)self;
    pn_jvalue items;
    if (args->n_positional == 0 || args->n_keywords)
        return pn_jrun_fail(run, "at least one item has to be provided");
    PN_TRY(pn_jseq_make(run, PN_J_LIST, args->positional, args->n_positional, &items));
    pn_jcycler *cycler = pn_jrun_alloc(run, 1, sizeof *cycler);
    if (!cycler) return pn_jrun_failed(run);
    cycler->items = items.u.seq;
    *out = (pn_jvalue){.type = PN_J_CYCLER, .u.cycler = cycler};
    return PN_OK;
}

static pn_status global_joiner(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out) {
    (void)self;
    pn_jjoiner *joiner = pn_jrun_alloc(run, 1, sizeof *joiner);
    if (!joiner) return pn_jrun_failed(run);
    joiner->separator = PN_JSTR(", ");
    if (args->positional[0].type != PN_J_ABSENT)
        PN_TRY(pn_jvalue_str(run, &args->positional[0], &joiner->separator));
    *out = (pn_jvalue){.type = PN_J_JOINER, .u.joiner = joiner};
    return PN_OK;
}

/* ---- of transformers ---- */

/* The message stands first and alone up to its end, so that it can be shown to whoever sent the messages. */
static pn_status global_raise_exception(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                        pn_jvalue *out) {
    (void)self;
    (void)out;
    pn_jstr message;
    PN_TRY(pn_jvalue_str(run, &args->positional[0], &message));
    run->status = pn_fail_at(run->err, PN_ERR_TEMPLATE, run->at, "%.*s (line %zu of the chat template)",
                             message.len < 400 ? (int)message.len : 400, message.data,
                             pn_jinja_line(run->source, run->at));
    return pn_jrun_failed(run);
}

/* strftime in the C locale; out has room for cap bytes. 0 when it does not fit. */
static size_t format_time(const char *format, const struct tm *tm, char *out, size_t cap) {
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) return 0;
    size_t n = strftime_l(out, cap, format, tm, c_locale);
    freelocale(c_locale);
    return n;
}

/* What Python's datetime fills in itself: %f (microseconds, 0 here), and %z and %Z, empty without a time
   zone. A leading character keeps an empty result apart from one that does not fit. */
static pn_status prepare_format(pn_jrun *run, pn_jstr format, char **out) {
    size_t len = 0;
    char *copy = pn_jrun_alloc(run, format.len + 1, 6);
    if (!copy) return pn_jrun_failed(run);
    copy[len++] = '|';
    for (size_t i = 0; i < format.len; i++) {
        char c = format.data[i], next = i + 1 < format.len ? format.data[i + 1] : '\0';
        if (c != '%') {
            copy[len++] = c;
            continue;
        }
        if (next == 'f') memcpy(copy + len, "000000", 6);
        if (next == 'f') len += 6;
        if (next != 'f' && next != 'z' && next != 'Z') {
            copy[len++] = '%';
            copy[len++] = next ? next : '%';
        }
        i++;
    }
    copy[len] = '\0';
    *out = copy;
    return PN_OK;
}

static pn_status global_strftime_now(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args,
                                     pn_jvalue *out) {
    (void)self;
    pn_jstr format;
    char *prepared = NULL;
    struct tm tm;
    PN_TRY(pn_jarg_str(run, &args->positional[0], "strftime_now()'s format", &format));
    PN_TRY(prepare_format(run, format, &prepared));
    time_t now = run->now ? (time_t)run->now : time(NULL);
    if (!(run->now ? gmtime_r(&now, &tm) : localtime_r(&now, &tm)))
        return pn_jrun_fail(run, "the time %lld has no date", (long long)now);
    size_t cap = format.len * 16 + 256;
    char *text = pn_jrun_alloc(run, cap, 1);
    if (!text) return pn_jrun_failed(run);
    size_t n = format_time(prepared, &tm, text, cap);
    if (n == 0) return pn_jrun_fail(run, "strftime_now()'s result is too long");
    pn_jstr date = pn_jstr_make(text + 1, n - 1, true);
    date.origin |= PN_JORIGIN_OF(PN_SOURCE_CLOCK);
    *out = pn_jstring(date);
    return PN_OK;
}

static const pn_jfunction globals[] = {
    {"cycler", "*", global_cycler},
    {"dict", "*", global_dict},
    {"joiner", "sep?", global_joiner},
    {"namespace", "*", global_namespace},
    {"raise_exception", "message", global_raise_exception},
    {"range", "start stop? step?", global_range},
    {"strftime_now", "format", global_strftime_now},
};

const pn_jfunction *pn_jglobal_find(pn_str name) {
    return pn_jfunction_find(globals, sizeof globals / sizeof globals[0], name);
}
