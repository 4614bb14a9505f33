/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines over a store that they share: whatever they take over, take back or write over, each holds the
   keys and values of its own tokens, within the bytes that were planned. */
#include "support/caches.h"
#include "support/check.h"

#include "base/mem.h"
#include "base/rng.h"

#include <pthread.h>
#include <string.h>

enum { N_LAYER = 3, N_HEAD = 2, DIM = 8, CHUNK = 100, MAX_TOK = 1000 };

static const pn_kv_shape plain = {
    .n_layer = N_LAYER, .n_head_kv = N_HEAD, .head_dim = DIM, .type = PN_KV_F32};
static const pn_kv_shape windowed = {.n_layer = N_LAYER,
                                     .n_head_kv = N_HEAD,
                                     .head_dim = DIM,
                                     .type = PN_KV_F32,
                                     .window = 150,
                                     .window_pattern = 3};
static const pn_kv_shape all_windowed = {.n_layer = N_LAYER,
                                         .n_head_kv = N_HEAD,
                                         .head_dim = DIM,
                                         .type = PN_KV_F16,
                                         .window = 70,
                                         .window_pattern = 100};
static const pn_kv_shape *const shapes[] = {&plain, &windowed, &all_windowed};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* A text and its timeline. */
struct line {
    pn_kv kv;
    int32_t tokens[MAX_TOK];
};

static struct line open_line(pn_kv_store *store, size_t max_tokens) {
    struct line l = {0};
    assert_int_equal(pn_kv_init(&l.kv, store, max_tokens, CHUNK, NULL), PN_OK);
    return l;
}

/* What the model would make of a text's first tokens: something that depends on all of them. Small integers,
   which halves hold as well. */
static float state_after(const int32_t *tokens, size_t n) {
    uint32_t h = 7;
    for (size_t i = 0; i < n; i++)
        h = h * 31 + (uint32_t)tokens[i] + 1;
    return (float)(h % 1021);
}

static void write_position(struct line *l, size_t position) {
    const float state = state_after(l->tokens, position + 1);
    float k[DIM], v[DIM];
    for (int layer = 0; layer < N_LAYER; layer++)
        for (int head = 0; head < N_HEAD; head++) {
            for (int d = 0; d < DIM; d++) {
                k[d] = state + (float)(layer * 16 + head * 8 + d);
                v[d] = -k[d];
            }
            pn_kv_write(&l->kv, pn_kernels_host(), layer, head, position, k, v);
        }
}

static _Thread_local uint64_t most_held; /* bytes, while something is computed */

/* As a session does: tokens [n], of which the timeline has some, in chunks. */
static pn_status extend(struct line *l, const int32_t *tokens, size_t n) {
    while (l->kv.n_tokens < n) {
        const size_t left = n - l->kv.n_tokens, chunk = left < CHUNK ? left : CHUNK;
        pn_kv_publish(&l->kv, l->tokens);
        PN_TRY(pn_kv_reserve(&l->kv, l->kv.n_tokens + chunk, NULL));
        if (pn_mem_bytes(PN_MEM_KV) > most_held) most_held = pn_mem_bytes(PN_MEM_KV);
        memcpy(l->tokens + l->kv.n_tokens, tokens + l->kv.n_tokens, chunk * sizeof *tokens);
        for (size_t i = 0; i < chunk; i++)
            write_position(l, l->kv.n_tokens + i);
        pn_kv_commit(&l->kv, chunk);
    }
    return PN_OK;
}

static _Thread_local size_t n_taken_over; /* tokens that timelines had of others */

/* Returns how much of the text did not have to be computed. */
static size_t resume(struct line *l, const int32_t *tokens, size_t n) {
    size_t own = 0;
    while (own < n && own < l->kv.n_tokens && l->tokens[own] == tokens[own])
        own++;
    pn_kv_publish(&l->kv, l->tokens);
    const size_t resumed = pn_kv_resume(&l->kv, tokens, n, own);
    assert_int_equal(resumed, l->kv.n_tokens);
    if (resumed > own) n_taken_over += resumed - own;
    assert_true(resumed <= n);
    memcpy(l->tokens, tokens, resumed * sizeof *tokens);
    return resumed;
}

static float element(const void *run, pn_kv_type type, size_t i) {
    float x;
    if (type == PN_KV_F32) return ((const float *)run)[i];
    pn_kernels_host()->f16_to_f32((const uint16_t *)run + i, &x, 1);
    return x;
}

