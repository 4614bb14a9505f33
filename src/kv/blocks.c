/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/blocks.h"

#include "base/mem.h"

enum { MAX_SLAB_BLOCKS = 64 }; /* a bit each */

#define HUGE_PAGE      ((uint64_t)2 << 20)
#define MAX_SLAB_BYTES (8 * HUGE_PAGE) /* unless a single block is larger */

/* What may be lost at the end of a slab, as a part of its blocks: the first number of blocks that loses no
   more than GOOD is taken, or else the one that loses least, if no more than BEARABLE. */
#define GOOD     32
#define BEARABLE 16

struct pn_slab {
    unsigned char *pages;
    uint64_t used; /* bit i: block i */
};

static uint64_t whole_pages(uint64_t bytes) {
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static size_t slab_blocks_of(uint64_t block_bytes) {
    if (block_bytes > UINT64_MAX / MAX_SLAB_BLOCKS - HUGE_PAGE) return 0;
    size_t best = 0;
    uint64_t best_lost = 0;
    for (size_t n = 1; n <= MAX_SLAB_BLOCKS && (n == 1 || n * block_bytes <= MAX_SLAB_BYTES); n++) {
        uint64_t bytes = n * block_bytes, lost = whole_pages(bytes) - bytes;
        if (lost <= bytes / GOOD) return n;
        if (lost <= bytes / BEARABLE && (best == 0 || lost * best < best_lost * n)) {
            best = n;
            best_lost = lost;
        }
    }
    return best;
}

pn_block_plan pn_block_plan_of(uint64_t block_bytes, size_t max_blocks) {
    pn_block_plan plan = {.block_bytes = block_bytes, .n_single = max_blocks};
    size_t n = slab_blocks_of(block_bytes);
    if (n == 0 || max_blocks < 2 * n) return plan;
    plan.slab_blocks = n;
    plan.slab_bytes = whole_pages(n * block_bytes);
    plan.n_slab = max_blocks / n - 1;
    plan.n_single = max_blocks - plan.n_slab * n;
    return plan;
}

bool pn_block_plan_bytes(const pn_block_plan *plan, uint64_t *out) {
    uint64_t slabs, singles;
    return pn_mul_u64(plan->slab_bytes, plan->n_slab, &slabs) &&
           pn_mul_u64(plan->block_bytes, plan->n_single, &singles) && pn_add_u64(slabs, singles, out);
}

pn_status pn_block_pool_init(pn_block_pool *pool, uint64_t block_bytes, size_t max_blocks, pn_error *err) {
    pn_block_pool fresh = {.plan = pn_block_plan_of(block_bytes, 0)};
    PN_TRY(pn_block_pool_resize(&fresh, max_blocks, err));
    *pool = fresh;
    return PN_OK;
}

pn_status pn_block_pool_resize(pn_block_pool *pool, size_t max_blocks, pn_error *err) {
    const pn_block_plan plan = pn_block_plan_of(pool->plan.block_bytes, max_blocks);
    if (plan.n_slab > pool->cap_slab || !pool->slabs) {
        struct pn_slab *slabs = pn_realloc(pool->slabs, plan.n_slab, sizeof *slabs);
        if (!slabs) return pn_fail_memory(err, "KV slab table", plan.n_slab * sizeof *slabs);
        pool->slabs = slabs;
        pool->cap_slab = plan.n_slab;
    }
    /* The size of a slab depends on that of a block alone, but few blocks have none. */
    const uint64_t slab_bytes = pool->plan.slab_blocks ? pool->plan.slab_bytes : plan.slab_bytes;
    const size_t slab_blocks = pool->plan.slab_blocks ? pool->plan.slab_blocks : plan.slab_blocks;
    pool->plan = plan;
    pool->plan.slab_bytes = slab_bytes;
    pool->plan.slab_blocks = slab_blocks;
    return PN_OK;
}

void pn_block_pool_done(pn_block_pool *pool) {
    pn_free(pool->slabs);
    *pool = (pn_block_pool){0};
}

/* Every block of a slab used. */
static uint64_t all_used(const pn_block_plan *plan) {
    return UINT64_MAX >> (MAX_SLAB_BLOCKS - plan->slab_blocks);
}

static void *take_from(const pn_block_pool *pool, struct pn_slab *slab) {
    int i = __builtin_ctzll(~slab->used);
    slab->used |= UINT64_C(1) << i;
    return slab->pages + (uint64_t)i * pool->plan.block_bytes;
}

static struct pn_slab *add_slab(pn_block_pool *pool) {
    if (pool->n_slab >= pool->plan.n_slab) return NULL;
    unsigned char *pages = pn_pages_alloc(PN_MEM_KV, (size_t)pool->plan.slab_bytes);
    if (!pages) return NULL;
    struct pn_slab *slab = &pool->slabs[pool->n_slab++];
    *slab = (struct pn_slab){.pages = pages};
    return slab;
}

void *pn_block_take(pn_block_pool *pool) {
    for (size_t i = 0; i < pool->n_slab; i++)
        if (pool->slabs[i].used != all_used(&pool->plan)) return take_from(pool, &pool->slabs[i]);
    if (pool->n_single < pool->plan.n_single) {
        void *block = pn_alloc(PN_MEM_KV, 1, (size_t)pool->plan.block_bytes);
        if (block) pool->n_single++;
        return block;
    }
    struct pn_slab *slab = add_slab(pool);
    return slab ? take_from(pool, slab) : NULL;
}

static struct pn_slab *slab_of(const pn_block_pool *pool, const void *block) {
    for (size_t i = 0; i < pool->n_slab; i++)
        if ((uintptr_t)block - (uintptr_t)pool->slabs[i].pages < pool->plan.slab_bytes)
            return &pool->slabs[i];
    return NULL;
}

void pn_block_free(pn_block_pool *pool, void *block) {
    struct pn_slab *slab = slab_of(pool, block);
    if (!slab) {
        pn_free(block);
        pool->n_single--;
        return;
    }
    uint64_t i = (uint64_t)((unsigned char *)block - slab->pages) / pool->plan.block_bytes;
    slab->used &= ~(UINT64_C(1) << i);
    if (slab->used != 0) return;
    pn_pages_free(PN_MEM_KV, slab->pages, (size_t)pool->plan.slab_bytes);
    *slab = pool->slabs[--pool->n_slab];
}

uint64_t pn_block_pool_bytes(const pn_block_pool *pool) {
    return pool->n_slab * pool->plan.slab_bytes + pool->n_single * pool->plan.block_bytes;
}
