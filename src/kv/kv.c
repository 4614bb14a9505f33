/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kv.h"

#include "base/mem.h"
#include "kv/prefix.h"

#include <string.h>

static size_t n_blocks_of(size_t n_tokens) {
    return n_tokens / PN_KV_BLOCK + (n_tokens % PN_KV_BLOCK != 0);
}

static pn_kv_type fresh_type(const pn_kv *kv) {
    return pn_kv_fresh_type(kv->store->shape.type);
}

static bool has_layers(const pn_kv_store *store, int lane) {
    return store->layouts[store->shape.type].block_bytes[lane] > 0;
}

/* ---- planning ---- */

uint64_t pn_kv_token_bytes(const pn_kv_shape *shape) {
    const size_t dim = (size_t)shape->head_dim;
    uint64_t sum = 0;
    for (int i = 0; i < shape->n_layer; i++) {
        const pn_kv_type type = pn_kv_layer_type(shape, i, shape->type);
        sum += (pn_kv_key_bytes(type, dim) + pn_kv_value_bytes(type, dim)) / PN_KV_BLOCK *
               (uint64_t)shape->n_head_kv;
    }
    return sum;
}

#define TABLE_BYTES (PN_KV_LANES * sizeof(pn_kv_entry) + 2 * sizeof(pn_prefix_node *)) /* per block */

bool pn_kv_plan_bytes(const pn_kv_shape *shape, size_t max_tokens, size_t n_chunk, uint64_t *out) {
    const pn_kv_need need = pn_kv_need_of(shape, max_tokens, n_chunk);
    uint64_t sum = n_blocks_of(max_tokens) * (TABLE_BYTES + sizeof(pn_prefix_node));
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++) {
            const size_t n = need.n[lane][type];
            uint64_t block_bytes, bytes;
            if (n == 0) continue;
            if (!pn_kv_block_bytes(shape, (pn_kv_lane)lane, (pn_kv_type)type, &block_bytes)) return false;
            const pn_block_plan plan = pn_block_plan_of(block_bytes, n);
            if (!pn_block_plan_bytes(&plan, &bytes) || !pn_add_u64(sum, bytes, &sum) ||
                !pn_add_u64(sum, n * sizeof(pn_kv_block), &sum))
                return false;
        }
    *out = sum;
    return true;
}

/* ---- life ---- */

static pn_status allocate(pn_kv *kv, pn_error *err) {
    const size_t n = kv->cap_blocks;
    unsigned char *at = kv->memory = pn_alloc(PN_MEM_KV, n, TABLE_BYTES);
    if (!at) return pn_fail_memory(err, "KV block table", n * TABLE_BYTES);
    for (int lane = 0; lane < PN_KV_LANES; lane++, at += n * sizeof(pn_kv_entry))
        kv->entries[lane] = (pn_kv_entry *)(void *)at;
    kv->path = (pn_prefix_node **)(void *)at;
    kv->found = kv->path + n;
    return PN_OK;
}

pn_status pn_kv_init(pn_kv *kv, pn_kv_store *store, size_t max_tokens, size_t n_chunk, pn_error *err) {
    pn_kv fresh = {.type = store->shape.type,
                   .need = pn_kv_need_of(&store->shape, max_tokens, n_chunk),
                   .cap_blocks = n_blocks_of(max_tokens)};
    PN_TRY(allocate(&fresh, err));
    const pn_status status = pn_kv_store_join(store, &fresh.need, err);
    if (status != PN_OK) {
        pn_free(fresh.memory);
        return status;
    }
    fresh.store = pn_kv_store_share(store);
    *kv = fresh;
    return PN_OK;
}