/* All that the next token sees. */
static void check_line(const struct line *l) {
    const pn_kv_shape *shape = &l->kv.store->shape;
    for (size_t p = 0; p < l->kv.n_tokens; p++) {
        const float state = state_after(l->tokens, p + 1);
        for (int layer = 0; layer < N_LAYER; layer++) {
            const bool seen =
                pn_kv_lane_of(shape, layer) == PN_KV_FULL || p + (size_t)shape->window > l->kv.n_tokens;
            for (int head = 0; head < N_HEAD && seen; head++) {
                const size_t block = p / PN_KV_BLOCK, slot = p % PN_KV_BLOCK;
                const pn_kv_runs runs = pn_kv_runs_of(&l->kv, layer, head, block, SIZE_MAX);
                for (size_t d = 0; d < DIM; d++) {
                    const float want = state + (float)(layer * 16 + head * 8 + (int)d);
                    assert_float_equal(element(runs.keys, runs.key_type, d * PN_KV_BLOCK + slot), want, 0);
                    assert_float_equal(element(runs.values, runs.value_type, slot * DIM + d), -want, 0);
                }
            }
        }
    }
}

/* The words of a text are few, so that texts have beginnings in common, and part anywhere in a block. */
static size_t make_text(pn_rng *rng, int32_t *tokens, size_t max) {
    const size_t n = 1 + (size_t)(pn_rng_unit(rng) * (double)(max - 1));
    const size_t part = (size_t)(pn_rng_unit(rng) * (double)n);
    const int which = (int)(pn_rng_unit(rng) * 3);
    for (size_t i = 0; i < n; i++)
        tokens[i] = i < part ? 5 : 5 + which;
    return n;
}

/* ---- */

static void a_timeline_grows_and_shrinks_by_blocks(void **state) {
    (void)state;
    const uint64_t before = pn_mem_bytes(PN_MEM_KV);
    const uint64_t block = 64u * 2 * N_LAYER * N_HEAD * DIM * 4;
    pn_kv kv = open_kv(&plain, 130, 130);
    assert_int_equal(pn_kv_bytes(&kv), 0);
    assert_int_equal(pn_kv_reserve(&kv, 1, NULL), PN_OK);
    assert_int_equal(pn_kv_bytes(&kv), block);
    assert_int_equal(pn_kv_reserve(&kv, 64, NULL), PN_OK);
    assert_int_equal(pn_kv_bytes(&kv), block);
    assert_int_equal(pn_kv_reserve(&kv, 130, NULL), PN_OK);
    assert_int_equal(pn_kv_bytes(&kv), 3 * block);
    assert_int_equal(pn_kv_reserve(&kv, 193, NULL), PN_ERR_LIMIT);
    assert_int_equal(pn_kv_bytes(&kv), 3 * block);
    pn_kv_commit(&kv, 130);
    assert_int_equal(pn_kv_truncate(&kv, 500), 130);
    assert_int_equal(pn_kv_truncate(&kv, 64), 64);
    assert_int_equal(pn_kv_bytes(&kv), block);
    for (uint64_t nth = 1; nth <= 4; nth++) { /* two blocks, each with what describes it */
        pn_mem_fail_at(nth);
        assert_int_equal(pn_kv_reserve(&kv, 130, NULL), PN_ERR_MEMORY);
        pn_mem_fail_at(0);
        assert_int_equal(pn_kv_bytes(&kv), block); /* all or nothing */
    }
    pn_kv_done(&kv);
    assert_int_equal(pn_mem_bytes(PN_MEM_KV), before);
}

static void a_full_timeline_holds_what_was_planned(void **state) {
    (void)state;
    static int32_t text[MAX_TOK];
    for (size_t i = 0; i < N_SHAPES; i++) {
        const uint64_t before = pn_mem_bytes(PN_MEM_KV);
        uint64_t planned;
        assert_true(pn_kv_plan_bytes(shapes[i], MAX_TOK, CHUNK, &planned));
        pn_kv_store *store;
        assert_int_equal(pn_kv_store_create(shapes[i], &store, NULL), PN_OK);
        struct line l = open_line(store, MAX_TOK);
        most_held = 0;
        assert_int_equal(extend(&l, text, 21), PN_OK);
        assert_int_equal(extend(&l, text, MAX_TOK), PN_OK);
        const uint64_t most = most_held - before;
        check_line(&l);
        assert_in_range(most, planned * 94 / 100, planned);
        pn_kv_done(&l.kv);
        pn_kv_store_free(store);
        assert_int_equal(pn_mem_bytes(PN_MEM_KV), before);
    }
}

