/* SPDX-License-Identifier: Apache-2.0 */
/* One timeline. Invariants between calls: tokens[0 .. kv.n_tokens) are the timeline and the cache holds the
   keys and values of just these; logits_valid means that logits are those after the last of them. The last
   pass computed the tokens from pass_first on, of which some may have been taken back. */
#include "engine/engine.h"

#include <string.h>

/* Makes the session one of the tier of the options. */
static pn_status enter_tier(pn_session *s, const pn_session_options *o, pn_error *err) {
    struct pn_tier_use *tier = NULL;
    if (o->tier) PN_TRY(pn_tier_find(s->model, o->tier, &tier, err));
    const uint64_t bytes = pn_session_kv_bytes(s->model, o);
    PN_TRY(pn_tier_claim(s->model, tier, bytes, err));
    s->tier = tier;
    s->tier_bytes = bytes;
    return PN_OK;
}

static pn_status allocate(pn_session *s, const pn_session_options *o, pn_error *err) {
    const pn_decoder *d = s->model->decoder;
    pn_kv_store *store = NULL;
    PN_TRY(pn_plan_claim(s, o, err));
    PN_TRY(enter_tier(s, o, err));
    PN_TRY(pn_model_kv_store(s->model, o, &store, err));
    PN_TRY(pn_kv_init(&s->kv, store, s->n_ctx, (size_t)o->n_chunk, err));
    PN_TRY(pn_scratch_init(&s->scratch, d, o->precision, (size_t)o->n_chunk, pn_pool_threads(s->model->pool),
                           err));
    s->tokens = pn_alloc(PN_MEM_SCRATCH, s->n_ctx, sizeof *s->tokens);
    s->logits = pn_alloc(PN_MEM_SCRATCH, pn_logit_rows(o->lookup) * (size_t)d->n_vocab, sizeof *s->logits);
    if (!s->tokens || !s->logits)
        return pn_fail_memory(err, "session", pn_session_fixed_bytes(s->model, s->options.lookup, s->n_ctx));
    if (o->lookup != PN_LOOKUP_OFF) PN_TRY(pn_lookup_create(s->n_ctx, &s->lookup, err));
    return pn_sampler_create(s->model->kernels, (size_t)d->n_vocab, &s->sampler, err);
}

pn_status pn_session_create(pn_model *model, const pn_session_options *options, pn_session **out,
                            pn_error *err) {
    pn_session_options o;
    PN_TRY(pn_session_complete(model, options, &o, err));
    pn_session *s = pn_alloc(PN_MEM_OTHER, 1, sizeof *s);
    if (!s) return pn_fail_memory(err, "session", sizeof *s);
    s->model = pn_model_share(model);
    s->n_ctx = (size_t)o.n_ctx;
    s->options = o;
    s->pass_first = SIZE_MAX;
    atomic_init(&s->cancelled, false);
    pn_status status = allocate(s, &o, err);
    if (status != PN_OK) {
        pn_session_free(s);
        return status;
    }
    pn_spill_check_baked(s);
    *out = s;
    return PN_OK;
}

void pn_session_free(pn_session *s) {
    if (!s) return;
    pn_session_profile(s, false);
    if (s->tokens) {
        pn_kv_publish(&s->kv, s->tokens);
        pn_spill_save(s);
    }
    pn_sampler_free(s->sampler);
    pn_lookup_free(s->lookup);
    pn_free(s->logits);
    pn_free(s->tokens);
    pn_scratch_done(&s->scratch);
    pn_kv_done(&s->kv);
    pn_tier_release(s->model, s->tier, s->tier_bytes);
    pn_plan_release(s);
    pn_model_close(s->model);
    pn_free(s);
}

/* ---- another size, another owner ---- */

static pn_status resize_lookup(const pn_session *s, size_t n_ctx, pn_lookup **out, pn_error *err) {
    *out = NULL;
    return s->lookup ? pn_lookup_create(n_ctx, out, err) : PN_OK;
}

