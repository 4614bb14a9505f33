/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/prefix.h"

#include "base/mem.h"

#include <string.h>
#include <xxhash.h>

pn_status pn_prefix_init(pn_kv_store *store, pn_error *err) {
    pn_prefix_node *root = pn_alloc(PN_MEM_KV, 1, sizeof *root);
    if (!root) return pn_fail_memory(err, "prefix tree", sizeof *root);
    root->older = root->newer = root;
    root->n_users = 1; /* never given up */
    store->root = root;
    return PN_OK;
}

static uint64_t hash_of(const pn_kv_store *store, const int32_t *tokens) {
    return XXH3_64bits(tokens, PN_KV_BLOCK * sizeof *tokens) & store->hash_mask;
}

/* Of a text whose beginning has the chain `before`, and the next PN_KV_BLOCK tokens. */
static uint64_t chain_of(uint64_t before, const int32_t *tokens) {
    return XXH3_64bits_withSeed(tokens, PN_KV_BLOCK * sizeof *tokens, before);
}

pn_prefix_node *pn_prefix_find(const pn_kv_store *store, const pn_prefix_node *parent,
                               const int32_t *tokens) {
    const uint64_t hash = hash_of(store, tokens);
    for (pn_prefix_node *node = parent->child; node; node = node->sibling)
        if (node->hash == hash && memcmp(node->tokens, tokens, sizeof node->tokens) == 0) return node;
    return NULL;
}

void pn_prefix_complete(pn_kv_store *store, pn_prefix_node *node, pn_kv_lane lane, pn_kv_block *block) {
    pn_kv_block_share_locked(store, block);
    block->node = node;
    node->blocks[lane] = block;
    pn_prefix_touch(store, node, lane);
}

void pn_prefix_touch(pn_kv_store *store, pn_prefix_node *node, pn_kv_lane lane) {
    node->used_at[lane] = ++store->clock;
}

pn_prefix_node *pn_prefix_add(pn_kv_store *store, pn_prefix_node *parent, const int32_t *tokens,
                              pn_kv_block *const blocks[PN_KV_LANES]) {
    pn_prefix_node *node = pn_alloc(PN_MEM_KV, 1, sizeof *node);
    if (!node) return NULL;
    node->parent = parent;
    node->sibling = parent->child;
    if (parent->child) parent->parted = true;
    parent->child = node;
    node->newer = store->root;
    node->older = store->root->older;
    node->older->newer = node->newer->older = node;
    node->hash = hash_of(store, tokens);
    node->chain = chain_of(parent->chain, tokens);
    memcpy(node->tokens, tokens, sizeof node->tokens);
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        if (blocks[lane]) pn_prefix_complete(store, node, (pn_kv_lane)lane, blocks[lane]);
    return node;
}

/* ---- giving up ---- */

static void give_up_block(pn_kv_store *store, pn_prefix_node *node, int lane) {
    pn_kv_block *block = node->blocks[lane];
    if (!block) return;
    node->blocks[lane] = NULL;
    if (block->n_owners == 1) /* the drop frees it */
        store->cached -= store->layouts[block->type].block_bytes[block->lane];
    block->node = NULL;
    pn_kv_block_drop_locked(store, block);
    store->n_evicted++;
}

static void give_up_node(pn_kv_store *store, pn_prefix_node *node) {
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        give_up_block(store, node, lane);
    pn_prefix_node **at = &node->parent->child;
    while (*at != node)
        at = &(*at)->sibling;
    *at = node->sibling;
    node->older->newer = node->newer;
    node->newer->older = node->older;
    pn_free(node);
}

static bool tree_alone(const pn_kv_block *block) {
    return block && block->n_owners == 1;
}

/* The full lane is what a node is there for; a model whose layers are all windowed has none. */
static uint64_t node_used_at(const pn_prefix_node *node) {
    const uint64_t full = node->used_at[PN_KV_FULL], windowed = node->used_at[PN_KV_WINDOWED];
    return full > windowed ? full : windowed;
}

