/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/store.h"

#include "base/mem.h"
#include "kv/prefix.h"

#include <string.h>

uint64_t pn_kv_store_block_bytes(const pn_kv_store *store, pn_kv_lane lane, pn_kv_type type) {
    return store->layouts[type].block_bytes[lane];
}

/* ---- life ---- */

static pn_status init(pn_kv_store *store, const pn_kv_shape *shape, pn_error *err) {
    store->shape = *shape;
    store->n_owners = 1;
    store->hash_mask = UINT64_MAX;
    for (int type = 0; type < PN_KV_TYPE_COUNT; type++)
        PN_TRY(pn_kv_layout_init(&store->layouts[type], shape, (pn_kv_type)type, err));
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++) {
            const uint64_t bytes = store->layouts[type].block_bytes[lane];
            PN_TRY(pn_block_pool_init(&store->pools[lane][type], bytes ? bytes : 1, 0, err));
        }
    return pn_prefix_init(store, err);
}

static void done(pn_kv_store *store) {
    pn_prefix_done(store);
    for (int type = 0; type < PN_KV_TYPE_COUNT; type++) {
        pn_kv_layout_done(&store->layouts[type]);
        for (int lane = 0; lane < PN_KV_LANES; lane++)
            pn_block_pool_done(&store->pools[lane][type]);
    }
}

pn_status pn_kv_store_create(const pn_kv_shape *shape, pn_kv_store **out, pn_error *err) {
    pn_kv_store *store = pn_alloc(PN_MEM_OTHER, 1, sizeof *store);
    if (!store) return pn_fail_memory(err, "KV store", sizeof *store);
    pn_status status = init(store, shape, err);
    if (status == PN_OK && pthread_mutex_init(&store->lock, NULL) != 0)
        status = pn_fail(err, PN_ERR_MEMORY, "no memory for the lock of the KV cache");
    if (status != PN_OK) {
        done(store);
        pn_free(store);
        return status;
    }
    *out = store;
    return PN_OK;
}

static void lock(pn_kv_store *store) {
    pthread_mutex_lock(&store->lock);
}

static void unlock(pn_kv_store *store) {
    pthread_mutex_unlock(&store->lock);
}

pn_kv_store *pn_kv_store_share(pn_kv_store *store) {
    lock(store);
    store->n_owners++;
    unlock(store);
    return store;
}

void pn_kv_store_free(pn_kv_store *store) {
    if (!store) return;
    lock(store);
    const bool last = --store->n_owners == 0;
    unlock(store);
    if (!last) return;
    done(store);
    pthread_mutex_destroy(&store->lock);
    pn_free(store);
}

/* ---- room ---- */

static size_t n_blocks_of(size_t n_tokens) {
    return n_tokens / PN_KV_BLOCK + (n_tokens % PN_KV_BLOCK != 0);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A pass computes n_chunk tokens that begin anywhere in a block.
   Before it the windowed lane has the window of its first token, which may begin with the last position of a
   block, and one block more (kv.c). */
pn_kv_need pn_kv_need_of(const pn_kv_shape *shape, size_t max_tokens, size_t n_chunk) {
    const size_t all = n_blocks_of(max_tokens), in_chunk = n_blocks_of(n_chunk > 0 ? n_chunk - 1 : 0) + 1;
    const size_t in_window = n_blocks_of((size_t)shape->window + n_chunk + PN_KV_BLOCK - 2) + 1;
    const size_t most[PN_KV_LANES] = {all, shape->window > 0 ? least(all, in_window) : 0};
    const pn_kv_type fresh = pn_kv_fresh_type(shape->type);
    const size_t n_first = pn_kv_keeps_first(shape->type), n_full = max_tokens / PN_KV_BLOCK;
    pn_kv_need need = {0};
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        need.n[lane][fresh] = most[lane];
        if (fresh == shape->type) continue;
        /* Only full blocks are packed, and not the first of all; a window passes that one. */
        const size_t first = lane == PN_KV_FULL && n_full > 0 ? n_first : 0;
        need.n[lane][shape->type] = least(most[lane], n_full - first);
        need.n[lane][fresh] = least(most[lane], in_chunk + n_first);
    }
    return need;
}

static pn_status resize_pools(pn_kv_store *store, const pn_kv_need *room, pn_error *err) {
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++)
            PN_TRY(pn_block_pool_resize(&store->pools[lane][type], room->n[lane][type], err));
    return PN_OK;
}

static pn_kv_need sum_of(const pn_kv_need *a, const pn_kv_need *b, bool minus) {
    pn_kv_need sum;
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++) {
            const size_t x = a->n[lane][type], y = b->n[lane][type];
            sum.n[lane][type] = minus ? x - y : x + y;
        }
    return sum;
}

