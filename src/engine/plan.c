/* SPDX-License-Identifier: Apache-2.0 */
/* What a session takes, known before it is created, and before the weights are read: the three walls beside
   the budget, and what would fit where all does not. */
#include "engine/engine.h"

#include "kv/step_down.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_CTX   4096
#define DEFAULT_CHUNK 256
#define MAX_CHUNK     8192
#define LEAST_CTX     64 /* what a smaller budget leaves is not worth suggesting */

/* By all models and sessions of the process; changed under the lock, so that no two claims take the same
   room. Sizes that are merely asked about read it without. */
static pthread_mutex_t claim_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t claimed_bytes;

/* ---- sizes ---- */

size_t pn_logit_rows(pn_lookup_mode lookup) {
    return lookup == PN_LOOKUP_OFF ? 1 : PN_DRAFT_MAX + 1;
}

uint64_t pn_session_fixed_bytes(const pn_model *model, pn_lookup_mode lookup, size_t n_ctx) {
    size_t n_vocab = (size_t)model->decoder->n_vocab;
    return n_ctx * sizeof(int32_t) + pn_logit_rows(lookup) * n_vocab * sizeof(float) +
           pn_sampler_bytes(n_vocab) + (lookup == PN_LOOKUP_OFF ? 0 : pn_lookup_bytes(n_ctx));
}

uint64_t pn_session_kv_bytes(const pn_model *model, const pn_session_options *o) {
    const pn_kv_shape shape = pn_decoder_kv_shape(model->decoder, o->kv_type);
    uint64_t bytes = UINT64_MAX;
    pn_kv_plan_bytes(&shape, (size_t)o->n_ctx, (size_t)o->n_chunk, &bytes);
    return o->kv_bytes > 0 && o->kv_bytes < bytes ? o->kv_bytes : bytes;
}

static uint64_t scratch_bytes(const pn_model *model, const pn_session_options *o) {
    uint64_t bytes;
    if (!pn_scratch_plan(model->decoder, o->precision, (size_t)o->n_chunk, pn_pool_threads(model->pool),
                         &bytes))
        return UINT64_MAX;
    return bytes + pn_session_fixed_bytes(model, o->lookup, (size_t)o->n_ctx);
}

/* Of a session alone, without the cache that it shares; UINT64_MAX when it does not fit in 64 bits. */
static uint64_t session_bytes(const pn_model *model, const pn_session_options *o) {
    const uint64_t kv = pn_session_kv_bytes(model, o), scratch = scratch_bytes(model, o);
    uint64_t sum;
    if (kv == UINT64_MAX || scratch == UINT64_MAX || !pn_add_u64(kv, scratch, &sum)) return UINT64_MAX;
    return sum;
}

/* What such a session adds to the cache of its type and precision, which is as large as the largest asks for.
 */
static uint64_t more_cache(const pn_model *model, const pn_session_options *o) {
    const uint64_t wanted = pn_prefix_cache_bytes(model, o->kv_type, pn_session_kv_bytes(model, o)),
                   there = model->cache_bytes[o->kv_type][o->precision];
    return wanted > there ? wanted - there : 0;
}

static uint64_t model_bytes(const pn_model *model) {
    return model->info.weights_bytes + model->info.tables_bytes;
}

/* With the model, and all that has been claimed. */
static uint64_t all_bytes(const pn_model *model, const pn_session_options *o) {
    uint64_t sum = session_bytes(model, o);
    const uint64_t more[] = {more_cache(model, o), atomic_load(&claimed_bytes),
                             model->claimed_bytes > 0 ? 0 : model_bytes(model)};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        if (!pn_add_u64(sum, more[i], &sum)) return UINT64_MAX;
    return sum;
}

static bool fits(const pn_model *model, const pn_session_options *o) {
    return pn_mem_budget() == 0 || all_bytes(model, o) <= pn_mem_budget();
}

/* The longest context up to n_ctx that fits, 0 for none. */
static int longest_context(const pn_model *model, const pn_session_options *options, int n_ctx) {
    pn_session_options o = *options;
    int most = 0, beyond = n_ctx + 1;
    while (beyond - most > 1) {
        o.n_ctx = most + (beyond - most) / 2;
        o.n_chunk = options->n_chunk < o.n_ctx ? options->n_chunk : o.n_ctx;
        if (fits(model, &o))
            most = o.n_ctx;
        else
            beyond = o.n_ctx;
    }
    return most;
}

/* Where any size will do: as it is, when none that is worth it fits, so that the error says by how much. */
static int context_within_budget(const pn_model *model, const pn_session_options *o, int n_ctx) {
    if (fits(model, o)) return n_ctx;
    const int n = longest_context(model, o, n_ctx);
    return n >= LEAST_CTX ? n : n_ctx;
}

/* ---- options ---- */