/* The cache comes last: what went before is given back when it fails. */
static pn_status resize_to(pn_session *s, const pn_session_options *o, pn_error *err) {
    const size_t n_ctx = (size_t)o->n_ctx;
    pn_kv_store *store;
    pn_lookup *lookup;
    PN_TRY(pn_model_kv_store(s->model, o, &store, err));
    PN_TRY(resize_lookup(s, n_ctx, &lookup, err));
    int32_t *tokens = pn_alloc(PN_MEM_SCRATCH, n_ctx, sizeof *tokens);
    pn_status status = tokens ? PN_OK : pn_fail_memory(err, "session", n_ctx * sizeof *tokens);
    if (status == PN_OK) status = pn_kv_resize(&s->kv, n_ctx, s->scratch.n_chunk, err);
    if (status != PN_OK) {
        pn_free(tokens);
        pn_lookup_free(lookup);
        return status;
    }
    memcpy(tokens, s->tokens, s->kv.n_tokens * sizeof *tokens);
    pn_free(s->tokens);
    pn_lookup_free(s->lookup);
    s->tokens = tokens;
    s->lookup = lookup;
    s->n_ctx = n_ctx;
    s->options.n_ctx = o->n_ctx;
    s->options.tier = o->tier;
    return PN_OK;
}

static pn_status change_size(pn_session *s, int n_ctx, const char *tier, pn_error *err) {
    pn_session_options o = s->options;
    o.n_ctx = n_ctx;
    o.tier = tier;
    PN_TRY(pn_session_complete(s->model, &o, &o, err));
    if ((size_t)o.n_ctx < s->kv.n_tokens)
        return pn_fail(
            err, PN_ERR_LIMIT,
            "a context of %d tokens was asked for a session that holds %zu: drop some of them first", o.n_ctx,
            s->kv.n_tokens);
    struct pn_tier_use *old = s->tier;
    const uint64_t old_bytes = s->tier_bytes;
    const pn_session_options before = s->options;
    PN_TRY(pn_plan_claim(s, &o, err));
    pn_status status = enter_tier(s, &o, err);
    if (status != PN_OK) {
        pn_plan_claim(s, &before, NULL); /* it was so before, and fits */
        return status;
    }
    status = resize_to(s, &o, err);
    if (status == PN_OK) {
        pn_tier_release(s->model, old, old_bytes);
    } else {
        pn_plan_claim(s, &before, NULL);
        pn_tier_release(s->model, s->tier, s->tier_bytes);
        s->tier = old;
        s->tier_bytes = old_bytes;
    }
    return status;
}

pn_status pn_session_resize(pn_session *s, int n_ctx, pn_error *err) {
    return change_size(s, n_ctx, NULL, err);
}

pn_status pn_session_set_tier(pn_session *s, const char *tier, pn_error *err) {
    if (!tier) return pn_fail(err, PN_ERR_ARGUMENT, "pn_session_set_tier needs the name of a tier");
    return change_size(s, 0, tier, err);
}

pn_status pn_session_fork(pn_session *s, pn_session **out, pn_error *err) {
    pn_session *fork;
    pn_session_options o = s->options;
    if (o.tier) o.n_ctx = 0; /* the tier says it */
    PN_TRY(pn_session_create(s->model, &o, &fork, err));
    pn_kv_publish(&s->kv, s->tokens);
    const pn_status status = pn_session_sync(fork, s->tokens, s->kv.n_tokens, NULL, NULL, err);
    if (status != PN_OK) {
        pn_session_free(fork);
        return status;
    }
    *out = fork;
    return PN_OK;
}

void pn_session_get_stats(const pn_session *s, pn_session_stats *out) {
    uint64_t scratch = 0;
    pn_scratch_plan(s->model->decoder, s->options.precision, s->scratch.n_chunk,
                    pn_pool_threads(s->model->pool), &scratch);
    const size_t n_lost = s->n_known > s->n_reused ? s->n_known - s->n_reused : 0;
    const size_t n_recomputed = n_lost < s->n_prefilled ? n_lost : s->n_prefilled;
    uint64_t cached, n_evicted;
    pn_kv_store_get_cache(s->kv.store, &cached, &n_evicted);
    *out = (pn_session_stats){
        .n_ctx = (int)s->n_ctx,
        .tier = s->tier ? s->tier->name : NULL,
        .n_tokens = s->kv.n_tokens,
        .n_reused = s->n_reused,
        .n_shared = s->n_shared,
        .n_restored = s->n_restored,
        .n_prefilled = s->n_prefilled,
        .prefill_seconds = s->prefill_seconds,
        .cache_cause = s->cause,
        .n_recomputed = n_recomputed,
        .recomputed_seconds =
            s->n_prefilled > 0 ? s->prefill_seconds * (double)n_recomputed / (double)s->n_prefilled : 0,
        .kv_bytes = pn_kv_bytes(&s->kv),
        .kv_type = s->kv.type,
        .n_step_downs = s->n_step_downs,
        .n_stepped = s->n_stepped,
        .prefix_cache_bytes = cached,
        .pinned_bytes = s->model->pinned_bytes,
        .n_evicted = n_evicted,
        .n_baked = s->model->disk
                       ? pn_disk_baked(s->model->disk, s->options.kv_type, s->options.precision, NULL)
                       : 0,
        .scratch_bytes = scratch + pn_session_fixed_bytes(s->model, s->options.lookup, s->n_ctx)};
}

