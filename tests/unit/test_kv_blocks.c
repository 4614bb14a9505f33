/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of KV blocks: what it plans, that it holds just that, uses freed blocks again and gives back. */
#include "support/check.h"

#include "base/mem.h"
#include "kv/blocks.h"

#include <string.h>

enum { MIB = 1 << 20, MAX_BLOCKS = 64 };

static void plans_hold_all_blocks_and_little_else(void **state) {
    (void)state;
    static const struct {
        uint64_t block_bytes;
        size_t max_blocks, slab_blocks, n_single;
    } cases[] = {
        {1474560, 64, 7, 8},        /* SmolLM2 135M at 4096: 5 huge pages */
        {1179648, 512, 7, 8},       /* Gemma 3 270M at 32768 */
        {12 * MIB, 64, 1, 1},       /* every block is whole pages */
        {MIB, 8, 2, 2},             /* two to a page */
        {32 * 1024, 128, 63, 65},   /* the 64th would only fill the page */
        {32 * 1024, 125, 0, 125},   /* too few for the first blocks and a slab */
        {4096, 100000, 0, 100000},  /* a whole slab would leave most of a page unused */
        {16 * MIB + 64, 10, 0, 10}, /* so would one block of the last of nine */
        {1474560, 0, 0, 0},
        {UINT64_MAX, 2, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pn_block_plan plan = pn_block_plan_of(cases[i].block_bytes, cases[i].max_blocks);
        assert_int_equal(plan.slab_blocks, cases[i].slab_blocks);
        assert_int_equal(plan.n_single, cases[i].n_single);
        assert_int_equal(plan.n_single + plan.n_slab * plan.slab_blocks, cases[i].max_blocks);
    }
    uint64_t bytes;
    pn_block_plan plan = pn_block_plan_of(UINT64_MAX, 2);
    assert_false(pn_block_plan_bytes(&plan, &bytes));
    for (uint64_t block = 4096; block < 20 * MIB; block += 64 * 1021) {
        plan = pn_block_plan_of(block, 1000);
        assert_true(pn_block_plan_bytes(&plan, &bytes));
        assert_in_range(bytes, 1000 * block, 1000 * block + 1000 * block / 16);
    }
}

struct blocks {
    pn_block_pool pool;
    unsigned char *at[MAX_BLOCKS];
    size_t n;
};

static void mark(unsigned char *block, size_t bytes, size_t i) {
    memset(block, (int)i + 1, bytes);
}

static void check_marks(const struct blocks *b) {
    size_t bytes = (size_t)b->pool.plan.block_bytes;
    for (size_t i = 0; i < b->n; i++)
        if (b->at[i] && (b->at[i][0] != i + 1 || memcmp(b->at[i], b->at[i] + 1, bytes - 1) != 0))
            fail_msg("block %zu was written over", i);
}

/* A pool with all of its blocks taken and marked. */
static struct blocks full_pool(uint64_t block_bytes, size_t n) {
    struct blocks b = {.n = n};
    assert_int_equal(pn_block_pool_init(&b.pool, block_bytes, n, NULL), PN_OK);
    assert_int_equal(pn_block_pool_bytes(&b.pool), 0);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(b.at[i] = pn_block_take(&b.pool));
        assert_int_equal((uintptr_t)b.at[i] % 64, 0);
        mark(b.at[i], (size_t)block_bytes, i);
    }
    check_marks(&b);
    return b;
}

static void free_block(struct blocks *b, size_t i) {
    pn_block_free(&b->pool, b->at[i]);
    b->at[i] = NULL;
}

static void free_all(struct blocks *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->at[i]) free_block(b, i);
    assert_int_equal(pn_block_pool_bytes(&b->pool), 0);
    pn_block_pool_done(&b->pool);
}

static void a_full_pool_holds_what_was_planned(void **state) {
    (void)state;
    static const uint64_t sizes[] = {64, 4096, 700 * 1024, MIB, 1474560, 2 * MIB + 64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t before = pn_mem_bytes(PN_MEM_KV), planned;
        struct blocks b = full_pool(sizes[i], 23);
        assert_true(pn_block_plan_bytes(&b.pool.plan, &planned));
        assert_int_equal(pn_block_pool_bytes(&b.pool), planned);
        assert_int_equal(pn_mem_bytes(PN_MEM_KV) - before, planned);
        assert_null(pn_block_take(&b.pool));
        free_all(&b);
        assert_int_equal(pn_mem_bytes(PN_MEM_KV), before);
    }
}

