/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/cpu.h"
#include "base/cursor.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void error_messages_stay_on_one_line(void **state) {
    (void)state;
    pn_error err;
    assert_int_equal(pn_fail_at(&err, PN_ERR_FORMAT, 7, "key \"%s\" is odd", "a\nb\x1b[0m"), PN_ERR_FORMAT);
    assert_int_equal(err.position, 7);
    assert_string_equal(err.message, "key \"a b [0m\" is odd");
    pn_error_prefix(&err, "%s", "file.gguf");
    assert_string_equal(err.message, "file.gguf: key \"a b [0m\" is odd");
    assert_int_equal(pn_fail(NULL, PN_ERR_IO, "nobody listens"), PN_ERR_IO);
}

static void error_messages_are_cut_not_overrun(void **state) {
    (void)state;
    char long_name[2000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    pn_error err;
    assert_int_equal(pn_fail(&err, PN_ERR_IO, "%s", long_name), PN_ERR_IO);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    pn_error_prefix(&err, "%s", long_name);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    /* A character at the cut goes whole. */
    memcpy(long_name + sizeof err.message - 2, "\xc3\xa4", 2);
    assert_int_equal(pn_fail(&err, PN_ERR_IO, "%s", long_name), PN_ERR_IO);
    assert_int_equal(strlen(err.message), sizeof err.message - 2);
}

static void memory_is_zeroed_aligned_and_counted(void **state) {
    (void)state;
    uint64_t before = pn_mem_bytes(PN_MEM_KV);
    char *block = pn_alloc(PN_MEM_KV, 100, 3);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(block[i], 0);
    assert_int_equal(pn_mem_bytes(PN_MEM_KV), before + 300);
    block[299] = 9;
    block = pn_realloc(block, 1, 1000);
    assert_int_equal(block[299], 9);
    assert_int_equal(pn_mem_bytes(PN_MEM_KV), before + 1000);
    assert_true(pn_mem_peak_bytes(PN_MEM_KV) >= before + 1300);
    pn_free(block);
    assert_int_equal(pn_mem_bytes(PN_MEM_KV), before);
}

static void pages_are_zeroed_aligned_and_counted(void **state) {
    (void)state;
    enum { BYTES = (5 << 20) + 3 };
    uint64_t before = pn_mem_bytes(PN_MEM_WEIGHTS);
    char *pages = pn_pages_alloc(PN_MEM_WEIGHTS, BYTES);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % (2 << 20), 0);
    assert_int_equal(pn_mem_bytes(PN_MEM_WEIGHTS), before + BYTES);
    for (size_t i = 0; i < BYTES; i += 1021)
        assert_int_equal(pages[i], 0);
    memset(pages, 1, BYTES);
    pn_pages_free(PN_MEM_WEIGHTS, pages, BYTES);
    assert_int_equal(pn_mem_bytes(PN_MEM_WEIGHTS), before);
    pn_pages_free(PN_MEM_WEIGHTS, NULL, 0);
    assert_null(pn_pages_alloc(PN_MEM_WEIGHTS, SIZE_MAX - 1));
    pn_mem_fail_at(1);
    assert_null(pn_pages_alloc(PN_MEM_WEIGHTS, BYTES));
    pn_mem_fail_at(0);
    assert_int_equal(pn_mem_bytes(PN_MEM_WEIGHTS), before);
}

static void memory_refuses_products_that_wrap(void **state) {
    (void)state;
    assert_null(pn_alloc(PN_MEM_OTHER, SIZE_MAX / 2, 3));
    assert_null(pn_alloc(PN_MEM_OTHER, SIZE_MAX, 1));
    uint64_t out = 5;
    assert_false(pn_mul_u64(UINT64_C(1) << 42, UINT64_C(1) << 22, &out));
    assert_false(pn_add_u64(UINT64_MAX, 1, &out));
}

static void the_nth_allocation_fails_once(void **state) {
    (void)state;
    pn_mem_fail_at(2);
    void *first = pn_alloc(PN_MEM_OTHER, 1, 1);
    void *second = pn_alloc(PN_MEM_OTHER, 1, 1);
    void *third = pn_alloc(PN_MEM_OTHER, 1, 1);
    assert_int_equal(pn_mem_fail_at(0), 3);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    pn_free(first);
    pn_free(third);
}

static void the_arena_keeps_its_bound(void **state) {
    (void)state;
    pn_arena arena;
    pn_arena_init(&arena, 1000);
    char *copy = pn_arena_copy(&arena, "abc", 3);
    assert_string_equal(copy, "abc");
    assert_non_null(pn_arena_alloc(&arena, 900));
    assert_null(pn_arena_alloc(&arena, 900));
    assert_null(pn_arena_alloc(&arena, SIZE_MAX));
    assert_string_equal(copy, "abc");
    pn_arena_done(&arena);
}

