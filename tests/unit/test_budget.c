/* SPDX-License-Identifier: Apache-2.0 */
/* One budget for all memory: what is planned is what is held, what would pass it is refused beforehand and
   says what would do, and nothing passes it, whatever threads do. */
#include "support/check.h"
#include "support/tiny_models.h"

#include "base/mem.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the allocator ---- */

static atomic_bool passed;

static void *allocate_and_free(void *arg) {
    (void)arg;
    void *blocks[16] = {0};
    for (size_t i = 0; i < 20000; i++) {
        const size_t at = i % 16;
        pn_free(blocks[at]);
        blocks[at] = pn_alloc(PN_MEM_KV, 1, 64 + i % 1000);
        if (pn_mem_total() > pn_mem_budget()) atomic_store(&passed, true);
    }
    for (size_t i = 0; i < 16; i++)
        pn_free(blocks[i]);
    return NULL;
}

static void threads_never_pass_the_budget(void **state) {
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    const uint64_t before = pn_mem_total();
    pn_mem_set_budget(before + 16 * 1000); /* a fourth of what they would like */
    for (size_t i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
    for (size_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    pn_mem_set_budget(0);
    assert_false(atomic_load(&passed));
    assert_int_equal(pn_mem_total(), before);
}

static void a_refusal_says_why(void **state) {
    (void)state;
    pn_error err;
    pn_mem_set_budget(pn_mem_total() + 1000);
    assert_null(pn_alloc(PN_MEM_KV, 1, 1001));
    assert_int_equal(pn_fail_memory(&err, "a thing", 1001), PN_ERR_MEMORY);
    assert_non_null(strstr(err.message, "a thing: 1001 bytes wanted; the memory budget of"));
    assert_null(pn_pages_alloc(PN_MEM_KV, 1001));
    void *fits = pn_alloc(PN_MEM_KV, 1, 1000);
    assert_non_null(fits);
    assert_null(pn_realloc(fits, 1, 1001)); /* both are there for a moment */
    pn_mem_set_budget(0);
    assert_int_equal(pn_fail_memory(&err, "a thing", 1), PN_ERR_MEMORY);
    pn_free(fits);
    void *block = pn_alloc(PN_MEM_KV, SIZE_MAX, 2);
    assert_null(block);
    assert_int_equal(pn_fail_memory(&err, "a thing", 1), PN_ERR_MEMORY);
    assert_null(strstr(err.message, "budget"));
}

/* ---- models and sessions ---- */

static const struct {
    const char *path;
    pn_session_options options;
} shapes[] = {
    {"tests/golden/tiny/llama-gqa.gguf", {.n_ctx = 256, .n_chunk = 64}},
    {"tests/golden/tiny/llama-untied-mha.gguf", {.n_ctx = 1000, .n_chunk = 64}},
    {"tests/golden/tiny/gemma3-window.gguf", {.n_ctx = 256, .n_chunk = 16}},
    {"tests/golden/tiny/llama-f16.gguf", {.n_ctx = 1000, .n_chunk = 32, .kv_type = PN_KV_Q8}},
    {"tests/golden/tiny/llama-f16.gguf", {.n_ctx = 1000, .n_chunk = 32, .kv_type = PN_KV_Q4}},
    {"tests/golden/tiny/llama-bias.gguf", {.n_ctx = 256, .kv_type = PN_KV_F32, .lookup = PN_LOOKUP_OFF}},
};

/* In a process of its own, whose peaks are those of one session. */
static void hold_what_is_planned(const char *path, const pn_session_options *session) {
    const pn_model_options options = {.n_threads = 2, .prefix_cache = PN_PREFIX_CACHE_OFF};
    pn_plan before, plan;
    pn_model *model;
    assert_int_equal(pn_plan_file(path, &options, session, &before, NULL), PN_OK);
    assert_int_equal(pn_mem_total(), 0);
    assert_int_equal(pn_model_open(path, &options, &model, NULL), PN_OK);
    assert_int_equal(pn_session_plan(model, session, &plan, NULL), PN_OK);
    assert_int_equal(before.total_bytes, plan.total_bytes);
    pn_session *s = open_session_with(model, *session);
    const int n_vocab = n_vocab_of(model);
    static int32_t tokens[1000];
    for (int n = 0; n < plan.n_ctx; n++)
        tokens[n] = 10 + n * 37 % (n_vocab - 10);
    for (size_t n = 23; n <= (size_t)plan.n_ctx; n += 1 + n % 100) /* chunks begin anywhere */
        assert_int_equal(pn_session_sync(s, tokens, n, NULL, NULL, NULL), PN_OK);
    assert_int_equal(pn_session_sync(s, tokens, (size_t)plan.n_ctx, NULL, NULL, NULL), PN_OK);
    const uint64_t planned = plan.kv_bytes + plan.scratch_bytes,
                   held = pn_mem_peak_bytes(PN_MEM_KV) + pn_mem_peak_bytes(PN_MEM_SCRATCH);
    if (held > planned + planned * 3 / 100 || held < planned - planned * 3 / 100)
        fail_msg("%s: %d bytes held, %d planned", path, (int)held, (int)planned);
    const uint64_t weights = pn_mem_peak_bytes(PN_MEM_WEIGHTS) + pn_mem_peak_bytes(PN_MEM_MAPPED);
    if (weights > plan.weights_bytes * 103 / 100 || weights < plan.weights_bytes * 97 / 100)
        fail_msg("%s: %d bytes of weights held, %d planned", path, (int)weights, (int)plan.weights_bytes);
    pn_session_free(s);
    pn_model_close(model);
}

/* Within 3 %. */
static void what_is_planned_is_held(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            hold_what_is_planned(shapes[i].path, &shapes[i].options);
            _exit(0);
        }
        int code;
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_int_equal(code, 0);
    }
}