/* Nothing goes on from it, and it is of some use to be without it. */
static bool node_is_free(const pn_prefix_node *node) {
    if (node->child || node->n_users > 0) return false;
    const pn_kv_block *full = node->blocks[PN_KV_FULL], *windowed = node->blocks[PN_KV_WINDOWED];
    return tree_alone(full) || tree_alone(windowed) || (!full && !windowed);
}

/* What a block is worth, the least first. Of a windowed lane, texts that end or part within a window of it
   need it: where they part another may do so again, as after a system prompt. */
enum worth { PASSED, AT_END, AT_PARTING };

static enum worth worth_of(const pn_kv_store *store, const pn_prefix_node *node) {
    const size_t reach = (size_t)store->shape.window / PN_KV_BLOCK + 1;
    for (size_t i = 0; i <= reach; i++, node = node->child) {
        if (node->parted) return AT_PARTING;
        if (!node->child) return AT_END;
    }
    return PASSED;
}

/* The block to give up, as far as it is known. */
struct victim {
    pn_prefix_node *node;
    bool whole; /* with all its blocks, and no longer a node */
    enum worth worth;
    uint64_t used_at;
};

static void consider(struct victim *v, pn_prefix_node *node, bool whole, enum worth worth, uint64_t used_at) {
    if (v->node && (worth > v->worth || (worth == v->worth && used_at >= v->used_at))) return;
    *v = (struct victim){node, whole, worth, used_at};
}

bool pn_prefix_evict(pn_kv_store *store) {
    struct victim v = {.node = NULL};
    for (pn_prefix_node *node = store->root->newer; node != store->root; node = node->newer) {
        if (tree_alone(node->blocks[PN_KV_WINDOWED]))
            consider(&v, node, false, worth_of(store, node), node->used_at[PN_KV_WINDOWED]);
        if (node_is_free(node)) consider(&v, node, true, AT_END, node_used_at(node));
    }
    if (!v.node) return false;
    if (v.whole) {
        store->given_up[store->n_given_up++ % PN_KV_REMEMBERED] = v.node->chain;
        give_up_node(store, v.node);
    } else
        give_up_block(store, v.node, PN_KV_WINDOWED);
    return true;
}

static bool was_given_up(const pn_kv_store *store, uint64_t chain) {
    const uint64_t n = store->n_given_up < PN_KV_REMEMBERED ? store->n_given_up : PN_KV_REMEMBERED;
    for (uint64_t i = 0; i < n; i++)
        if (store->given_up[i] == chain) return true;
    return false;
}

pn_kv_trace pn_prefix_trace(const pn_kv_store *store, const int32_t *tokens, size_t n) {
    pn_kv_trace trace = {0};
    const size_t n_blocks = n / PN_KV_BLOCK;
    const pn_prefix_node *node = store->root, *next;
    while (trace.n_held < n_blocks &&
           (next = pn_prefix_find(store, node, tokens + trace.n_held * PN_KV_BLOCK)) != NULL) {
        node = next;
        trace.n_held++;
    }
    uint64_t chain = node->chain;
    for (size_t i = trace.n_held; i < n_blocks; i++, trace.n_given_up++) {
        chain = chain_of(chain, tokens + i * PN_KV_BLOCK);
        if (!was_given_up(store, chain)) break;
    }
    return trace;
}

bool pn_prefix_let_go(pn_kv_store *store, pn_kv_block *block) {
    pn_prefix_node *node = block->node;
    if (!node || node->child || node->n_users > 0) return false;
    give_up_node(store, node);
    return true;
}

void pn_prefix_trim(pn_kv_store *store) {
    while (store->cached > store->quota && pn_prefix_evict(store))
        continue;
}

void pn_prefix_done(pn_kv_store *store) {
    if (!store->root) return;
    while (pn_prefix_evict(store))
        continue;
    pn_free(store->root);
    store->root = NULL;
}
