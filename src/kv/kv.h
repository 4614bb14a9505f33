/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys and values live: blocks of PN_KV_BLOCK positions, taken as the timeline grows.

   Invariants
   1. Position p lives in block p / PN_KV_BLOCK, slot p % PN_KV_BLOCK, in every layer.
   2. Blocks 0 .. n_blocks-1 exist; n_tokens <= n_blocks * PN_KV_BLOCK; slots at and past n_tokens hold no
   meaning.
   3. Inside a block, one (layer, head) has its keys in one run, transposed: [head_dim, PN_KV_BLOCK], and its
   values in another [PN_KV_BLOCK, head_dim], so that attention reads linear memory and both of its products
   have their results side by side. */
#ifndef PN_KV_KV_H
#define PN_KV_KV_H

#include "kernels/kernels.h"
#include "kv/blocks.h"

#include "base/status.h"

#define PN_KV_BLOCK PN_ATTN_KEYS

typedef struct pn_kv_shape {
    int n_layer, n_head_kv, head_dim;
    pn_kv_type type;
} pn_kv_shape;

typedef struct pn_kv {
    pn_kv_shape shape;
    size_t element_bytes;
    pn_block_pool pool;
    unsigned char **blocks; /* [cap_blocks], the first n_blocks taken from the pool */
    size_t n_blocks, cap_blocks;
    size_t n_tokens; /* positions that hold keys and values */
} pn_kv;

/* Bytes of one stored value. */
size_t pn_kv_element_bytes(pn_kv_type type);
/* Bytes held by a cache with max_tokens positions, all of them used; false when they do not fit in 64 bits.
 */
bool pn_kv_plan_bytes(const pn_kv_shape *shape, size_t max_tokens, uint64_t *out);

/* Empty cache for at most max_tokens. */
pn_status pn_kv_init(pn_kv *kv, const pn_kv_shape *shape, size_t max_tokens, pn_error *err);
void pn_kv_done(pn_kv *kv);

/* Makes room for positions below n_tokens; on PN_ERR_MEMORY all is as before. */
pn_status pn_kv_reserve(pn_kv *kv, size_t n_tokens, pn_error *err);
/* Forgets positions from n_tokens on and frees the blocks that hold none of the rest. */
void pn_kv_truncate(pn_kv *kv, size_t n_tokens);

/* The run of keys [head_dim, PN_KV_BLOCK], or of values [PN_KV_BLOCK, head_dim], of one layer and head in one
   block: half or float. */
const void *pn_kv_keys(const pn_kv *kv, int layer, int head, size_t block);
const void *pn_kv_values(const pn_kv *kv, int layer, int head, size_t block);

/* Stores k and v [head_dim] of one head and reserved position. Does not move n_tokens: the forward pass does,
   once all layers are written. Different heads and positions may be written by different threads. */
void pn_kv_write(pn_kv *kv, const pn_kernels *kernels, int layer, int head, size_t position, const float *k,
                 const float *v);
/* Asks memory for what that will write. A key is spread over as many lines as it has elements, each of which
   would be waited for alone. */
void pn_kv_expect_write(const pn_kv *kv, int layer, int head, size_t position);

/* Bytes held now, those of free blocks in slabs among them. */
uint64_t pn_kv_bytes(const pn_kv *kv);

#endif
