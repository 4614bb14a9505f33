/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/snapshot.h"

#include "base/mem.h"
#include "kv/prefix.h"

size_t pn_kv_first_seen(const pn_kv_shape *shape, pn_kv_lane lane, size_t n_blocks) {
    const size_t window = (size_t)shape->window, position = n_blocks * PN_KV_BLOCK;
    if (lane == PN_KV_FULL || position + 1 < window) return 0;
    return (position + 1 - window) / PN_KV_BLOCK;
}

bool pn_kv_has_lane(const pn_kv_shape *shape, pn_kv_lane lane) {
    for (int i = 0; i < shape->n_layer; i++)
        if (pn_kv_lane_of(shape, i) == lane) return true;
    return false;
}

pn_status pn_kv_snapshot_take(pn_kv *kv, pn_kv_snapshot *out, pn_error *err) {
    pn_kv_snapshot s = {.store = kv->store, .n_blocks = kv->n_path};
    const size_t n_parts = s.n_blocks * PN_KV_LANES;
    s.blocks = pn_alloc(PN_MEM_OTHER, n_parts, sizeof *s.blocks);
    s.parted = pn_alloc(PN_MEM_OTHER, s.n_blocks, sizeof *s.parted);
    if (!s.blocks || !s.parted) {
        pn_free(s.blocks);
        pn_free(s.parted);
        return pn_fail_memory(err, "list of blocks", n_parts * sizeof *s.blocks);
    }
    pthread_mutex_lock(&kv->store->lock);
    for (size_t b = 0; b < s.n_blocks; b++) {
        const pn_prefix_node *node = kv->path[b];
        s.parted[b] = node->parted;
        for (int lane = 0; lane < PN_KV_LANES; lane++) {
            if (!node->blocks[lane]) continue;
            s.blocks[b * PN_KV_LANES + (size_t)lane] = node->blocks[lane];
            pn_kv_block_share_locked(kv->store, node->blocks[lane]);
        }
    }
    if (s.n_blocks > 0) {
        s.end = kv->path[s.n_blocks - 1];
        s.end->n_users++;
    }
    pthread_mutex_unlock(&kv->store->lock);
    *out = s;
    return PN_OK;
}

void pn_kv_snapshot_done(pn_kv_snapshot *s) {
    if (s->store) {
        pthread_mutex_lock(&s->store->lock);
        if (s->end) s->end->n_users--;
        for (size_t i = 0; i < s->n_blocks * PN_KV_LANES; i++)
            if (s->blocks[i]) pn_kv_block_drop_locked(s->store, s->blocks[i]);
        pthread_mutex_unlock(&s->store->lock);
    }
    pn_free(s->blocks);
    pn_free(s->parted);
    *s = (pn_kv_snapshot){0};
}

void pn_kv_snapshot_drop(pn_kv_snapshot *s, size_t block, pn_kv_lane lane) {
    pn_kv_block **at = &s->blocks[block * PN_KV_LANES + lane];
    pn_kv_block_drop(s->store, *at);
    *at = NULL;
}

void pn_kv_snapshot_trim(pn_kv_snapshot *s) {
    const size_t first = pn_kv_first_seen(&s->store->shape, PN_KV_WINDOWED, s->n_blocks);
    for (size_t b = 0; b < first && b < s->n_blocks; b++)
        pn_kv_snapshot_drop(s, b, PN_KV_WINDOWED);
}

pn_kv_need pn_kv_snapshot_need(const pn_kv_snapshot *s) {
    pn_kv_need need = {0};
    for (size_t i = 0; i < s->n_blocks * PN_KV_LANES; i++)
        if (s->blocks[i]) need.n[s->blocks[i]->lane][s->blocks[i]->type]++;
    return need;
}

uint64_t pn_kv_snapshot_bytes(const pn_kv_snapshot *s) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n_blocks * PN_KV_LANES; i++)
        if (s->blocks[i]) bytes += pn_kv_store_block_bytes(s->store, s->blocks[i]->lane, s->blocks[i]->type);
    return bytes;
}