static pn_forward forward_of(pn_session *s) {
    return (pn_forward){.decoder = s->model->decoder,
                        .kernels = s->model->kernels,
                        .pool = s->model->pool,
                        .threads = s->model->threads,
                        .scratch = &s->scratch,
                        .kv = &s->kv,
                        .profile = s->profiling ? &s->profile : NULL,
                        .cancel = &s->cancelled};
}

const float *pn_session_logits(pn_session *s) {
    if (!s->logits_valid) return NULL;
    float *row = s->logits + s->logits_row * (size_t)s->model->decoder->n_vocab;
    if (s->logits_partial) {
        pn_forward f = forward_of(s);
        pn_decoder_complete(&f, row);
        s->logits_partial = false;
    }
    return row;
}

pn_status pn_session_logits_at(pn_session *s, size_t first, size_t n, float *logits, pn_error *err) {
    if (n == 0) return PN_OK;
    if (first < s->pass_first || first >= s->kv.n_tokens || n > s->kv.n_tokens - first)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "logits after %zu tokens from %zu on were asked for: only the last chunk has them, "
                       "which is tokens %zu to %zu of the timeline",
                       n, first, s->pass_first < s->kv.n_tokens ? s->pass_first : s->kv.n_tokens,
                       s->kv.n_tokens);
    pn_session_logits(s); /* completes them while the head's input is there */
    pn_forward f = forward_of(s);
    pn_decoder_logits(&f, first - s->pass_first, n, logits);
    return PN_OK;
}

void pn_session_cancel(pn_session *s) {
    atomic_store(&s->cancelled, true);
}

bool pn_session_take_cancel(pn_session *s) {
    return atomic_exchange(&s->cancelled, false);
}

void pn_session_set_takeover(pn_session *s, bool on) {
    s->keeps_to_itself = !on;
}

void pn_session_set_overflow(pn_session *s, pn_overflow overflow) {
    s->options.overflow = overflow;
}

/* Computes the n tokens that stand at tokens[kv.n_tokens ..), and the logits after the last n_logits of them,
   of one only those in `top`; their room is reserved. */
static pn_status forward(pn_session *s, size_t n, size_t n_logits, pn_top top, pn_error *err) {
    pn_forward f = forward_of(s);
    pn_logits wanted = {.logits = s->logits, .n = n_logits, .top = top};
    s->logits_valid = false;
    s->pass_first = s->kv.n_tokens;
    if (!pn_decoder_forward(&f, s->tokens + s->kv.n_tokens, n, &wanted)) {
        s->pass_first = SIZE_MAX;
        pn_session_take_cancel(s);
        return pn_fail(err, PN_ERR_CANCELLED, "cancelled after %zu tokens", s->kv.n_tokens);
    }
    s->logits_valid = n_logits > 0;
    s->logits_partial = wanted.partial;
    s->logits_row = n_logits > 0 ? n_logits - 1 : 0;
    return PN_OK;
}

void pn_session_profile(pn_session *s, bool on) {
    if (s->profiling) pn_profile_end(&s->profile);
    s->profiling = on;
    if (on) pn_profile_begin(&s->profile, s->model->pool);
}

const pn_operation *pn_session_operations(const pn_session *s, size_t *n) {
    *n = s->profiling ? PN_OP_COUNT : 0;
    return s->profiling ? s->profile.ops : NULL;
}

static pn_status check_tokens(const pn_session *s, const int32_t *tokens, size_t n, pn_error *err) {
    if (n > s->n_ctx)
        return pn_fail(
            err, PN_ERR_LIMIT,
            "%zu tokens do not fit the context of %zu: shorten the text or ask for a larger context", n,
            s->n_ctx);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s->model->decoder->n_vocab)
            return pn_fail(err, PN_ERR_ARGUMENT, "token %d at %zu is outside the vocabulary of %d",
                           (int)tokens[i], i, s->model->decoder->n_vocab);
    return PN_OK;
}