pn_status pn_kv_store_join(pn_kv_store *store, const pn_kv_need *need, pn_error *err) {
    lock(store);
    const pn_kv_need room = sum_of(&store->room, need, false);
    const pn_status status = resize_pools(store, &room, err);
    if (status == PN_OK)
        store->room = room;
    else
        resize_pools(store, &store->room, NULL); /* back to what there are tables for */
    unlock(store);
    return status;
}

void pn_kv_store_leave(pn_kv_store *store, const pn_kv_need *need) {
    lock(store);
    store->room = sum_of(&store->room, need, true);
    resize_pools(store, &store->room, NULL); /* smaller ones need no memory */
    unlock(store);
}

/* In blocks of each lane, as a timeline has them. */
static pn_kv_need blocks_of(const pn_kv_store *store, uint64_t bytes) {
    const pn_kv_type type = store->shape.type;
    pn_kv_need need = {0};
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        const uint64_t block = store->layouts[type].block_bytes[lane];
        if (block) need.n[lane][type] = (size_t)(bytes / block);
    }
    return need;
}

pn_status pn_kv_store_set_quota(pn_kv_store *store, uint64_t bytes, pn_error *err) {
    const pn_kv_need before = blocks_of(store, store->quota), after = blocks_of(store, bytes);
    PN_TRY(pn_kv_store_join(store, &after, err));
    pn_kv_store_leave(store, &before);
    lock(store);
    store->quota = bytes;
    pn_prefix_trim(store);
    unlock(store);
    return PN_OK;
}

/* ---- blocks ---- */

static pn_kv_block *take(pn_kv_store *store, pn_kv_lane lane, pn_kv_type type) {
    pn_kv_block *block = pn_alloc(PN_MEM_KV, 1, sizeof *block);
    if (!block) return NULL;
    block->data = pn_block_take(&store->pools[lane][type]);
    if (!block->data) {
        pn_free(block);
        return NULL;
    }
    block->n_owners = 1;
    block->lane = lane;
    block->type = type;
    return block;
}

static pn_kv_block *take_or_evict(pn_kv_store *store, pn_kv_lane lane, pn_kv_type type) {
    pn_kv_block *block = take(store, lane, type);
    while (!block && pn_prefix_evict(store))
        block = take(store, lane, type);
    return block;
}

pn_kv_block *pn_kv_block_take(pn_kv_store *store, pn_kv_lane lane, pn_kv_type type) {
    lock(store);
    pn_kv_block *block = take_or_evict(store, lane, type);
    unlock(store);
    return block;
}

static uint64_t bytes_of(const pn_kv_store *store, const pn_kv_block *block) {
    return store->layouts[block->type].block_bytes[block->lane];
}

void pn_kv_block_share_locked(pn_kv_store *store, pn_kv_block *block) {
    if (block->node && block->n_owners == 1) store->cached -= bytes_of(store, block);
    block->n_owners++;
}

void pn_kv_block_drop_locked(pn_kv_store *store, pn_kv_block *block) {
    if (!block) return;
    if (--block->n_owners == 0) {
        pn_block_free(&store->pools[block->lane][block->type], block->data);
        pn_free(block);
    } else if (block->node && block->n_owners == 1) {
        store->cached += bytes_of(store, block);
    }
}

void pn_kv_block_drop(pn_kv_store *store, pn_kv_block *block) {
    if (!block) return;
    lock(store);
    pn_kv_block_drop_locked(store, block);
    pn_prefix_trim(store);
    unlock(store);
}

static bool make_own(pn_kv_store *store, pn_kv_block **block) {
    pn_kv_block *shared = *block;
    if (shared->n_owners == 1) return true;
    pn_kv_block *copy = take_or_evict(store, shared->lane, shared->type);
    if (!copy) return shared->n_owners == 2 && pn_prefix_let_go(store, shared);
    memcpy(copy->data, shared->data, (size_t)bytes_of(store, shared));
    pn_kv_block_drop_locked(store, shared);
    *block = copy;
    return true;
}

bool pn_kv_block_own(pn_kv_store *store, pn_kv_block **block) {
    lock(store);
    const bool own = make_own(store, block);
    pn_prefix_trim(store);
    unlock(store);
    return own;
}

void pn_kv_store_get_cache(pn_kv_store *store, uint64_t *cached, uint64_t *n_evicted) {
    lock(store);
    *cached = store->cached;
    *n_evicted = store->n_evicted;
    unlock(store);
}

pn_kv_trace pn_kv_store_trace(pn_kv_store *store, const int32_t *tokens, size_t n) {
    lock(store);
    const pn_kv_trace trace = pn_prefix_trace(store, tokens, n);
    unlock(store);
    return trace;
}

uint64_t pn_kv_store_bytes(pn_kv_store *store) {
    uint64_t bytes = 0;
    lock(store);
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++)
            bytes += pn_block_pool_bytes(&store->pools[lane][type]);
    unlock(store);
    return bytes;
}