pn_status pn_session_complete(const pn_model *model, const pn_session_options *given, pn_session_options *out,
                              pn_error *err) {
    pn_session_options o = given ? *given : (pn_session_options){0};
    int trained = model->info.n_ctx_train;
    if (o.tier) {
        struct pn_tier_use *tier;
        if (o.n_ctx != 0)
            return pn_fail(err, PN_ERR_ARGUMENT, "a context of %d tokens and the tier %s exclude each other",
                           o.n_ctx, o.tier);
        PN_TRY(pn_tier_find(model, o.tier, &tier, err));
        o.n_ctx = tier->n_ctx;
        o.tier = tier->name;
    }
    const bool any_ctx = o.n_ctx == 0;
    if (any_ctx) o.n_ctx = trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    const bool any_chunk = o.n_chunk == 0;
    if (any_chunk) o.n_chunk = DEFAULT_CHUNK;
    if (o.n_ctx < 1 || o.n_ctx > trained)
        return pn_fail(err, PN_ERR_ARGUMENT, "a context of %d tokens was asked for: this model takes 1 to %d",
                       o.n_ctx, trained);
    if (o.n_chunk < 1 || o.n_chunk > MAX_CHUNK)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "a prefill chunk of %d tokens was asked for: 1 to %d are possible", o.n_chunk,
                       MAX_CHUNK);
    if (o.kv_type < PN_KV_F16 || o.kv_type >= PN_KV_TYPE_COUNT)
        return pn_fail(err, PN_ERR_ARGUMENT, "KV type %d is not known", (int)o.kv_type);
    if (!pn_kv_type_fits(o.kv_type, (size_t)model->info.head_dim))
        return pn_fail(
            err, PN_ERR_UNSUPPORTED,
            "keys and values of fewer bits need heads of a size that an even number of 8 to 64 divides: "
            "this model's have %d",
            model->info.head_dim);
    if (o.precision < PN_PRECISION_HIGH || o.precision > PN_PRECISION_FAST)
        return pn_fail(err, PN_ERR_ARGUMENT, "precision %d is not known", (int)o.precision);
    if (o.lookup < PN_LOOKUP_AUTO || o.lookup > PN_LOOKUP_ON)
        return pn_fail(err, PN_ERR_ARGUMENT, "lookup mode %d is not known", (int)o.lookup);
    if (o.overflow < PN_OVERFLOW_ERROR || o.overflow > PN_OVERFLOW_SLIDE)
        return pn_fail(err, PN_ERR_ARGUMENT, "overflow %d is not known", (int)o.overflow);
    if (o.n_chunk > o.n_ctx) o.n_chunk = o.n_ctx;
    PN_TRY(pn_quota_limit(model, any_chunk, &o, err));
    if (o.n_chunk > o.n_ctx) o.n_chunk = o.n_ctx;
    if (any_ctx) o.n_ctx = context_within_budget(model, &o, o.n_ctx);
    if (o.n_chunk > o.n_ctx) o.n_chunk = o.n_ctx;
    *out = o;
    return PN_OK;
}

/* ---- what would fit ---- */

struct remedies {
    char text[300];
    size_t len;
};

static void add_remedy(struct remedies *r, const char *fmt, ...) PN_PRINTF(2, 3);
static void add_remedy(struct remedies *r, const char *fmt, ...) {
    const char *joint = r->len > 0 ? ", or " : "";
    va_list args;
    va_start(args, fmt);
    int n = snprintf(r->text + r->len, sizeof r->text - r->len, "%s", joint);
    r->len += n > 0 ? (size_t)n : 0;
    if (r->len < sizeof r->text) {
        n = vsnprintf(r->text + r->len, sizeof r->text - r->len, fmt, args);
        r->len += n > 0 ? (size_t)n : 0;
    }
    if (r->len >= sizeof r->text) r->len = sizeof r->text - 1;
    va_end(args);
}

static void try_types(struct remedies *r, const pn_model *model, const pn_session_options *options) {
    static const struct {
        pn_kv_type type;
        const char *name;
    } types[] = {{PN_KV_Q8, "q8"}, {PN_KV_K8V4, "k8v4"}, {PN_KV_Q4, "q4"}};
    pn_session_options o = *options;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        o.kv_type = types[i].type;
        if (!pn_kv_type_fits(o.kv_type, (size_t)model->info.head_dim) || !fits(model, &o)) continue;
        add_remedy(r, "keys and values of type %s", types[i].name);
        return;
    }
}

/* The session stays as it is. */
static void try_compression(struct remedies *r, const pn_model *model, const pn_session_options *o) {
    const uint64_t rest = all_bytes(model, o) - model->info.weights_bytes;
    for (int bits = 8; bits >= 4; bits -= 4) {
        const uint64_t bytes = pn_plan_compressed_bytes(pn_weights_file(model->decoder->weights), bits);
        if (bytes >= model->info.weights_bytes || rest > pn_mem_budget() || bytes > pn_mem_budget() - rest)
            continue;
        add_remedy(r, "weights compressed to INT%d (postern compress), some %.0f MiB", bits,
                   (double)bytes / (1 << 20));
        return;
    }
}

