/* SPDX-License-Identifier: Apache-2.0 */
/* Prompt lookup: the tokens that followed an earlier occurrence of the last three are a guess at what comes
   next (Saxena, "Prompt Lookup Decoding", 2023). Decode reads every weight once whether it computes one token
   or four, so checking a good guess is cheaper than computing its tokens one by one. Every token is still
   sampled from its own logits, in order and by the same generator, and logits do not depend on how many
   tokens were computed together: the text is the same with and without. */
#include "engine/engine.h"

#include <string.h>

#define KEY_LEN 3
/* Attempts before the measured gain counts, and how often one is made anyway when it does not pay. */
#define EXPLORE 8
#define RETRY   32

struct pn_lookup {
    uint32_t mask;
    int32_t *ends;    /* [mask + 1] one past the last key with this hash; 0: none */
    size_t n_indexed; /* keys that end at or before tokens[n_indexed - 1] are in */
    unsigned n_match, n_tried;
    double cost[PN_DRAFT_MAX + 2]; /* running mean seconds of computing that many tokens; 0: not yet known */
    double gain;                   /* running mean of tokens accepted per attempt */
};

static size_t table_len(size_t n_ctx) {
    size_t len = 256;
    while (len < n_ctx)
        len *= 2;
    return len;
}

uint64_t pn_lookup_bytes(size_t n_ctx) {
    return sizeof(pn_lookup) + table_len(n_ctx) * sizeof(int32_t);
}

pn_status pn_lookup_create(size_t n_ctx, pn_lookup **out, pn_error *err) {
    pn_lookup *l = pn_alloc(PN_MEM_SCRATCH, 1, sizeof *l);
    if (!l) return pn_fail_memory(err, "lookup", sizeof *l);
    l->mask = (uint32_t)table_len(n_ctx) - 1;
    l->ends = pn_alloc(PN_MEM_SCRATCH, table_len(n_ctx), sizeof *l->ends);
    if (!l->ends) {
        pn_free(l);
        return pn_fail_memory(err, "lookup", pn_lookup_bytes(n_ctx));
    }
    *out = l;
    return PN_OK;
}

void pn_lookup_free(pn_lookup *l) {
    if (!l) return;
    pn_free(l->ends);
    pn_free(l);
}

/* Multiplicative hashing of three ids (Knuth, TAOCP 6.4). */
static int32_t *slot_of(const pn_lookup *l, const int32_t *key) {
    uint64_t h = 0;
    for (size_t i = 0; i < KEY_LEN; i++)
        h = (h ^ (uint32_t)key[i]) * 0x9e3779b97f4a7c15u;
    return &l->ends[(h >> 32) & l->mask];
}

/* What stands in the table may be of tokens that are no longer there, so that a find is always compared. */
static size_t find(const pn_lookup *l, const int32_t *tokens, size_t n) {
    const int32_t *key = tokens + n - KEY_LEN;
    size_t end = (size_t)*slot_of(l, key);
    return end >= KEY_LEN && end < n && memcmp(tokens + end - KEY_LEN, key, KEY_LEN * sizeof *key) == 0 ? end
                                                                                                        : 0;
}

static bool pays(pn_lookup *l, size_t n_draft) {
    l->n_match++;
    if (l->n_tried < EXPLORE || l->cost[1] == 0 || l->cost[n_draft + 1] == 0) return true;
    return (1 + l->gain) * l->cost[1] > l->cost[n_draft + 1] || l->n_match % RETRY == 0;
}

/* Enters the keys that end after more than n_indexed tokens, up to n of them. */
static void enter(pn_lookup *l, const int32_t *tokens, size_t n) {
    for (size_t i = l->n_indexed < KEY_LEN ? KEY_LEN : l->n_indexed + 1; i <= n; i++)
        *slot_of(l, tokens + i - KEY_LEN) = (int32_t)i;
    l->n_indexed = n;
}

size_t pn_lookup_draft(pn_lookup *l, bool always, const int32_t *tokens, size_t n, size_t max,
                       int32_t *draft) {
    if (n < KEY_LEN) return 0;
    if (l->n_indexed >= n) l->n_indexed = n - 1; /* the timeline was cut back */
    enter(l, tokens, n - 1);
    size_t end = find(l, tokens, n), n_draft = 0;
    enter(l, tokens, n); /* only now: it would find itself */
    if (end == 0) return 0;
    for (; n_draft < max && end + n_draft < n; n_draft++)
        draft[n_draft] = tokens[end + n_draft];
    return n_draft > 0 && (always || pays(l, n_draft)) ? n_draft : 0;
}

static void blend(double *mean, double value) {
    *mean = *mean == 0 ? value : *mean + (value - *mean) / 8;
}

void pn_lookup_learn(pn_lookup *l, size_t n_computed, size_t n_accepted, double seconds) {
    blend(&l->cost[n_computed], seconds);
    if (n_computed == 1) return;
    l->gain += ((double)n_accepted - l->gain) / (l->n_tried < 8 ? l->n_tried + 1 : 8);
    l->n_tried++;
}

double pn_lookup_break_even(const pn_lookup *l) {
    double most = l->cost[PN_DRAFT_MAX + 1];
    return l->cost[1] > 0 && most > 0 ? most / l->cost[1] - 1 : 0;
}