static void a_buffer_remembers_its_first_failure(void **state) {
    (void)state;
    pn_buf buf;
    pn_buf_init(&buf, 10);
    assert_int_equal(pn_buf_append_str(&buf, "12345"), PN_OK);
    assert_int_equal(pn_buf_append_fmt(&buf, "%d", 123456), PN_ERR_LIMIT);
    assert_int_equal(pn_buf_append_str(&buf, "6"), PN_ERR_LIMIT);
    assert_null(pn_buf_take(&buf, NULL));
    pn_buf_clear(&buf);
    size_t len = 99;
    char *empty = pn_buf_take(&buf, &len);
    assert_string_equal(empty, "");
    assert_int_equal(len, 0);
    pn_free(empty);
    pn_buf_done(&buf);
}

static void the_cursor_sticks_at_the_first_short_read(void **state) {
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4, 5};
    pn_cursor c = pn_cursor_make(bytes, sizeof bytes);
    assert_int_equal(pn_cursor_u16(&c), 0x0201);
    assert_int_equal(pn_cursor_u32(&c), 0);
    assert_int_equal(pn_cursor_u8(&c), 0); /* a byte is there, but the cursor has failed */
    assert_int_equal(pn_cursor_left(&c), 0);
    pn_error err;
    assert_int_equal(pn_cursor_check(&c, "count", &err), PN_ERR_FORMAT);
    assert_int_equal(err.position, 2);
    c = pn_cursor_make(bytes, sizeof bytes);
    assert_false(pn_cursor_skip(&c, UINT64_MAX));
    assert_int_equal(pn_cursor_bytes(&c, UINT64_MAX).len, 0);
}

static void odd_paths_are_refused_with_their_name(void **state) {
    (void)state;
    pn_map map;
    pn_error err;
    assert_int_equal(pn_map_open("no/such/file", &map, &err), PN_ERR_IO);
    assert_non_null(strstr(err.message, "no/such/file"));
    assert_int_equal(pn_map_open("/", &map, &err), PN_ERR_IO);
    assert_non_null(strstr(err.message, "folder"));
    assert_int_equal(pn_map_open("/dev/null", &map, &err), PN_ERR_IO);
    char name[] = "/tmp/pn_test_XXXXXX";
    int fd = mkstemp(name);
    assert_int_equal(pn_map_open(name, &map, &err), PN_ERR_FORMAT);
    assert_int_equal(write(fd, "abc", 3), 3);
    assert_int_equal(pn_map_open(name, &map, &err), PN_OK);
    assert_int_equal(map.len, 3);
    pn_map_close(&map);
    close(fd);
    unlink(name);
}

/* ---- pool ---- */

struct marks {
    atomic_int seen[1000];
    atomic_int bad_worker, short_range;
    size_t n, grain;
    int n_threads;
};

static void mark(void *arg, size_t begin, size_t end, int worker) {
    struct marks *m = arg;
    if (worker < 0 || worker >= m->n_threads) atomic_store(&m->bad_worker, 1);
    if (end - begin < m->grain && end - begin < m->n) atomic_store(&m->short_range, 1);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&m->seen[i], 1);
}

static void check_covers_once(pn_pool *pool, int n_threads, size_t n, size_t grain) {
    struct marks m = {.n = n, .grain = grain, .n_threads = n_threads ? n_threads : pn_pool_threads(pool)};
    pn_pool_run_on(pool, n_threads, mark, &m, n, grain);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(atomic_load(&m.seen[i]), i < n ? 1 : 0);
    assert_int_equal(atomic_load(&m.bad_worker), 0);
    assert_int_equal(atomic_load(&m.short_range), 0);
}

static void every_item_is_done_exactly_once(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        pn_pool *pool;
        assert_int_equal(pn_pool_create(n_threads, &pool, NULL), PN_OK);
        for (size_t n = 0; n < 70; n++)
            check_covers_once(pool, 0, n, 1);
        check_covers_once(pool, 0, 1000, 7);
        check_covers_once(pool, 0, 5, 100);
        for (int on = 1; on <= n_threads + 1; on++)
            check_covers_once(pool, on, 999, 8);
        usleep(20000); /* long enough for the workers to fall asleep */
        check_covers_once(pool, 0, 999, 8);
        pn_pool_free(pool);
    }
}

struct hold {
    atomic_int n_done, was_alone;
};

enum { HOLD_ITEMS = 64 };

/* Whoever is dealt the first chunk stays in it until all others are done, or for a while. */
static void hold_the_first(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    struct hold *h = arg;
    int others = (int)(HOLD_ITEMS - (end - begin));
    for (int i = 0; begin == 0 && atomic_load(&h->n_done) < others; i++) {
        if (i == 200) atomic_store(&h->was_alone, 1);
        if (i == 200) break;
        usleep(1000);
    }
    atomic_fetch_add(&h->n_done, (int)(end - begin));
}