static void freed_blocks_are_used_again(void **state) {
    (void)state;
    struct blocks b = full_pool(MIB, 12); /* two single ones and five slabs of two */
    uint64_t held = pn_block_pool_bytes(&b.pool);
    for (size_t i = 2; i < b.n; i++) { /* the other half of the slab keeps it */
        unsigned char *was = b.at[i];
        free_block(&b, i);
        assert_int_equal(pn_block_pool_bytes(&b.pool), held);
        assert_ptr_equal(b.at[i] = pn_block_take(&b.pool), was);
        mark(b.at[i], MIB, i);
    }
    check_marks(&b);
    free_all(&b);
}

static void empty_slabs_are_given_back(void **state) {
    (void)state;
    static const size_t order[] = {5, 8, 4, 11, 9, 2, 10, 0, 3}; /* whole slabs: 4+5, 8+9, 10+11, 2+3 */
    static const size_t slabs_left[] = {5, 5, 4, 4, 3, 3, 2, 2, 1};
    uint64_t before = pn_mem_bytes(PN_MEM_KV);
    struct blocks b = full_pool(MIB, 12);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        free_block(&b, order[i]);
        assert_int_equal(b.pool.n_slab, slabs_left[i]);
        assert_int_equal(pn_block_pool_bytes(&b.pool), pn_mem_bytes(PN_MEM_KV) - before);
        check_marks(&b);
    }
    for (size_t i = 0; i < b.n; i++) {
        if (b.at[i]) continue;
        assert_non_null(b.at[i] = pn_block_take(&b.pool));
        mark(b.at[i], MIB, i);
    }
    check_marks(&b);
    assert_null(pn_block_take(&b.pool));
    free_all(&b);
    assert_int_equal(pn_mem_bytes(PN_MEM_KV), before);
}

static void refused_memory_leaves_the_pool_as_it_was(void **state) {
    (void)state;
    pn_block_pool pool;
    pn_mem_fail_at(1);
    assert_int_equal(pn_block_pool_init(&pool, MIB, 6, NULL), PN_ERR_MEMORY);
    pn_mem_fail_at(0);
    assert_int_equal(pn_block_pool_init(&pool, MIB, 6, NULL), PN_OK);
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        bool fits = i == 3 || i == 5; /* the second block of a slab asks for nothing */
        uint64_t held = pn_block_pool_bytes(&pool);
        pn_mem_fail_at(1);
        blocks[i] = pn_block_take(&pool);
        pn_mem_fail_at(0);
        assert_int_equal(blocks[i] != NULL, fits);
        assert_int_equal(pn_block_pool_bytes(&pool), held);
        if (!fits) assert_non_null(blocks[i] = pn_block_take(&pool));
    }
    for (size_t i = 0; i < 6; i++)
        pn_block_free(&pool, blocks[i]);
    pn_block_pool_done(&pool);
}

static void a_pool_can_be_resized(void **state) {
    (void)state;
    pn_block_pool pool;
    void *blocks[12];
    assert_int_equal(pn_block_pool_init(&pool, MIB, 2, NULL), PN_OK);
    for (size_t i = 0; i < 2; i++)
        assert_non_null(blocks[i] = pn_block_take(&pool));
    assert_null(pn_block_take(&pool));
    pn_mem_fail_at(1);
    assert_int_equal(pn_block_pool_resize(&pool, 12, NULL), PN_ERR_MEMORY);
    pn_mem_fail_at(0);
    assert_null(pn_block_take(&pool));
    assert_int_equal(pn_block_pool_resize(&pool, 12, NULL), PN_OK);
    for (size_t i = 2; i < 12; i++)
        assert_non_null(blocks[i] = pn_block_take(&pool));
    assert_null(pn_block_take(&pool));
    assert_int_equal(pn_block_pool_resize(&pool, 2, NULL), PN_OK);
    pn_block_free(&pool, blocks[11]);
    pn_block_free(&pool, blocks[10]);
    assert_null(pn_block_take(&pool));
    for (size_t i = 0; i < 10; i++)
        pn_block_free(&pool, blocks[i]);
    assert_int_equal(pn_block_pool_bytes(&pool), 0);
    pn_block_pool_done(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_hold_all_blocks_and_little_else),
        cmocka_unit_test(a_full_pool_holds_what_was_planned),
        cmocka_unit_test(freed_blocks_are_used_again),
        cmocka_unit_test(empty_slabs_are_given_back),
        cmocka_unit_test(refused_memory_leaves_the_pool_as_it_was),
        cmocka_unit_test(a_pool_can_be_resized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
