/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of contexts by name. A session is of a tier rather than a model of one size: many short conversations
   and a few long ones share the memory, each kind within a quota of its own. */
#include "engine/engine.h"

#include <string.h>

#define SHORT_CTX 4096

static pn_status add_tier(pn_model *m, size_t i, const pn_tier *t, pn_error *err) {
    const int trained = m->info.n_ctx_train;
    if (!t->name || !*t->name) return pn_fail(err, PN_ERR_ARGUMENT, "context tier %zu has no name", i + 1);
    if (t->n_ctx < 1)
        return pn_fail(err, PN_ERR_ARGUMENT, "context tier %s has %d tokens: at least 1 is possible", t->name,
                       t->n_ctx);
    for (size_t j = 0; j < i; j++)
        if (strcmp(m->tiers[j].name, t->name) == 0)
            return pn_fail(err, PN_ERR_ARGUMENT, "there are two context tiers of the name %s", t->name);
    struct pn_tier_use *use = &m->tiers[i];
    use->name = pn_arena_copy(&m->strings, t->name, strlen(t->name));
    if (!use->name) return pn_fail_memory(err, "context tier", strlen(t->name));
    use->n_ctx = t->n_ctx < trained ? t->n_ctx : trained;
    use->quota = t->kv_bytes ? t->kv_bytes : UINT64_MAX;
    return PN_OK;
}

static pn_status add_tiers(pn_model *m, const pn_tier *tiers, size_t n, pn_error *err) {
    m->n_tiers = n;
    m->tiers = pn_arena_alloc(&m->strings, n * sizeof *m->tiers);
    if (!m->tiers) return pn_fail_memory(err, "context tiers", n * sizeof *m->tiers);
    for (size_t i = 0; i < n; i++)
        PN_TRY(add_tier(m, i, &tiers[i], err));
    return PN_OK;
}

pn_status pn_tiers_init(pn_model *m, const pn_model_options *o, pn_error *err) {
    if (o->tiers) return add_tiers(m, o->tiers, o->n_tiers, err);
    const pn_tier usual[] = {{.name = "short", .n_ctx = SHORT_CTX},
                             {.name = "long", .n_ctx = m->info.n_ctx_train}};
    return add_tiers(m, usual, sizeof usual / sizeof usual[0], err);
}

static pn_status unknown(const pn_model *m, const char *name, pn_error *err) {
    char names[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < m->n_tiers && len < sizeof names - 1; i++) {
        const int n = snprintf(names + len, sizeof names - len, "%s%s", i ? ", " : "", m->tiers[i].name);
        len += n > 0 ? (size_t)n : 0;
    }
    return pn_fail(err, PN_ERR_ARGUMENT, "there is no context tier of the name %s, only %s", name, names);
}

pn_status pn_tier_find(const pn_model *m, const char *name, struct pn_tier_use **out, pn_error *err) {
    for (size_t i = 0; i < m->n_tiers; i++)
        if (strcmp(m->tiers[i].name, name) == 0) {
            *out = &m->tiers[i];
            return PN_OK;
        }
    return unknown(m, name, err);
}

pn_status pn_tier_claim(pn_model *m, struct pn_tier_use *tier, uint64_t bytes, pn_error *err) {
    if (!tier) return PN_OK;
    pthread_mutex_lock(&m->stores_lock);
    const uint64_t free = tier->quota - tier->used;
    const bool fits = bytes <= free;
    if (fits) tier->used += bytes;
    pthread_mutex_unlock(&m->stores_lock);
    if (fits) return PN_OK;
    return pn_fail(
        err, PN_ERR_LIMIT,
        "a session of the tier %s may take %llu bytes of keys and values, but only %llu of the %llu of all "
        "its sessions are free: end another, or take another tier",
        tier->name, (unsigned long long)bytes, (unsigned long long)free, (unsigned long long)tier->quota);
}

void pn_tier_release(pn_model *m, struct pn_tier_use *tier, uint64_t bytes) {
    if (!tier) return;
    pthread_mutex_lock(&m->stores_lock);
    tier->used -= bytes;
    pthread_mutex_unlock(&m->stores_lock);
}