static void what_does_not_fit_is_refused_before_it_is_read(void **state) {
    (void)state;
    const char *path = "tests/golden/tiny/llama-f16.gguf";
    pn_session_options session = {.n_ctx = 1000};
    const pn_model_options options = {
        .n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF, .session = &session};
    pn_model *model;
    pn_plan plan;
    pn_error err;
    assert_int_equal(pn_plan_file(path, &options, &session, &plan, NULL), PN_OK);
    pn_memory_set_budget(plan.total_bytes);
    assert_int_equal(pn_model_open(path, &options, &model, NULL), PN_OK);
    pn_session *s = open_session_with(model, session), *second;
    assert_int_equal(pn_session_create(model, &session, &second, &err), PN_ERR_MEMORY);
    pn_session_free(s);
    s = open_session_with(model, session);
    assert_int_equal(pn_session_resize(s, 1024, &err), PN_ERR_MEMORY);
    assert_int_equal(pn_session_resize(s, 500, &err), PN_OK);
    assert_int_equal(pn_session_resize(s, 1000, &err), PN_OK);
    pn_session_free(s);
    pn_model_close(model);

    pn_memory_set_budget(plan.total_bytes - plan.kv_bytes / 16);
    assert_int_equal(pn_model_open(path, &options, &model, &err), PN_ERR_MEMORY);
    const char *context = strstr(err.message, "what would do: a context of ");
    assert_non_null(context);
    assert_non_null(strstr(err.message, "or keys and values of type q8"));
    session.n_ctx = atoi(context + strlen("what would do: a context of "));
    assert_in_range(session.n_ctx, 500, 999);
    assert_int_equal(pn_model_open(path, &options, &model, &err), PN_OK); /* what it says is true */
    s = open_session_with(model, (pn_session_options){0});
    pn_session_stats stats;
    pn_session_get_stats(s, &stats);
    assert_int_equal(stats.n_ctx, session.n_ctx); /* and is what one gets who asks for nothing */
    pn_session_free(s);
    pn_model_close(model);

    pn_memory_set_budget(plan.weights_bytes + plan.tables_bytes);
    assert_int_equal(pn_model_open(path, &options, &model, &err), PN_ERR_MEMORY);
    assert_int_equal(pn_model_open(path, NULL, &model, &err),
                     PN_ERR_MEMORY); /* nor would any other session fit */
    pn_memory_set_budget(0);
    assert_int_equal(pn_mem_total(), 0);
}