pn_status pn_kv_resize(pn_kv *kv, size_t max_tokens, size_t n_chunk, pn_error *err) {
    pn_kv_truncate(kv, kv->n_tokens); /* gives back what was reserved in vain */
    pn_kv resized = *kv;
    resized.need = pn_kv_need_of(&kv->store->shape, max_tokens, n_chunk);
    resized.cap_blocks = n_blocks_of(max_tokens);
    PN_TRY(allocate(&resized, err));
    const pn_status status = pn_kv_store_join(kv->store, &resized.need, err);
    if (status != PN_OK) {
        pn_free(resized.memory);
        return status;
    }
    pn_kv_store_leave(kv->store, &kv->need);
    const size_t n = n_blocks_of(kv->n_tokens);
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        memcpy(resized.entries[lane], kv->entries[lane], n * sizeof(pn_kv_entry));
    memcpy(resized.path, kv->path, kv->n_path * sizeof *kv->path);
    pn_free(kv->memory);
    *kv = resized;
    return PN_OK;
}

static void drop(const pn_kv *kv, pn_kv_block **block) {
    pn_kv_block_drop(kv->store, *block);
    *block = NULL;
}

static void drop_entry(const pn_kv *kv, int lane, size_t block) {
    drop(kv, &kv->entries[lane][block].fresh);
    drop(kv, &kv->entries[lane][block].kept);
}

/* Moves the end of the path, which holds its node. */
static void set_path(pn_kv *kv, size_t n) {
    if (kv->n_path > 0) kv->path[kv->n_path - 1]->n_users--;
    kv->n_path = n;
    if (n > 0) kv->path[n - 1]->n_users++;
}

void pn_kv_done(pn_kv *kv) {
    if (!kv->store) return;
    pn_kv_truncate(kv, 0);
    pn_kv_store_leave(kv->store, &kv->need);
    pn_kv_store_free(kv->store);
    pn_free(kv->memory);
    *kv = (pn_kv){0};
}

/* ---- growing ---- */

/* The first block that a token at this position sees. */
static size_t first_seen(const pn_kv *kv, int lane, size_t position) {
    const size_t window = (size_t)kv->store->shape.window;
    if (lane == PN_KV_FULL || position + 1 < window) return 0;
    return (position + 1 - window) / PN_KV_BLOCK;
}

/* And the first that stays, for tokens that may be taken back. */
static size_t first_held(const pn_kv *kv, int lane, size_t position) {
    const size_t first = first_seen(kv, lane, position);
    return first > 0 ? first - 1 : 0;
}

/* Whether a full block stays as it is. */
static bool stays_fresh(const pn_kv *kv, size_t block) {
    return kv->type == fresh_type(kv) || (block == 0 && pn_kv_keeps_first(kv->type));
}

static void drop_from(pn_kv *kv, size_t block) {
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (size_t b = block; b < kv->cap_blocks && kv->entries[lane]; b++) {
            if (!kv->entries[lane][b].fresh && !kv->entries[lane][b].kept) continue;
            drop_entry(kv, lane, b);
        }
}

static bool reserve_entry(const pn_kv *kv, int lane, size_t block, size_t n) {
    pn_kv_entry *entry = &kv->entries[lane][block];
    if (!entry->fresh)
        entry->fresh = pn_kv_block_take(kv->store, (pn_kv_lane)lane, fresh_type(kv));
    else if (!pn_kv_block_own(kv->store, &entry->fresh))
        return false;
    if ((block + 1) * PN_KV_BLOCK <= n && !stays_fresh(kv, block) && !entry->kept) {
        entry->kept = pn_kv_block_take(kv->store, (pn_kv_lane)lane, kv->type);
        if (!entry->kept) return false;
    }
    return entry->fresh != NULL;
}

/* Forgets what was reserved in vain. */
static void unreserve(pn_kv *kv) {
    drop_from(kv, n_blocks_of(kv->n_tokens));
    if (kv->n_tokens % PN_KV_BLOCK == 0) return;
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        drop(kv, &kv->entries[lane][kv->n_tokens / PN_KV_BLOCK].kept);
}

