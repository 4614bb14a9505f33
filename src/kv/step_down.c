/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/step_down.h"

#include "base/mem.h"

#include <string.h>

pn_kv_type pn_kv_next_type(pn_kv_type type, size_t head_dim) {
    if (!pn_kv_type_fits(PN_KV_Q4, head_dim)) return type;
    return type == PN_KV_F16 ? PN_KV_Q8 : type == PN_KV_Q8 || type == PN_KV_K8V4 ? PN_KV_Q4 : type;
}

uint64_t pn_kv_bytes_for(const pn_kv *kv, size_t n) {
    const pn_kv_type fresh = pn_kv_fresh_type(kv->type);
    const size_t had = kv->n_tokens / PN_KV_BLOCK, full = n / PN_KV_BLOCK - had,
                 new = (n + PN_KV_BLOCK - 1) / PN_KV_BLOCK - (kv->n_tokens + PN_KV_BLOCK - 1) / PN_KV_BLOCK;
    uint64_t bytes = pn_kv_bytes(kv);
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        bytes += new *pn_kv_store_block_bytes(kv->store, (pn_kv_lane)lane, fresh);
        if (kv->type != fresh) bytes += full * pn_kv_store_block_bytes(kv->store, (pn_kv_lane)lane, kv->type);
    }
    return bytes;
}

/* Halves of one run, whatever it is. */
static const uint16_t *halves_of(const unsigned char *run, pn_kv_type type, const pn_kv_run_shape *shape,
                                 uint16_t *buffer) {
    if (type == PN_KV_F16) return (const uint16_t *)(const void *)run;
    pn_kv_run_unpack(run, shape, buffer);
    return buffer;
}

/* A run that is of the type already, as in a layer that keeps its bits, is copied. */
static void pack_run(const pn_kernels *kernels, const unsigned char *from, pn_kv_type old,
                     const pn_kv_run_shape *old_shape, unsigned char *to, pn_kv_type type,
                     const pn_kv_run_shape *shape, size_t n_bytes, uint16_t *buffer) {
    if (old == type)
        memcpy(to, from, n_bytes);
    else
        kernels->kv_pack(halves_of(from, old, old_shape, buffer), *shape, to);
}

static void pack_head(const pn_kv_store *store, const pn_kernels *kernels, const pn_kv_block *from,
                      const pn_kv_block *to, int layer, size_t head, uint16_t *buffer) {
    const size_t dim = (size_t)store->shape.head_dim;
    const pn_kv_place *a = &store->layouts[from->type].places[layer],
                      *b = &store->layouts[to->type].places[layer];
    const pn_kv_run_shape old_keys = pn_kv_keys_shape(a->type, dim), keys = pn_kv_keys_shape(b->type, dim),
                          old_values = pn_kv_values_shape(a->type, dim),
                          values = pn_kv_values_shape(b->type, dim);
    pack_run(kernels, from->data + a->keys + head * a->key_bytes, a->key_type, &old_keys,
             to->data + b->keys + head * b->key_bytes, b->key_type, &keys, b->key_bytes, buffer);
    pack_run(kernels, from->data + a->values + head * a->value_bytes, a->value_type, &old_values,
             to->data + b->values + head * b->value_bytes, b->value_type, &values, b->value_bytes, buffer);
}

static bool pack_block(const pn_kv *kv, const pn_kernels *kernels, int lane, pn_kv_block **block,
                       uint16_t *buffer) {
    const pn_kv_store *store = kv->store;
    pn_kv_block *to = pn_kv_block_take(kv->store, (pn_kv_lane)lane, kv->type);
    if (!to) return false;
    for (int layer = 0; layer < store->shape.n_layer; layer++)
        for (size_t head = 0;
             pn_kv_lane_of(&store->shape, layer) == (pn_kv_lane)lane && head < (size_t)store->shape.n_head_kv;
             head++)
            pack_head(store, kernels, *block, to, layer, head, buffer);
    pn_kv_block_drop(kv->store, *block);
    *block = to;
    return true;
}

/* All full blocks but those that stay as they were filled; as far as memory goes. */
static size_t pack_blocks(pn_kv *kv, const pn_kernels *kernels, uint16_t *buffer) {
    const size_t n = kv->n_tokens / PN_KV_BLOCK;
    size_t n_packed = 0;
    for (size_t b = pn_kv_keeps_first(kv->type) ? 1 : 0; b < n; b++) {
        bool packed = false;
        for (int lane = 0; lane < PN_KV_LANES; lane++) {
            pn_kv_entry *entry = &kv->entries[lane][b];
            if (!entry->kept || entry->kept->type == kv->type) continue;
            if (!pack_block(kv, kernels, lane, &entry->kept, buffer)) return n_packed;
            packed = true;
        }
        n_packed += packed ? PN_KV_BLOCK : 0;
    }
    return n_packed;
}

/* Room in the pool of the type, as a timeline of it would have from the start. */
static bool make_room(pn_kv *kv, pn_kv_type type) {
    pn_kv_need more = {0};
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        more.n[lane][type] = kv->need.n[lane][kv->store->shape.type];
    if (pn_kv_store_join(kv->store, &more, NULL) != PN_OK) return false;
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        kv->need.n[lane][type] += more.n[lane][type];
    return true;
}

bool pn_kv_step_down(pn_kv *kv, const pn_kernels *kernels, size_t *n_tokens) {
    const size_t dim = (size_t)kv->store->shape.head_dim;
    const pn_kv_type before = kv->type, next = pn_kv_next_type(before, dim);
    if (next == before) return false;
    uint16_t *buffer = pn_alloc(PN_MEM_SCRATCH, PN_KV_BLOCK * dim, sizeof *buffer);
    if (!buffer || !make_room(kv, next)) {
        pn_free(buffer);
        return false;
    }
    kv->type = next;
    pn_kv_unpublish(kv);
    *n_tokens = pack_blocks(kv, kernels, buffer);
    pn_free(buffer);
    return true;
}