/* Each alone fits, and so do the sessions of one. */
static void two_models_share_the_budget(void **state) {
    (void)state;
    const char *path = "tests/golden/tiny/llama-f16.gguf";
    const pn_session_options session = {.n_ctx = 256};
    const pn_model_options options = {
        .n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF, .session = &session};
    pn_model *first, *second;
    pn_plan plan;
    pn_error err;
    assert_int_equal(pn_plan_file(path, &options, &session, &plan, NULL), PN_OK);
    pn_memory_set_budget(plan.total_bytes + (plan.weights_bytes + plan.tables_bytes) / 2);
    assert_int_equal(pn_model_open(path, &options, &first, NULL), PN_OK);
    assert_int_equal(pn_model_open(path, &options, &second, &err), PN_ERR_MEMORY);
    assert_true(pn_mem_total() <= pn_mem_budget());
    pn_model_close(first);
    assert_int_equal(pn_model_open(path, &options, &second, &err), PN_OK); /* the claim is given back */

    pn_memory_set_budget(2 * plan.total_bytes - plan.kv_bytes); /* for both models, and one of the sessions */
    const pn_session_options small = {.n_ctx = 64, .n_chunk = 16};
    const pn_model_options with_small = {
        .n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF, .session = &small};
    assert_int_equal(pn_model_open(path, &with_small, &first, &err), PN_OK);
    pn_session *s = open_session_with(first, session), *other;
    assert_int_equal(pn_session_create(second, &session, &other, &err), PN_ERR_MEMORY);
    pn_session_free(s);
    other = open_session_with(second, session);
    pn_session_free(other);
    pn_model_close(first);
    pn_model_close(second);
    pn_memory_set_budget(0);
}

static void *open_and_close(void *arg) {
    const pn_session_options session = {.n_ctx = 64, .n_chunk = 16};
    const pn_model_options options = {
        .n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF, .session = &session};
    for (int i = 0; i < 20; i++) {
        pn_model *model;
        if (pn_model_open(arg, &options, &model, NULL) != PN_OK) continue; /* others are faster */
        pn_session *s;
        if (pn_session_create(model, &session, &s, NULL) == PN_OK) pn_session_free(s);
        pn_model_close(model);
    }
    return NULL;
}

static void models_of_several_threads_never_pass_the_budget(void **state) {
    (void)state;
    enum { N = 4 };
    char path[] = "tests/golden/tiny/llama-f16.gguf";
    const pn_session_options session = {.n_ctx = 64, .n_chunk = 16};
    const pn_model_options options = {
        .n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF, .session = &session};
    pthread_t threads[N];
    pn_plan plan;
    pn_memory_use peak;
    assert_int_equal(pn_plan_file(path, &options, &session, &plan, NULL), PN_OK);
    pn_memory_set_budget(2 * plan.total_bytes); /* half of what they would like */
    for (size_t i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, path), 0);
    for (size_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    pn_memory_get_use(NULL, &peak);
    assert_true(peak.total <= pn_mem_budget());
    pn_memory_set_budget(0);
    assert_int_equal(pn_mem_total(), 0);
}

/* It is one for all of a type, as large as the largest asks for, and counts once. */
static void a_shared_cache_counts_once(void **state) {
    (void)state;
    const pn_session_options session = {.n_ctx = 256};
    const pn_model_options options = {.n_threads = 1, .prefix_cache = 1 << 20};
    pn_model *model;
    pn_plan plan, next;
    assert_int_equal(pn_model_open("tests/golden/tiny/llama-f16.gguf", &options, &model, NULL), PN_OK);
    assert_int_equal(pn_session_plan(model, &session, &plan, NULL), PN_OK);
    pn_session *s = open_session_with(model, session);
    assert_int_equal(pn_session_plan(model, &session, &next, NULL), PN_OK);
    assert_int_equal(next.total_bytes - plan.total_bytes, plan.kv_bytes + plan.scratch_bytes);
    pn_session_free(s);
    pn_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_planned_is_held), /* first: its processes begin with the peaks so far */
        cmocka_unit_test(models_of_several_threads_never_pass_the_budget), /* before other peaks */
        cmocka_unit_test(threads_never_pass_the_budget),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(what_does_not_fit_is_refused_before_it_is_read),
        cmocka_unit_test(two_models_share_the_budget),
        cmocka_unit_test(a_shared_cache_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