pn_status pn_kv_reserve(pn_kv *kv, size_t n, pn_error *err) {
    const size_t from = kv->n_tokens / PN_KV_BLOCK, to = n_blocks_of(n);
    if (to > kv->cap_blocks)
        return pn_fail(err, PN_ERR_LIMIT, "%zu tokens do not fit the context of %zu", n,
                       kv->cap_blocks * PN_KV_BLOCK);
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        if (!has_layers(kv->store, lane)) continue;
        if (from > 0 && kv->entries[lane][from - 1].kept) drop(kv, &kv->entries[lane][from - 1].fresh);
        for (size_t b = from; b < to; b++) {
            if (reserve_entry(kv, lane, b, n)) continue;
            unreserve(kv);
            return pn_fail_memory(err, "KV cache block",
                                  pn_kv_store_block_bytes(kv->store, (pn_kv_lane)lane, fresh_type(kv)));
        }
    }
    return PN_OK;
}

/* What is fresh of a full block becomes what is kept, or is dropped for that, but for the last one. */
static void keep(const pn_kv *kv, pn_kv_entry *entry, bool last) {
    if (!entry->kept) {
        entry->kept = entry->fresh;
        entry->fresh = NULL;
    } else if (!last) {
        drop(kv, &entry->fresh);
    }
}

/* The blocks before `first` are seen no more. */
static void forget_before(pn_kv *kv, int lane, size_t first) {
    for (; kv->first[lane] < first; kv->first[lane]++)
        drop_entry(kv, lane, kv->first[lane]);
}

void pn_kv_commit(pn_kv *kv, size_t n) {
    const size_t from = kv->n_tokens / PN_KV_BLOCK;
    kv->n_tokens += n;
    const size_t to = kv->n_tokens / PN_KV_BLOCK;
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        if (!has_layers(kv->store, lane)) continue;
        for (size_t b = from; b < to; b++)
            keep(kv, &kv->entries[lane][b], b + 1 == to);
        forget_before(kv, lane, first_held(kv, lane, kv->n_tokens));
    }
}

/* ---- sharing ---- */

/* Where the tree has blocks of the same tokens already, theirs are taken: the bits are the same. */
static void share_node(pn_kv *kv, pn_prefix_node *node, size_t block) {
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        pn_kv_block **own = &kv->entries[lane][block].kept, *theirs = node->blocks[lane];
        if (!*own) continue;
        if (!theirs) {
            pn_prefix_complete(kv->store, node, (pn_kv_lane)lane, *own);
        } else if (theirs != *own) {
            pn_kv_block_share_locked(kv->store, theirs);
            pn_kv_block_drop_locked(kv->store, *own);
            *own = theirs;
        }
    }
}

static pn_prefix_node *enter(pn_kv *kv, const int32_t *tokens, size_t block) {
    pn_prefix_node *parent = block > 0 ? kv->path[block - 1] : kv->store->root;
    pn_prefix_node *node = pn_prefix_find(kv->store, parent, tokens + block * PN_KV_BLOCK);
    if (node) {
        share_node(kv, node, block);
        return node;
    }
    pn_kv_block *blocks[PN_KV_LANES];
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        blocks[lane] = kv->entries[lane][block].kept;
    if (has_layers(kv->store, PN_KV_FULL) && !blocks[PN_KV_FULL]) return NULL;
    return pn_prefix_add(kv->store, parent, tokens + block * PN_KV_BLOCK, blocks);
}

void pn_kv_publish(pn_kv *kv, const int32_t *tokens) {
    if (kv->n_path == kv->n_tokens / PN_KV_BLOCK || kv->type != kv->store->shape.type) return;
    pthread_mutex_lock(&kv->store->lock);
    while (kv->n_path < kv->n_tokens / PN_KV_BLOCK) {
        pn_prefix_node *node = enter(kv, tokens, kv->n_path);
        if (!node) break;
        kv->path[kv->n_path] = node;
        set_path(kv, kv->n_path + 1);
    }
    pn_prefix_trim(kv->store);
    pthread_mutex_unlock(&kv->store->lock);
}