/* 2 x layers x width x tokens x 2 bytes: 448 MB of keys and 448 MB of values, and next to nothing beside. */
static void the_price_of_a_context_is_the_formula(void **state) {
    (void)state;
    const pn_kv_shape shape = {.n_layer = 28, .n_head_kv = 25, .head_dim = 80, .type = PN_KV_F16};
    uint64_t planned;
    assert_int_equal(pn_kv_token_bytes(&shape) * 4000, 896000000);
    assert_true(pn_kv_plan_bytes(&shape, 4000, 256, &planned));
    assert_in_range(planned, 896000000, 896000000 + 896000000 / 100 * 4);
}

/* Four timelines live, end and begin; texts have beginnings in common; memory is refused now and then, and
   hashes collide. */
static void live(const pn_kv_shape *shape, uint64_t quota, uint64_t hash_mask, uint64_t seed) {
    enum { N_LINES = 4, MAX_TEXT = 400, N_TURNS = 400 };
    static int32_t text[MAX_TEXT];
    static struct line lines[N_LINES];
    const uint64_t before = pn_mem_bytes(PN_MEM_KV);
    pn_kv_store *store;
    pn_rng rng;
    pn_rng_seed(&rng, seed);
    n_taken_over = 0;
    assert_int_equal(pn_kv_store_create(shape, &store, NULL), PN_OK);
    assert_int_equal(pn_kv_store_set_quota(store, quota, NULL), PN_OK);
    store->hash_mask = hash_mask;
    for (size_t i = 0; i < N_LINES; i++)
        lines[i] = open_line(store, MAX_TEXT);
    for (int turn = 0; turn < N_TURNS; turn++) {
        struct line *l = &lines[(size_t)(pn_rng_unit(&rng) * N_LINES)];
        const double what = pn_rng_unit(&rng);
        if (what < 0.1) {
            pn_kv_done(&l->kv);
            *l = open_line(store, MAX_TEXT);
            continue;
        }
        const size_t n = make_text(&rng, text, MAX_TEXT);
        if (what < 0.3) { /* to the very end, or the beginning of a block */
            resume(l, text, n);
        } else {
            resume(l, text, n - 1);
            if (what < 0.5) pn_mem_fail_at(1 + (uint64_t)(pn_rng_unit(&rng) * 12));
            const pn_status status = extend(l, text, n);
            if (pn_mem_fail_at(0), status != PN_OK) assert_int_equal(status, PN_ERR_MEMORY);
        }
        check_line(l);
        if (what > 0.8) { /* a guess is taken back */
            const size_t back = (size_t)(pn_rng_unit(&rng) * 4), had = l->kv.n_tokens;
            if (had > back) assert_int_equal(pn_kv_truncate(&l->kv, had - back), had - back);
            check_line(l);
        }
        assert_true(store->cached <= store->quota);
    }
    for (size_t i = 0; i < N_LINES; i++) {
        check_line(&lines[i]);
        pn_kv_done(&lines[i].kv);
    }
    assert_true(quota == 0 || n_taken_over > 0);
    pn_kv_store_free(store);
    assert_int_equal(pn_mem_bytes(PN_MEM_KV), before);
}

static void timelines_share_and_never_mix(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            live(shapes[i], 1 << 20, UINT64_MAX, seed);
            live(shapes[i], 1 << 20, 1, seed);
            live(shapes[i], 100 << 10, UINT64_MAX, seed);
            live(shapes[i], 0, UINT64_MAX, seed);
        }
}

/* Where nothing was taken over, computing the rest would begin at 0. */
static void windows_resume_where_their_blocks_are(void **state) {
    (void)state;
    static int32_t text[800];
    pn_kv_store *store;
    for (size_t i = 0; i < 800; i++)
        text[i] = (int32_t)i;
    assert_int_equal(pn_kv_store_create(&windowed, &store, NULL), PN_OK);
    assert_int_equal(pn_kv_store_set_quota(store, 10 << 20, NULL), PN_OK);
    struct line a = open_line(store, 900), b = open_line(store, 900);
    assert_int_equal(extend(&a, text, 800), PN_OK);
    pn_kv_publish(&a.kv, a.tokens);
    assert_int_equal(resume(&b, text, 600), 576); /* all blocks that its window reaches are in the tree */
    check_line(&b);
    pn_kv_done(&b.kv);
    assert_int_equal(resume(&a, text, 790), 790); /* its own, partly filled block */
    assert_int_equal(pn_kv_store_set_quota(store, 0, NULL), PN_OK);
    assert_int_equal(resume(&a, text, 700), 0); /* the windowed lane has nothing so far back */
    pn_kv_done(&a.kv);
    pn_kv_store_free(store);
}

