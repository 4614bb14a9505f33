/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of the beginnings of texts, PN_KV_BLOCK tokens to a node, each with the blocks that hold their keys
   and values (as the radix tree of Zheng et al., "SGLang", 2024, at the grain of blocks). A hash finds a node
   among its siblings, and its tokens are compared: what is taken over is never another text's. Nodes may have
   lost their blocks of the windowed lane, which only texts that end shortly after them need.

   The lock of the store is held by the caller of all of these but init and done. */
#ifndef PN_KV_PREFIX_H
#define PN_KV_PREFIX_H

#include "kv/store.h"

struct pn_prefix_node {
    pn_prefix_node *parent, *child, *sibling; /* the youngest child; the next older one of the same parent */
    pn_prefix_node *older, *newer;            /* in a ring of all nodes, through the root */
    uint64_t hash;
    uint64_t chain;                /* hash of the text from its beginning; 0 of the root */
    uint64_t used_at[PN_KV_LANES]; /* the store's clock */
    int n_users;                   /* timelines that end here */
    bool parted;                   /* texts have gone on from here in different ways */
    pn_kv_block *blocks[PN_KV_LANES];
    int32_t tokens[PN_KV_BLOCK];
};

pn_status pn_prefix_init(pn_kv_store *store, pn_error *err);
/* No timeline is left. */
void pn_prefix_done(pn_kv_store *store);

/* The child of a node for the next PN_KV_BLOCK tokens; NULL when there is none. */
pn_prefix_node *pn_prefix_find(const pn_kv_store *store, const pn_prefix_node *parent, const int32_t *tokens);
/* A new child, or NULL without memory. It shares the blocks, of which the windowed lane's may be NULL. */
pn_prefix_node *pn_prefix_add(pn_kv_store *store, pn_prefix_node *parent, const int32_t *tokens,
                              pn_kv_block *const blocks[PN_KV_LANES]);
/* Gives a node a block that it lacks. */
void pn_prefix_complete(pn_kv_store *store, pn_prefix_node *node, pn_kv_lane lane, pn_kv_block *block);
/* A node's blocks of one lane are of use now. */
void pn_prefix_touch(pn_kv_store *store, pn_prefix_node *node, pn_kv_lane lane);

/* Gives up one of the blocks that the tree alone owns: of a windowed lane one that no text is likely to need,
   or else what was of no use for the longest time, where a text ends before where texts part. False when
   there is none. */
bool pn_prefix_evict(pn_kv_store *store);
/* Gives up the node of a block that a timeline is about to write, if no text goes on from there. */
bool pn_prefix_let_go(pn_kv_store *store, pn_kv_block *block);
/* pn_kv_store_trace */
pn_kv_trace pn_prefix_trace(const pn_kv_store *store, const int32_t *tokens, size_t n);
/* Evicts until the quota is kept. */
void pn_prefix_trim(pn_kv_store *store);

#endif