void pn_kv_unpublish(pn_kv *kv) {
    pthread_mutex_lock(&kv->store->lock);
    set_path(kv, 0);
    pthread_mutex_unlock(&kv->store->lock);
}

/* What a timeline could be resumed from. */
struct source {
    pn_kv *kv;
    size_t n_own;   /* tokens of its own */
    size_t n_found; /* blocks in the tree */
};

/* This timeline's block for positions below n, if it has it in a type that serves. */
static bool own_serves(const struct source *s, int lane, size_t block, size_t n) {
    const pn_kv_entry *entry = &s->kv->entries[lane][block];
    const size_t end = (block + 1) * PN_KV_BLOCK;
    if (end <= n) return end <= s->n_own && entry->kept;
    return n <= s->n_own && (entry->fresh || (entry->kept && entry->kept->type == fresh_type(s->kv)));
}

static pn_kv_block *tree_block(const struct source *s, int lane, size_t block, size_t n) {
    pn_kv_block *b = block < s->n_found ? s->kv->found[block]->blocks[lane] : NULL;
    return b && (n % PN_KV_BLOCK == 0 || block < n / PN_KV_BLOCK || b->type == fresh_type(s->kv)) ? b : NULL;
}

static bool can_resume(const struct source *s, size_t n) {
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        if (!has_layers(s->kv->store, lane)) continue;
        for (size_t b = first_seen(s->kv, lane, n); b < n_blocks_of(n); b++)
            if (!own_serves(s, lane, b, n) && !tree_block(s, lane, b, n)) return false;
    }
    return true;
}

static size_t resume_point(const struct source *s, size_t n) {
    const size_t own = s->n_own < n ? s->n_own : n;
    const size_t found = s->n_found * PN_KV_BLOCK < n ? s->n_found * PN_KV_BLOCK : n;
    size_t at = own > found ? own : found;
    while (at > 0 && !can_resume(s, at)) {
        const size_t below = (at - 1) / PN_KV_BLOCK * PN_KV_BLOCK;
        const size_t next = own < at && own > below ? own : below;
        at = found < at && found > next ? found : next;
    }
    return at;
}

/* The block of one lane, when the timeline ends at n: the tree's, if it has one, so that memory is shared. */
static void settle_entry(const struct source *s, int lane, size_t block, size_t n) {
    pn_kv_store *store = s->kv->store;
    pn_kv_entry *entry = &s->kv->entries[lane][block];
    const bool full = (block + 1) * PN_KV_BLOCK <= n, own = own_serves(s, lane, block, n);
    pn_kv_block *theirs = own && !full ? NULL : tree_block(s, lane, block, n);
    pn_kv_block *chosen = theirs         ? theirs
                          : !own         ? NULL
                          : full         ? entry->kept
                          : entry->fresh ? entry->fresh
                                         : entry->kept;
    if (chosen) pn_kv_block_share_locked(store, chosen);
    pn_kv_block_drop_locked(store, entry->fresh);
    pn_kv_block_drop_locked(store, entry->kept);
    *entry = full ? (pn_kv_entry){.kept = chosen} : (pn_kv_entry){.fresh = chosen};
}

static void settle(const struct source *s, size_t n) {
    pn_kv *kv = s->kv;
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        if (!has_layers(kv->store, lane)) continue;
        kv->first[lane] = first_held(kv, lane, n);
        for (size_t b = 0; b < kv->cap_blocks; b++) {
            const bool held = kv->first[lane] <= b && b < n_blocks_of(n);
            if (held) {
                settle_entry(s, lane, b, n);
                if (b < s->n_found) pn_prefix_touch(kv->store, kv->found[b], (pn_kv_lane)lane);
            } else {
                pn_kv_block_drop_locked(kv->store, kv->entries[lane][b].fresh);
                pn_kv_block_drop_locked(kv->store, kv->entries[lane][b].kept);
                kv->entries[lane][b] = (pn_kv_entry){0};
            }
        }
    }
    const size_t n_path = n / PN_KV_BLOCK < s->n_found ? n / PN_KV_BLOCK : s->n_found;
    if (kv->n_path > 0) kv->path[kv->n_path - 1]->n_users--;
    memcpy(kv->path, kv->found, n_path * sizeof *kv->path);
    kv->n_path = n_path;
    if (n_path > 0) kv->path[n_path - 1]->n_users++;
    kv->n_tokens = n;
}

