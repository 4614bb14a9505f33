/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of all timelines of a model with one type of cache, and the tree of prefixes that they may share
   (prefix.h). A block has owners: timelines, and the tree. Once it has several, nobody writes it any more.

   Blocks that the tree alone owns are those of conversations that are over, or that a window has passed. They
   stay for as long as the quota lasts and nobody needs their memory; the least recently used go first. All
   functions may be called by several threads at once, unless they say that the lock is held. */
#ifndef PN_KV_STORE_H
#define PN_KV_STORE_H

#include "kv/blocks.h"
#include "kv/layout.h"

#include <pthread.h>

typedef struct pn_prefix_node pn_prefix_node;

typedef struct pn_kv_block {
    int n_owners;
    pn_prefix_node *node; /* of the tree, where that is an owner; else NULL */
    pn_kv_lane lane;
    pn_kv_type type;
    unsigned char *data;
} pn_kv_block;

/* Blocks that a timeline of max_tokens needs, by lane and type, if at most n_chunk tokens are computed at a
   time. */
typedef struct pn_kv_need {
    size_t n[PN_KV_LANES][PN_KV_TYPE_COUNT];
} pn_kv_need;
pn_kv_need pn_kv_need_of(const pn_kv_shape *shape, size_t max_tokens, size_t n_chunk);

/* Blocks that were given up are remembered by a hash of the text up to their end: the last so many. */
#define PN_KV_REMEMBERED 1024

typedef struct pn_kv_store {
    pthread_mutex_t lock;
    int n_owners;
    pn_kv_shape shape;
    pn_kv_layout layouts[PN_KV_TYPE_COUNT];
    pn_block_pool pools[PN_KV_LANES][PN_KV_TYPE_COUNT];
    pn_kv_need room;                     /* blocks that the pools were made for */
    pn_prefix_node *root;                /* of no tokens */
    uint64_t quota;                      /* bytes that the tree may own alone */
    uint64_t cached;                     /* bytes that it does */
    uint64_t clock;                      /* ticks with every use of the tree */
    uint64_t hash_mask;                  /* all ones; tests leave fewer bits, so that hashes collide */
    uint64_t n_evicted;                  /* blocks that the tree gave up */
    uint64_t given_up[PN_KV_REMEMBERED]; /* a ring of pn_prefix_node.chain */
    uint64_t n_given_up;
} pn_kv_store;

/* With one owner and room for nothing yet. */
pn_status pn_kv_store_create(const pn_kv_shape *shape, pn_kv_store **out, pn_error *err);
pn_kv_store *pn_kv_store_share(pn_kv_store *store);
void pn_kv_store_free(pn_kv_store *store); /* one owner's share; NULL is fine */

/* Bytes that the tree may own alone; what is more is given up at once. */
pn_status pn_kv_store_set_quota(pn_kv_store *store, uint64_t bytes, pn_error *err);

/* Makes room for a timeline's need, or takes it back. */
pn_status pn_kv_store_join(pn_kv_store *store, const pn_kv_need *need, pn_error *err);
void pn_kv_store_leave(pn_kv_store *store, const pn_kv_need *need);

/* A block of any contents with one owner, for which the tree gives up others if need be. NULL when there is
   no memory. */
pn_kv_block *pn_kv_block_take(pn_kv_store *store, pn_kv_lane lane, pn_kv_type type);
void pn_kv_block_drop(pn_kv_store *store, pn_kv_block *block); /* NULL is fine */
/* Makes a block that its owner wants to write its alone: a copy where there are others. False when there is
   no memory. */
bool pn_kv_block_own(pn_kv_store *store, pn_kv_block **block);
/* As share and drop, while the lock is held. */
void pn_kv_block_share_locked(pn_kv_store *store, pn_kv_block *block);
void pn_kv_block_drop_locked(pn_kv_store *store, pn_kv_block *block);

uint64_t pn_kv_store_block_bytes(const pn_kv_store *store, pn_kv_lane lane, pn_kv_type type);
/* Bytes that the tree owns alone, and blocks that it gave up so far. */
void pn_kv_store_get_cache(pn_kv_store *store, uint64_t *cached, uint64_t *n_evicted);
/* What the tree knows of a text, in whole blocks. */
typedef struct pn_kv_trace {
    size_t n_held;     /* the text begins with so many that are there, at least in the full lane */
    size_t n_given_up; /* and goes on with so many that were, as far as is remembered */
} pn_kv_trace;
pn_kv_trace pn_kv_store_trace(pn_kv_store *store, const int32_t *tokens, size_t n);
/* Bytes held now, those of free blocks in slabs among them. */
uint64_t pn_kv_store_bytes(pn_kv_store *store);

#endif