static void find_remedies(struct remedies *r, const pn_model *model, const pn_session_options *o) {
    const int n = longest_context(model, o, o->n_ctx);
    if (n >= LEAST_CTX) add_remedy(r, "a context of %d tokens", n);
    try_types(r, model, o);
    try_compression(r, model, o);
    if (r->len == 0) add_remedy(r, "a smaller model, or a budget of that size");
}

static pn_status check(const pn_model *model, const pn_session_options *o, pn_error *err) {
    struct remedies r = {.len = 0};
    if (fits(model, o)) return PN_OK;
    find_remedies(&r, model, o);
    return pn_fail(
        err, PN_ERR_MEMORY,
        "weights, %d tokens of context and working memory take %.1f MiB, the memory budget is %.1f MiB; "
        "what would do: %s",
        o->n_ctx, (double)all_bytes(model, o) / (1 << 20), (double)pn_mem_budget() / (1 << 20), r.text);
}

/* ---- claims ---- */

/* Under the lock. */
static void claim(pn_model *model, uint64_t bytes) {
    model->claimed_bytes += bytes;
    atomic_fetch_add(&claimed_bytes, bytes);
}

static void unclaim(pn_model *model, uint64_t bytes) {
    model->claimed_bytes -= bytes;
    atomic_fetch_sub(&claimed_bytes, bytes);
}

pn_status pn_plan_claim_model(pn_model *model, const pn_session_options *options, pn_error *err) {
    pn_session_options o;
    pthread_mutex_lock(&claim_lock);
    pn_status status = pn_session_complete(model, options, &o, err);
    if (status == PN_OK) status = check(model, &o, err);
    if (status == PN_OK) claim(model, model_bytes(model));
    pthread_mutex_unlock(&claim_lock);
    return status;
}

void pn_plan_release_model(pn_model *model) {
    pthread_mutex_lock(&claim_lock);
    unclaim(model, model->claimed_bytes);
    pthread_mutex_unlock(&claim_lock);
}

pn_status pn_plan_claim(pn_session *s, const pn_session_options *o, pn_error *err) {
    pn_model *model = s->model;
    pthread_mutex_lock(&claim_lock);
    unclaim(model, s->claimed_bytes);
    const pn_status status = check(model, o, err);
    if (status == PN_OK) {
        const uint64_t cache = more_cache(model, o);
        s->claimed_bytes = session_bytes(model, o);
        model->cache_bytes[o->kv_type][o->precision] += cache;
        claim(model, cache);
    }
    claim(model, s->claimed_bytes);
    pthread_mutex_unlock(&claim_lock);
    return status;
}

void pn_plan_release(pn_session *s) {
    pthread_mutex_lock(&claim_lock);
    unclaim(s->model, s->claimed_bytes);
    pthread_mutex_unlock(&claim_lock);
    s->claimed_bytes = 0;
}

pn_status pn_plan_claim_pin(pn_model *model, uint64_t bytes, pn_error *err) {
    pn_status status = PN_OK;
    pthread_mutex_lock(&claim_lock);
    const uint64_t claimed = atomic_load(&claimed_bytes), budget = pn_mem_budget();
    if (budget > 0 && (claimed > budget || bytes > budget - claimed))
        status =
            pn_fail(err, PN_ERR_MEMORY,
                    "pinning the text takes %.1f MiB, and of the memory budget of %.1f MiB %.1f are planned "
                    "for: ask for a shorter context, or pin nothing",
                    (double)bytes / (1 << 20), (double)budget / (1 << 20), (double)claimed / (1 << 20));
    else
        claim(model, bytes);
    pthread_mutex_unlock(&claim_lock);
    return status;
}

pn_status pn_session_plan(const pn_model *model, const pn_session_options *options, pn_plan *out,
                          pn_error *err) {
    pn_session_options o;
    PN_TRY(pn_session_complete(model, options, &o, err));
    const uint64_t kv = pn_session_kv_bytes(model, &o);
    if (session_bytes(model, &o) == UINT64_MAX)
        return pn_fail(err, PN_ERR_LIMIT, "a context of %d tokens does not fit in 64 bits", o.n_ctx);
    const pn_kv_shape shape = pn_decoder_kv_shape(model->decoder, o.kv_type);
    *out = (pn_plan){.n_ctx = o.n_ctx,
                     .weights_bytes = model->info.weights_bytes,
                     .tables_bytes = model->info.tables_bytes,
                     .kv_bytes = kv,
                     .prefix_cache_bytes = pn_prefix_cache_bytes(model, o.kv_type, kv),
                     .scratch_bytes = scratch_bytes(model, &o),
                     .total_bytes = all_bytes(model, &o),
                     .budget_bytes = pn_mem_budget(),
                     .kv_token_bytes = pn_kv_token_bytes(&shape)};
    return PN_OK;
}