static size_t resume(const struct source *s, size_t n) {
    const size_t at = resume_point(s, n);
    settle(s, at);
    pn_prefix_trim(s->kv->store);
    return at;
}

size_t pn_kv_resume(pn_kv *kv, const int32_t *tokens, size_t n, size_t n_own) {
    struct source s = {.kv = kv, .n_own = n_own};
    pthread_mutex_lock(&kv->store->lock);
    if (n_own == 0) kv->type = kv->store->shape.type; /* a new text */
    const pn_prefix_node *parent = kv->store->root;
    while (kv->type == kv->store->shape.type && s.n_found < kv->cap_blocks &&
           (s.n_found + 1) * PN_KV_BLOCK <= n) {
        pn_prefix_node *node = pn_prefix_find(kv->store, parent, tokens + s.n_found * PN_KV_BLOCK);
        if (!node) break;
        kv->found[s.n_found++] = node;
        parent = node;
    }
    const size_t at = resume(&s, n);
    pthread_mutex_unlock(&kv->store->lock);
    return at;
}

size_t pn_kv_truncate(pn_kv *kv, size_t n) {
    struct source s = {.kv = kv, .n_own = kv->n_tokens, .n_found = kv->n_path};
    if (n >= kv->n_tokens) {
        unreserve(kv);
        return kv->n_tokens;
    }
    pthread_mutex_lock(&kv->store->lock);
    memcpy(kv->found, kv->path, kv->n_path * sizeof *kv->found);
    const size_t at = resume(&s, n);
    pthread_mutex_unlock(&kv->store->lock);
    return at;
}

/* ---- reading and writing ---- */

size_t pn_kv_n_filled(const pn_kv *kv, size_t n) {
    return kv->type == fresh_type(kv) ? 0 : (kv->n_tokens + n) / PN_KV_BLOCK - kv->n_tokens / PN_KV_BLOCK;
}

void pn_kv_pack(const pn_kv *kv, const pn_kernels *kernels, int layer, int head, size_t i) {
    const pn_kv_store *store = kv->store;
    const pn_kv_place *from = &store->layouts[fresh_type(kv)].places[layer];
    const pn_kv_place *to = &store->layouts[kv->type].places[layer];
    const pn_kv_entry *entry = &kv->entries[from->lane][kv->n_tokens / PN_KV_BLOCK + i];
    const size_t dim = (size_t)store->shape.head_dim, h = (size_t)head;
    if (!entry->kept) return; /* stays as it is */
    const unsigned char *keys = entry->fresh->data + from->keys + h * from->key_bytes,
                        *values = entry->fresh->data + from->values + h * from->value_bytes;
    unsigned char *kept_keys = entry->kept->data + to->keys + h * to->key_bytes,
                  *kept_values = entry->kept->data + to->values + h * to->value_bytes;
    if (to->type == from->type) { /* a layer that keeps its bits */
        memcpy(kept_keys, keys, from->key_bytes);
        memcpy(kept_values, values, from->value_bytes);
        return;
    }
    kernels->kv_pack((const uint16_t *)(const void *)keys, pn_kv_keys_shape(to->type, dim), kept_keys);
    kernels->kv_pack((const uint16_t *)(const void *)values, pn_kv_values_shape(to->type, dim), kept_values);
}

