/* SPDX-License-Identifier: Apache-2.0 */
/* The keys and values of one timeline: blocks of PN_KV_BLOCK positions out of a store that timelines share.

   Invariants between calls
   1. Position p lives in block p / PN_KV_BLOCK, slot p % PN_KV_BLOCK, of the lane of each layer.
   2. The full lane has all blocks up to n_tokens; the windowed lane has those that a next token sees, and one
   before them, so that as many tokens can be taken back without computing anything again.
   3. Blocks that are full are kept; the last, partly filled one is fresh and written by this timeline alone.
   The last full one may be fresh as well.

   What a query reads depends on positions alone: its own block as it is fresh, all others as they are kept.
   So the bits are the same however the tokens before it were computed: one by one or in chunks, by this
   timeline or by another. */
#ifndef PN_KV_KV_H
#define PN_KV_KV_H

#include "kv/store.h"

typedef struct pn_kv_entry {
    pn_kv_block *fresh, *kept; /* NULL where there is none */
} pn_kv_entry;

typedef struct pn_kv {
    pn_kv_store *store;
    pn_kv_type type; /* of full blocks to come: the store's, or one of fewer bits (step_down.h) */
    pn_kv_need need;
    size_t cap_blocks;
    pn_kv_entry *entries[PN_KV_LANES]; /* [cap_blocks] */
    size_t first[PN_KV_LANES];         /* no block of the lane is there before this one */
    pn_prefix_node **path;             /* [cap_blocks] the first n_path: the tree's nodes of these tokens */
    pn_prefix_node **found;            /* [cap_blocks] scratch of pn_kv_resume */
    size_t n_path;
    size_t n_tokens; /* positions that hold keys and values */
    void *memory;    /* behind the arrays */
} pn_kv;

/* Bytes held by a timeline of max_tokens, all of them used, when at most n_chunk are computed at a time;
   false when they do not fit in 64 bits. */
bool pn_kv_plan_bytes(const pn_kv_shape *shape, size_t max_tokens, size_t n_chunk, uint64_t *out);
/* Bytes of one position of all layers, once it is kept: what a token costs as long as it is in every window.
 */
uint64_t pn_kv_token_bytes(const pn_kv_shape *shape);

/* An empty timeline for at most max_tokens; shares the store. */
pn_status pn_kv_init(pn_kv *kv, pn_kv_store *store, size_t max_tokens, size_t n_chunk, pn_error *err);
void pn_kv_done(pn_kv *kv);

/* For at most max_tokens from now on, which are no fewer than there are. PN_ERR_MEMORY leaves all as it was.
 */
pn_status pn_kv_resize(pn_kv *kv, size_t max_tokens, size_t n_chunk, pn_error *err);

/* Makes room for computing positions n_tokens .. n, which are at most n_chunk; on PN_ERR_MEMORY all is as
   before. */
pn_status pn_kv_reserve(pn_kv *kv, size_t n, pn_error *err);
/* The next n positions are written, in all layers. */
void pn_kv_commit(pn_kv *kv, size_t n);
/* Enters full blocks into the tree of prefixes, for other timelines and times: `tokens` are those of the
   timeline. Without memory it does nothing. */
void pn_kv_publish(pn_kv *kv, const int32_t *tokens);

/* Leaves the tree: what this timeline holds will no longer be what others would have. */
void pn_kv_unpublish(pn_kv *kv);

/* Makes the timeline a beginning of tokens [n], of which the first n_own are this timeline's own: the longest
   for which its blocks and those of the tree hold all that the next token sees. Returns its length. */
size_t pn_kv_resume(pn_kv *kv, const int32_t *tokens, size_t n, size_t n_own);
/* Forgets positions from n on, and as many before them as it takes (invariants 2 and 3): none when no more
   than PN_KV_BLOCK of those computed last are forgotten. Returns what is left. */
size_t pn_kv_truncate(pn_kv *kv, size_t n);

/* Runs of keys and of values of one layer and head in a block, as the queries of another block, or the same,
   see them. */
typedef struct pn_kv_runs {
    const void *keys, *values;
    pn_kv_type key_type, value_type;
} pn_kv_runs;
pn_kv_runs pn_kv_runs_of(const pn_kv *kv, int layer, int head, size_t block, size_t query_block);

/* Stores k and v [head_dim] of one head and reserved position. Different heads and positions may be written
   by different threads. */
void pn_kv_write(pn_kv *kv, const pn_kernels *kernels, int layer, int head, size_t position, const float *k,
                 const float *v);
/* Asks memory for what that will write. A key is spread over as many lines as it has elements, each of which
   would be waited for alone. */
void pn_kv_expect_write(const pn_kv *kv, int layer, int head, size_t position);

/* How many blocks the next n positions, which are reserved, fill up that are then of another type. */
size_t pn_kv_n_filled(const pn_kv *kv, size_t n);
/* Makes the keys and values of one layer and head in the i-th of them what is kept, once they are all written
   and before they are committed. */
void pn_kv_pack(const pn_kv *kv, const pn_kernels *kernels, int layer, int head, size_t i);

/* Bytes of the blocks that this timeline holds, alone or with others. */
uint64_t pn_kv_bytes(const pn_kv *kv);

#endif