static void a_worker_that_is_held_up_keeps_only_what_it_has_in_hand(void **state) {
    (void)state;
    pn_pool *pool;
    assert_int_equal(pn_pool_create(2, &pool, NULL), PN_OK);
    int n_alone = 0;
    for (int i = 0; i < 20; i++) {
        struct hold h = {0};
        pn_pool_run(pool, hold_the_first, &h, HOLD_ITEMS, 1);
        assert_int_equal(atomic_load(&h.n_done), HOLD_ITEMS);
        n_alone += atomic_load(&h.was_alone);
    }
    assert_true(n_alone < 20); /* a busy machine may leave the other worker without a core now and then */
    pn_pool_free(pool);
}

static void *run_many(void *arg) {
    for (int i = 0; i < 300; i++)
        check_covers_once(arg, 0, 100, 1);
    return NULL;
}

static void callers_take_turns(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        pn_pool *pool;
        assert_int_equal(pn_pool_create(n_threads, &pool, NULL), PN_OK);
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, run_many, pool), 0);
        run_many(pool);
        pthread_join(other, NULL);
        pn_pool_free(pool);
    }
}

static void impossible_thread_counts_are_refused(void **state) {
    (void)state;
    pn_pool *pool;
    assert_int_equal(pn_pool_create(-1, &pool, NULL), PN_ERR_ARGUMENT);
    assert_int_equal(pn_pool_create(1000000, &pool, NULL), PN_ERR_ARGUMENT);
    assert_true(pn_cpu_usable_threads() >= 1);
}

static void a_misspelt_instruction_set_is_named(void **state) {
    (void)state;
    static const char *const good[] = {"",    "scalar", "avx2",    "AVX512", "avxvnni",    "avx512vnni",
                                       "amx", "neon",   "dotprod", "i8mm",   "avx2,avx512"};
    const char *set = getenv("PN_CPU");
    char *before = set ? strdup(set) : NULL;
    pn_error err;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        setenv("PN_CPU", good[i], 1);
        assert_int_equal(pn_cpu_check(NULL), PN_OK);
    }
    setenv("PN_CPU", "avx2,sse9", 1);
    assert_int_equal(pn_cpu_check(&err), PN_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "\"sse9\""));
    if (before)
        setenv("PN_CPU", before, 1);
    else
        unsetenv("PN_CPU");
    free(before);
    assert_string_equal(pn_cpu_feature_name(0), "scalar");
    assert_string_equal(pn_cpu_feature_name(PN_CPU_AVX2 | PN_CPU_AVX512), "avx512");
    assert_string_equal(pn_cpu_feature_name(PN_CPU_NEON | PN_CPU_DOTPROD | PN_CPU_I8MM), "i8mm");
}

static void the_generator_matches_its_published_stream(void **state) {
    (void)state;
    /* splitmix64 from state 0 begins 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
       0xf88bb8a8724c81ec (the reference implementation's own first outputs). */
    pn_rng rng;
    pn_rng_seed(&rng, 0);
    assert_int_equal(rng.s[0], UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(rng.s[3], UINT64_C(0xf88bb8a8724c81ec));
    /* xoshiro256** from state 1, 2, 3, 4 begins 11520, 0, 1509978240. */
    rng = (pn_rng){{1, 2, 3, 4}};
    assert_int_equal(pn_rng_u64(&rng), 11520);
    assert_int_equal(pn_rng_u64(&rng), 0);
    assert_int_equal(pn_rng_u64(&rng), 1509978240);
    for (int i = 0; i < 1000; i++) {
        double u = pn_rng_unit(&rng);
        assert_true(u >= 0 && u < 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_messages_stay_on_one_line),
        cmocka_unit_test(error_messages_are_cut_not_overrun),
        cmocka_unit_test(memory_is_zeroed_aligned_and_counted),
        cmocka_unit_test(pages_are_zeroed_aligned_and_counted),
        cmocka_unit_test(memory_refuses_products_that_wrap),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(the_arena_keeps_its_bound),
        cmocka_unit_test(a_buffer_remembers_its_first_failure),
        cmocka_unit_test(the_cursor_sticks_at_the_first_short_read),
        cmocka_unit_test(odd_paths_are_refused_with_their_name),
        cmocka_unit_test(every_item_is_done_exactly_once),
        cmocka_unit_test(a_worker_that_is_held_up_keeps_only_what_it_has_in_hand),
        cmocka_unit_test(callers_take_turns),
        cmocka_unit_test(impossible_thread_counts_are_refused),
        cmocka_unit_test(a_misspelt_instruction_set_is_named),
        cmocka_unit_test(the_generator_matches_its_published_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