pn_kv_runs pn_kv_runs_of(const pn_kv *kv, int layer, int head, size_t block, size_t query_block) {
    const pn_kv_lane lane = kv->store->layouts[kv->store->shape.type].places[layer].lane;
    const pn_kv_entry *entry = &kv->entries[lane][block];
    const bool fresh = !entry->kept || (entry->fresh && block == query_block);
    const pn_kv_block *b = fresh ? entry->fresh : entry->kept;
    const pn_kv_place *p = &kv->store->layouts[b->type].places[layer];
    return (pn_kv_runs){.keys = b->data + p->keys + (size_t)head * p->key_bytes,
                        .values = b->data + p->values + (size_t)head * p->value_bytes,
                        .key_type = p->key_type,
                        .value_type = p->value_type};
}

/* Where the fresh runs of a position's block are to be written. */
struct target {
    unsigned char *keys, *values;
    pn_kv_type type;
    size_t slot, dim;
};

static struct target target_of(const pn_kv *kv, int layer, int head, size_t position) {
    const pn_kv_place *p = &kv->store->layouts[fresh_type(kv)].places[layer];
    unsigned char *data = kv->entries[p->lane][position / PN_KV_BLOCK].fresh->data;
    return (struct target){.keys = data + p->keys + (size_t)head * p->key_bytes,
                           .values = data + p->values + (size_t)head * p->value_bytes,
                           .type = p->key_type, /* of both: nothing is packed yet */
                           .slot = position % PN_KV_BLOCK,
                           .dim = (size_t)kv->store->shape.head_dim};
}

static void store_value(const struct target *t, const pn_kernels *kernels, const float *v) {
    if (t->type == PN_KV_F32)
        memcpy((float *)(void *)t->values + t->slot * t->dim, v, t->dim * sizeof *v);
    else
        kernels->f32_to_f16(v, (uint16_t *)(void *)t->values + t->slot * t->dim, t->dim);
}

/* A key is a column of its run. */
static void store_key(const struct target *t, const pn_kernels *kernels, const float *k) {
    if (t->type == PN_KV_F32) {
        float *at = (float *)(void *)t->keys + t->slot;
        for (size_t d = 0; d < t->dim; d++)
            at[d * PN_KV_BLOCK] = k[d];
        return;
    }
    uint16_t *at = (uint16_t *)(void *)t->keys + t->slot, halves[64];
    for (size_t d = 0; d < t->dim; d += 64) {
        const size_t n = t->dim - d < 64 ? t->dim - d : 64;
        kernels->f32_to_f16(k + d, halves, n);
        for (size_t i = 0; i < n; i++)
            at[(d + i) * PN_KV_BLOCK] = halves[i];
    }
}

void pn_kv_write(pn_kv *kv, const pn_kernels *kernels, int layer, int head, size_t position, const float *k,
                 const float *v) {
    const struct target t = target_of(kv, layer, head, position);
    store_key(&t, kernels, k);
    store_value(&t, kernels, v);
}

void pn_kv_expect_write(const pn_kv *kv, int layer, int head, size_t position) {
    const struct target t = target_of(kv, layer, head, position);
    const size_t bytes = t.type == PN_KV_F32 ? sizeof(float) : sizeof(uint16_t);
    for (size_t d = 0; d < t.dim; d++)
        __builtin_prefetch(t.keys + (d * PN_KV_BLOCK + t.slot) * bytes, 1);
    for (size_t at = 0; at < t.dim * bytes; at += 64)
        __builtin_prefetch(t.values + t.slot * t.dim * bytes + at, 1);
}

uint64_t pn_kv_bytes(const pn_kv *kv) {
    uint64_t bytes = 0;
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        for (size_t b = kv->first[lane]; b < kv->cap_blocks; b++) {
            const pn_kv_entry *e = &kv->entries[lane][b];
            if (e->fresh) bytes += pn_kv_store_block_bytes(kv->store, (pn_kv_lane)lane, e->fresh->type);
            if (e->kept) bytes += pn_kv_store_block_bytes(kv->store, (pn_kv_lane)lane, e->kept->type);
        }
    return bytes;
}