/* The windowed blocks before the place where texts part, as after a system prompt, outlive those of texts
   since, in a cache that holds one window. */
static void windows_stay_where_texts_part(void **state) {
    (void)state;
    enum { SYSTEM = 256, TEXT = 700, N_TEXTS = 6 };
    static int32_t text[TEXT];
    const size_t window_blocks = (size_t)windowed.window / PN_KV_BLOCK + 2;
    pn_kv_store *store;
    assert_int_equal(pn_kv_store_create(&windowed, &store, NULL), PN_OK);
    const uint64_t full = pn_kv_store_block_bytes(store, PN_KV_FULL, windowed.type),
                   passing = pn_kv_store_block_bytes(store, PN_KV_WINDOWED, windowed.type);
    assert_int_equal(pn_kv_store_set_quota(store, 12 * full + window_blocks * passing, NULL), PN_OK);
    for (int32_t which = 0; which < N_TEXTS; which++) {
        struct line l = open_line(store, TEXT);
        for (size_t i = 0; i < TEXT; i++)
            text[i] = i < SYSTEM ? (int32_t)i : 1000 * (which + 1) + (int32_t)i;
        const size_t resumed = resume(&l, text, TEXT - 1);
        if (which >= 2) assert_int_equal(resumed, SYSTEM); /* the second text is the first to part */
        assert_int_equal(extend(&l, text, TEXT), PN_OK);
        check_line(&l);
        pn_kv_publish(&l.kv, l.tokens);
        pn_kv_done(&l.kv);
    }
    pn_kv_store_free(store);
}

/* The last block of a timeline that has no room beside: the tree lets go of it. */
static void a_block_is_written_without_room_for_a_copy(void **state) {
    (void)state;
    static int32_t text[128];
    pn_kv_store *store;
    assert_int_equal(pn_kv_store_create(&plain, &store, NULL), PN_OK);
    struct line l = open_line(store, 128);
    assert_int_equal(extend(&l, text, 128), PN_OK);
    pn_kv_publish(&l.kv, l.tokens);
    text[100] = 9;
    assert_int_equal(resume(&l, text, 127), 100);
    assert_int_equal(extend(&l, text, 128), PN_OK);
    check_line(&l);
    pn_kv_done(&l.kv);
    pn_kv_store_free(store);
}

/* ---- several threads ---- */

struct talker {
    pn_kv_store *store;
    uint64_t seed;
};

static void *talk(void *arg) {
    const struct talker *t = arg;
    int32_t text[300];
    pn_rng rng;
    pn_rng_seed(&rng, t->seed);
    struct line l = open_line(t->store, 300);
    for (int turn = 0; turn < 60; turn++) {
        const size_t n = make_text(&rng, text, 300);
        resume(&l, text, n - 1);
        assert_int_equal(extend(&l, text, n), PN_OK);
        check_line(&l);
    }
    pn_kv_done(&l.kv);
    return NULL;
}

static void threads_share_a_store(void **state) {
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    struct talker talkers[N];
    pn_kv_store *store;
    assert_int_equal(pn_kv_store_create(&windowed, &store, NULL), PN_OK);
    assert_int_equal(pn_kv_store_set_quota(store, 200 << 10, NULL), PN_OK);
    for (size_t i = 0; i < N; i++) {
        talkers[i] = (struct talker){store, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, talk, &talkers[i]), 0);
    }
    for (size_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    pn_kv_store_free(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeline_grows_and_shrinks_by_blocks),
        cmocka_unit_test(a_full_timeline_holds_what_was_planned),
        cmocka_unit_test(the_price_of_a_context_is_the_formula),
        cmocka_unit_test(timelines_share_and_never_mix),
        cmocka_unit_test(windows_resume_where_their_blocks_are),
        cmocka_unit_test(windows_stay_where_texts_part),
        cmocka_unit_test(a_block_is_written_without_room_for_a_copy),
        cmocka_unit_test(threads_share_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
