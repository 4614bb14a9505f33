/* SPDX-License-Identifier: Apache-2.0 */
/* Where KV blocks come from. Attention reads every block of the context for every token, in short runs far
   apart: on small pages it spends more on address translation than on arithmetic. So blocks are carved out of
   slabs, which are whole huge pages. A freed block is used again, and a slab without a used block is given
   back at once.

   The first blocks are allocated one by one, so that a short conversation holds no more than it needs. So
   are those that would not fill a slab when all max_blocks are used, and blocks of a size of which neither
   one nor up to 64 fill huge pages well. Not for several threads at once. */
#ifndef PN_KV_BLOCKS_H
#define PN_KV_BLOCKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pn_block_plan {
    uint64_t block_bytes, slab_bytes;
    size_t slab_blocks; /* 0: no slabs */
    size_t n_single;    /* blocks that are allocated one by one */
    size_t n_slab;      /* slab_blocks * n_slab + n_single are all max_blocks */
} pn_block_plan;

typedef struct pn_block_pool {
    pn_block_plan plan;
    struct pn_slab *slabs; /* [cap_slab], the first n_slab held */
    size_t n_slab, cap_slab, n_single;
} pn_block_pool;

/* Pure. block_bytes > 0. */
pn_block_plan pn_block_plan_of(uint64_t block_bytes, size_t max_blocks);
/* Bytes held once all max_blocks are used; false when they do not fit in 64 bits. */
bool pn_block_plan_bytes(const pn_block_plan *plan, uint64_t *out);

pn_status pn_block_pool_init(pn_block_pool *pool, uint64_t block_bytes, size_t max_blocks, pn_error *err);
/* Another number of blocks; fewer than are used now is possible too: none can then be taken until so many
   were freed. On PN_ERR_MEMORY all is as it was. */
pn_status pn_block_pool_resize(pn_block_pool *pool, size_t max_blocks, pn_error *err);
/* All blocks were freed. */
void pn_block_pool_done(pn_block_pool *pool);

/* A block aligned to 64, of any contents. NULL when there is no memory, or when all max_blocks are used;
   the pool is then as it was. */
void *pn_block_take(pn_block_pool *pool);
void pn_block_free(pn_block_pool *pool, void *block);

/* Bytes held now: slabs in full, however much of them is used. */
uint64_t pn_block_pool_bytes(const pn_block_pool *pool);

#endif