static size_t common_prefix(const pn_session *s, const int32_t *tokens, size_t n) {
    size_t i = 0;
    while (i < n && i < s->kv.n_tokens && s->tokens[i] == tokens[i])
        i++;
    return i;
}

/* Room for n more tokens. Those before them are there to stay, so that others may have them too. */
static pn_status grow(pn_session *s, size_t n, pn_error *err) {
    pn_kv_publish(&s->kv, s->tokens);
    pn_quota_keep(s, s->kv.n_tokens + n);
    return pn_kv_reserve(&s->kv, s->kv.n_tokens + n, err);
}

/* Keeps, or takes over, as much of the tokens as there is. */
static void resume(pn_session *s, const int32_t *tokens, size_t n) {
    const size_t had = s->kv.n_tokens;
    size_t own = common_prefix(s, tokens, n);
    s->n_reused = own;
    s->n_shared = s->n_restored = 0;
    s->cause = PN_CACHE_REUSED;
    s->n_known = own;
    if (own == n && own == had && (s->logits_valid || n == 0)) return;
    /* The logits after the last token are kept only for the timeline as it stands: otherwise that token is
       computed again. */
    size_t most = n > 0 ? n - 1 : 0;
    const size_t common = own;
    if (own > most) own = most;
    if (s->keeps_to_itself) most = own;
    pn_kv_publish(&s->kv, s->tokens);
    if (own / PN_KV_BLOCK < s->kv.n_path) pn_spill_save(s);
    s->n_reused = pn_spill_resume(s, tokens, most, pn_kv_resume(&s->kv, tokens, most, own));
    s->cause = pn_explain_miss(s, tokens, n, had, common, s->n_reused, &s->n_known);
    s->cut_at = 0;
    s->pass_first = SIZE_MAX;
    if (s->n_reused > own) s->n_shared = s->n_reused - own;
    if (s->n_reused > 0) memcpy(s->tokens, tokens, s->n_reused * sizeof *tokens);
    if (s->n_reused != had || own != had) s->logits_valid = false;
}

static pn_status prefill(pn_session *s, const int32_t *tokens, size_t n, pn_progress_fn progress, void *user,
                         pn_error *err) {
    size_t first = s->kv.n_tokens;
    while (s->kv.n_tokens < n) {
        size_t chunk = n - s->kv.n_tokens;
        if (chunk > s->scratch.n_chunk) chunk = s->scratch.n_chunk;
        PN_TRY(grow(s, chunk, err));
        memcpy(s->tokens + s->kv.n_tokens, tokens + s->kv.n_tokens, chunk * sizeof *tokens);
        PN_TRY(forward(s, chunk, s->kv.n_tokens + chunk == n, (pn_top){0}, err));
        if (progress) progress(user, s->kv.n_tokens - first, n - first);
    }
    return PN_OK;
}

pn_status pn_session_sync(pn_session *s, const int32_t *tokens, size_t n, pn_progress_fn progress, void *user,
                          pn_error *err) {
    PN_TRY(check_tokens(s, tokens, n, err));
    double start = pn_clock_seconds();
    resume(s, tokens, n);
    pn_status status = prefill(s, tokens, n, progress, user, err);
    /* One that came too late to cut anything short, or that found nothing to compute, must not stop the next
       call. */
    if (status == PN_OK && pn_session_take_cancel(s))
        status = pn_fail(err, PN_ERR_CANCELLED, "cancelled after %zu tokens", s->kv.n_tokens);
    if (status != PN_OK) pn_kv_truncate(&s->kv, s->kv.n_tokens); /* gives back what was reserved in vain */
    s->n_prefilled = s->kv.n_tokens - s->n_reused;
    s->prefill_seconds = pn_clock_seconds() - start;
    return status;
}

pn_status pn_session_extend(pn_session *s, const int32_t *tokens, size_t n, pn_top top, pn_error *err) {
    PN_TRY(grow(s, n, err));
    memcpy(s->tokens + s->kv.n_tokens, tokens, n * sizeof *tokens);
    return forward(s, n, n, top, err);
}

void pn_session_take_back(pn_session *s, size_t n) {
    if (n > 0) pn_kv_truncate(&s->kv, s->kv.n_tokens - n);
    s->logits_row -= n;
}
