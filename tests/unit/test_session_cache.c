/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions have of each other's texts, and what becomes of texts that do not fit the context. */
#include "support/check.h"
#include "support/tiny_models.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "kv/step_down.h"

#include <postern.h>

#include <stdlib.h>
#include <string.h>

/* ---- sharing ---- */

enum { LONG = 200 };

static void make_long(int32_t tokens[LONG], int n_vocab) {
    for (int i = 0; i < LONG; i++)
        tokens[i] = 10 + (i * 37 + i * i) % (n_vocab - 10);
}

static void check_sync(pn_session *session, const int32_t *tokens, size_t n) {
    assert_int_equal(pn_session_sync(session, tokens, n, NULL, NULL, NULL), PN_OK);
}

static void check_logits_of(pn_session *session, const int32_t *tokens, size_t n, size_t n_shared,
                            const float *want, int n_vocab) {
    pn_session_stats stats;
    assert_int_equal(pn_session_sync(session, tokens, n, NULL, NULL, NULL), PN_OK);
    pn_session_get_stats(session, &stats);
    assert_int_equal(stats.n_shared, n_shared);
    assert_int_equal(stats.n_reused + stats.n_prefilled, n);
    assert_memory_equal(pn_session_logits(session), want, (size_t)n_vocab * sizeof *want);
}

/* What another session has, or one that is gone has left, is taken over in whole blocks: the same bits, in
   any chunks. */
static void check_sharing(const char *path, pn_kv_type type, uint64_t prefix_cache) {
    const pn_session_options one = {.n_ctx = LONG, .n_chunk = 48, .kv_type = type};
    const pn_session_options other = {.n_ctx = LONG, .n_chunk = 17, .kv_type = type};
    const pn_model_options options = {.n_threads = 2, .prefix_cache = prefix_cache};
    pn_model *model = NULL;
    assert_int_equal(pn_model_open(path, &options, &model, NULL), PN_OK);
    const int n_vocab = n_vocab_of(model);
    float *want = malloc((size_t)n_vocab * sizeof *want);
    int32_t tokens[LONG];
    make_long(tokens, n_vocab);
    pn_session *a = open_session_with(model, one), *b = open_session_with(model, other);
    assert_int_equal(pn_session_sync(a, tokens, LONG, NULL, NULL, NULL), PN_OK);
    memcpy(want, pn_session_logits(a), (size_t)n_vocab * sizeof *want);
    check_logits_of(b, tokens, LONG, 192, want, n_vocab);
    pn_session_free(a);
    assert_int_equal(pn_session_sync(b, tokens, 0, NULL, NULL, NULL), PN_OK);
    const size_t left = prefix_cache == PN_PREFIX_CACHE_OFF ? 0 : 192;
    check_logits_of(b, tokens, LONG, left, want, n_vocab);
    pn_session_free(b);
    pn_session *c = open_session_with(model, one);
    check_logits_of(c, tokens, LONG, left, want, n_vocab);
    pn_session_free(c);
    free(want);
    pn_model_close(model);
}

static void sessions_share_their_beginnings(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++) {
            check_sharing(paths[p], (pn_kv_type)type, 1 << 24);
            check_sharing(paths[p], (pn_kv_type)type, PN_PREFIX_CACHE_OFF);
        }
}

/* Nothing is taken over, from sessions or from what they left, but what the timeline has is kept; the bits
   are the same. */
static void a_session_can_keep_to_itself(void **state) {
    (void)state;
    const pn_model_options options = {.n_threads = 2, .prefix_cache = 1 << 24};
    pn_model *model = NULL;
    pn_session_stats stats;
    int32_t tokens[LONG];
    assert_int_equal(pn_model_open(LLAMA, &options, &model, NULL), PN_OK);
    const size_t n_bytes = (size_t)n_vocab_of(model) * sizeof(float);
    float *want = malloc(n_bytes);
    make_long(tokens, n_vocab_of(model));
    pn_session *a = open_session(model, LONG, 48), *b = open_session(model, LONG, 48);
    check_sync(a, tokens, LONG);
    memcpy(want, pn_session_logits(a), n_bytes);
    pn_session_set_takeover(b, false);
    check_sync(b, tokens, 100);
    check_logits_of(b, tokens, LONG, 0, want, n_vocab_of(model));
    pn_session_get_stats(b, &stats);
    assert_int_equal(stats.n_reused, 100);
    check_sync(b, NULL, 0);
    check_logits_of(b, tokens, LONG, 0, want, n_vocab_of(model));
    pn_session_get_stats(b, &stats);
    assert_int_equal(stats.n_reused, 0);
    pn_session_set_takeover(b, true);
    check_sync(b, tokens, 0);
    check_logits_of(b, tokens, LONG, 192, want, n_vocab_of(model));
    free(want);
    pn_session_free(a);
    pn_session_free(b);
    pn_model_close(model);
}

static void overflow_can_be_changed(void **state) {
    (void)state;
    pn_model *model = open_model(LLAMA, 2);
    pn_session *session = open_session(model, 64, 16);
    const pn_generate_options o = greedy(8);
    int32_t tokens[LONG];
    make_long(tokens, n_vocab_of(model));
    pn_generate_result result;
    assert_int_equal(pn_generate(session, tokens, LONG, &o, &result, NULL), PN_ERR_LIMIT);
    pn_session_set_overflow(session, PN_OVERFLOW_SLIDE);
    result = generate(session, tokens, LONG, &o);
    assert_true(result.n_slides > 0);
    pn_generate_result_free(&result);
    pn_session_set_overflow(session, PN_OVERFLOW_ERROR);
    assert_int_equal(pn_generate(session, tokens, LONG, &o, &result, NULL), PN_ERR_LIMIT);
    pn_session_free(session);
    pn_model_close(model);
}

/* Rounding activations differently gives other keys and values: a text is not taken over then. */
static void precisions_share_nothing(void **state) {
    (void)state;
    const pn_model_options options = {.n_threads = 2, .prefix_cache = 1 << 24};
    pn_model *model = NULL;
    assert_int_equal(pn_model_open(CODED, &options, &model, NULL), PN_OK);
    const int n_vocab = n_vocab_of(model);
    float *want = malloc((size_t)n_vocab * sizeof *want);
    int32_t tokens[LONG];
    make_long(tokens, n_vocab);
    const pn_session_options fast = {.n_ctx = LONG, .precision = PN_PRECISION_FAST}, high = {.n_ctx = LONG};
    pn_session *a = open_session_with(model, fast);
    check_sync(a, tokens, LONG);
    memcpy(want, pn_session_logits(a), (size_t)n_vocab * sizeof *want);
    pn_session_free(a);
    pn_session_stats stats;
    pn_session *b = open_session_with(model, high);
    check_sync(b, tokens, LONG);
    pn_session_get_stats(b, &stats);
    assert_int_equal(stats.n_shared, 0);
    assert_memory_not_equal(pn_session_logits(b), want, (size_t)n_vocab * sizeof *want);
    pn_session_free(b);
    a = open_session_with(model, fast); /* both have left their text */
    check_logits_of(a, tokens, LONG, LONG / 64 * 64, want, n_vocab);
    pn_session_free(a);
    free(want);
    pn_model_close(model);
}

static void forks_go_on_by_themselves(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        pn_model *model = open_model(paths[p], 2);
        const int n_vocab = n_vocab_of(model);
        int32_t tokens[LONG];
        make_long(tokens, n_vocab);
        pn_session *a = open_session(model, LONG, 48), *b;
        const pn_generate_options o = greedy(12);
        assert_int_equal(pn_session_sync(a, tokens, 150, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_fork(a, &b, NULL), PN_OK);
        pn_session_stats stats;
        pn_session_get_stats(b, &stats);
        assert_int_equal(stats.n_shared, 128);
        assert_int_equal(stats.n_tokens, 150);
        pn_generate_result of_b = generate(b, tokens, 150, &o), of_a = generate(a, tokens, 150, &o);
        assert_int_equal(of_b.n_reused, 150);
        assert_string_equal(of_a.text.data, of_b.text.data);
        assert_int_equal(pn_session_sync(b, tokens, 170, NULL, NULL, NULL),
                         PN_OK); /* parts from a in a block */
        pn_generate_result again = generate(a, tokens, 150, &o);
        assert_string_equal(of_a.text.data, again.text.data);
        pn_generate_result_free(&again);
        pn_generate_result_free(&of_b);
        pn_generate_result_free(&of_a);
        pn_session_free(a);
        pn_session_free(b);
        pn_model_close(model);
    }
}

static void sessions_can_be_resized(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        pn_model *model = open_model(paths[p], 2);
        const int n_vocab = n_vocab_of(model);
        int32_t tokens[LONG];
        make_long(tokens, n_vocab);
        pn_session *cold = open_session(model, LONG, 16), *s = open_session(model, 100, 16);
        pn_session_stats stats;
        pn_error err;
        assert_int_equal(pn_session_sync(cold, tokens, LONG, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_sync(s, tokens, 100, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_sync(s, tokens, LONG, NULL, NULL, &err), PN_ERR_LIMIT);
        assert_int_equal(pn_session_resize(s, 99, &err), PN_ERR_LIMIT);
        assert_int_equal(pn_session_resize(s, 1 << 30, &err), PN_ERR_ARGUMENT);
        for (uint64_t nth = 1;; nth++) { /* each allocation fails once */
            pn_mem_fail_at(nth);
            const pn_status status = pn_session_resize(s, LONG, &err);
            pn_mem_fail_at(0);
            if (status == PN_OK) break;
            assert_int_equal(status, PN_ERR_MEMORY);
            pn_session_get_stats(s, &stats);
            assert_int_equal(stats.n_ctx, 100);
            assert_int_equal(stats.n_tokens, 100);
            assert_true(nth < 100);
        }
        pn_session_get_stats(s, &stats);
        assert_int_equal(stats.n_tokens, 100);
        pn_session_free(cold); /* so that nothing but its own can be reused */
        cold = open_session(model, LONG, 16);
        assert_int_equal(pn_session_sync(s, tokens, LONG, NULL, NULL, NULL), PN_OK);
        pn_session_get_stats(s, &stats);
        assert_true(stats.n_reused >= 100);
        assert_int_equal(pn_session_sync(cold, tokens, LONG, NULL, NULL, NULL), PN_OK);
        assert_memory_equal(pn_session_logits(s), pn_session_logits(cold), (size_t)n_vocab * sizeof(float));
        pn_session_free(cold);
        pn_session_free(s);
        pn_model_close(model);
    }
}

static void tiers_have_sizes_and_quotas(void **state) {
    (void)state;
    pn_model *model = open_model(LLAMA, 1);
    pn_session *s;
    pn_session_stats stats;
    pn_plan plan;
    pn_error err;
    pn_session_options o = {.tier = "short"};
    assert_int_equal(pn_session_create(model, &o, &s, NULL), PN_OK);
    pn_session_free(s);
    o.n_ctx = 10;
    assert_int_equal(pn_session_create(model, &o, &s, &err), PN_ERR_ARGUMENT);
    o = (pn_session_options){.n_ctx = 64};
    assert_int_equal(pn_session_plan(model, &o, &plan, NULL), PN_OK);
    pn_model_close(model);

    const pn_tier tiers[] = {{"chat", 64, 2 * plan.kv_bytes}, {"book", 1 << 30, 0}},
                  twice[] = {tiers[0], tiers[0]};
    pn_model_options options = {.n_threads = 1, .tiers = twice, .n_tiers = 2};
    assert_int_equal(pn_model_open(LLAMA, &options, &model, &err), PN_ERR_ARGUMENT);
    options.tiers = tiers;
    assert_int_equal(pn_model_open(LLAMA, &options, &model, &err), PN_OK);
    o = (pn_session_options){.tier = "chat"};
    pn_session *a = open_session_with(model, o), *b = open_session_with(model, o);
    assert_int_equal(pn_session_create(model, &o, &s, &err), PN_ERR_LIMIT);
    assert_int_equal(pn_session_fork(a, &s, &err), PN_ERR_LIMIT);
    assert_int_equal(pn_session_set_tier(b, "novel", &err), PN_ERR_ARGUMENT);
    assert_int_equal(pn_session_set_tier(b, "book", &err), PN_OK);
    pn_session_get_stats(b, &stats);
    assert_string_equal(stats.tier, "book");
    pn_model_info info;
    pn_model_get_info(model, &info);
    assert_int_equal(stats.n_ctx, info.n_ctx_train);
    s = open_session_with(model, o); /* in the place of b */
    assert_int_equal(pn_session_set_tier(b, "chat", &err), PN_ERR_LIMIT);
    assert_int_equal(pn_session_resize(s, 32, &err), PN_OK); /* leaves its tier */
    assert_int_equal(pn_session_set_tier(b, "chat", &err), PN_OK);
    pn_session_free(a);
    pn_session_free(b);
    pn_session_free(s);
    pn_model_close(model);
}

/* ---- conversations apart ---- */

enum { N_TALKS = 20, N_PAIRS = 40, TALK = 150, COMMON = 70, WORDS = 8 };

/* A conversation: a system prompt that all share, then what it alone says, and its answer when nothing is
 * shared. */
struct talk {
    int32_t tokens[TALK], answer[WORDS];
};

static void answer_to(pn_model *model, const struct talk *talk, int32_t answer[WORDS]) {
    pn_session *s = open_session(model, TALK + WORDS, 32);
    const pn_generate_options o = greedy(WORDS);
    pn_generate_result r = generate(s, talk->tokens, TALK, &o);
    memcpy(answer, r.tokens.ids, WORDS * sizeof *answer);
    pn_generate_result_free(&r);
    pn_session_free(s);
}

static void make_talks(pn_model *model, struct talk talks[N_TALKS]) {
    const int n_vocab = n_vocab_of(model);
    for (int t = 0; t < N_TALKS; t++) {
        for (int i = 0; i < TALK; i++)
            talks[t].tokens[i] = 10 + (i < COMMON ? i * 7 : i * (t + 3) + t * 11) % (n_vocab - 10);
        answer_to(model, &talks[t], talks[t].answer);
    }
}

struct speaker {
    pn_model *model;
    const struct talk *talks;
    int first;
    bool foreign; /* it was answered with another's words */
};

static void *speak(void *arg) {
    struct speaker *s = arg;
    for (int i = 0; i < N_PAIRS; i++) {
        const struct talk *talk = &s->talks[(s->first + i * 7) % N_TALKS];
        int32_t answer[WORDS];
        answer_to(s->model, talk, answer);
        if (memcmp(answer, talk->answer, sizeof answer) != 0) s->foreign = true;
    }
    return NULL;
}

/* Two at a time, in a cache for four, with hashes that tell nothing apart. */
static void conversations_never_mix(void **state) {
    (void)state;
    static struct talk talks[N_TALKS];
    for (size_t p = 0; p < N_PATHS; p++)
        for (int hashed = 0; hashed < 2; hashed++) {
            const pn_model_options cold = {.n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF};
            pn_model *model;
            pn_plan plan;
            assert_int_equal(pn_model_open(paths[p], &cold, &model, NULL), PN_OK);
            make_talks(model, talks);
            const pn_session_options o = {.n_ctx = TALK + WORDS, .n_chunk = 32};
            assert_int_equal(pn_session_plan(model, &o, &plan, NULL), PN_OK);
            pn_model_close(model);
            const pn_model_options options = {.n_threads = 2, .prefix_cache = 4 * plan.kv_bytes};
            assert_int_equal(pn_model_open(paths[p], &options, &model, NULL), PN_OK);
            pn_session_free(open_session_with(model, o)); /* so that there is a store */
            if (!hashed) model->stores[PN_KV_F16][PN_PRECISION_HIGH]->hash_mask = 0;
            struct speaker speakers[] = {{model, talks, 0, false}, {model, talks, 3, false}};
            pthread_t threads[2];
            for (int i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, speak, &speakers[i]), 0);
            for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
            assert_false(speakers[0].foreign || speakers[1].foreign);
            pn_session *last = open_session_with(model, o);
            pn_session_stats stats;
            pn_session_get_stats(last, &stats);
            assert_true(stats.n_evicted > 0);
            assert_in_range(stats.prefix_cache_bytes, 1, options.prefix_cache);
            pn_session_free(last);
            pn_model_close(model);
        }
}

/* ---- quotas ---- */

/* A session steps down as it grows, and never passes its quota. */
static void a_quota_steps_down(void **state) {
    (void)state;
    enum { N_CTX = 1000 };
    static int32_t tokens[N_CTX];
    pn_model *model = open_model("tests/golden/tiny/llama-f16.gguf", 2);
    for (size_t i = 0; i < N_CTX; i++)
        tokens[i] = (int32_t)(10 + i * 37 % 200);
    pn_session_options o = {.n_ctx = N_CTX, .n_chunk = 16};
    pn_plan plan;
    pn_session_stats stats;
    pn_error err;
    assert_int_equal(pn_session_plan(model, &o, &plan, NULL), PN_OK);
    o.kv_bytes = plan.kv_bytes * 45 / 100;
    pn_session *s = open_session_with(model, o);
    pn_session_get_stats(s, &stats);
    const size_t n = (size_t)stats.n_ctx;
    assert_in_range(n, 600, N_CTX);
    size_t at_first = 0;
    for (size_t i = 1; i <= n; i++) {
        assert_int_equal(pn_session_sync(s, tokens, i, NULL, NULL, NULL), PN_OK);
        pn_session_get_stats(s, &stats);
        assert_true(stats.kv_bytes <= o.kv_bytes);
        if (stats.n_step_downs == 1 && at_first == 0) {
            at_first = i;
            assert_int_equal(stats.kv_type, PN_KV_Q8);
            assert_int_equal(stats.n_stepped, (i - 1) / 64 * 64);
        }
    }
    assert_in_range(at_first, 64 * 6, 64 * 8);
    assert_int_equal(stats.n_step_downs, 2);
    assert_int_equal(stats.kv_type, PN_KV_Q4);
    assert_int_equal(pn_session_sync(s, tokens, 70, NULL, NULL, NULL), PN_OK); /* back over what was packed */
    pn_session_get_stats(s, &stats);
    assert_int_equal(stats.n_reused, 64);
    tokens[0] ^= 1;
    assert_int_equal(pn_session_sync(s, tokens, 70, NULL, NULL, NULL), PN_OK); /* another text begins anew */
    pn_session_get_stats(s, &stats);
    assert_int_equal(stats.kv_type, PN_KV_F16);
    pn_session_free(s);
    o.kv_bytes = 10;
    assert_int_equal(pn_session_create(model, &o, &s, &err), PN_ERR_LIMIT);
    pn_model_close(model);
}

/* ---- overflow ---- */

/* A context of 100: what fits, what just fits and what does not. */
static void the_end_of_the_context(void **state) {
    (void)state;
    static const size_t lengths[] = {90, 99, 100, 101, 199};
    int32_t tokens[LONG];
    pn_model *model = open_model(LLAMA, 2);
    make_long(tokens, n_vocab_of(model));
    pn_session *ends = open_session(model, 100, 32),
               *slides = open_session_with(
                   model, (pn_session_options){.n_ctx = 100, .n_chunk = 32, .overflow = PN_OVERFLOW_SLIDE});
    pn_generate_options o = greedy(30);
    o.n_keep = 20;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const size_t n = lengths[i];
        pn_generate_result r = {0};
        pn_error err;
        const pn_status status = pn_generate(ends, tokens, n, &o, &r, &err);
        assert_int_equal(status, n <= 100 ? PN_OK : PN_ERR_LIMIT);
        if (status == PN_OK) {
            assert_int_equal(r.finish, PN_FINISH_LENGTH);
            assert_int_equal(r.tokens.n, 100 - n + 1);
            assert_int_equal(r.n_slides, 0);
        }
        pn_generate_result_free(&r);
        r = generate(slides, tokens, n, &o);
        assert_int_equal(r.finish, PN_FINISH_LENGTH);
        assert_int_equal(r.tokens.n, 30);
        assert_true(r.n_slides > 0); /* before the answer, or in it */
        assert_int_equal(r.cut_from, 20);
        assert_int_equal((r.cut_to - r.cut_from) % 40, 0); /* half of what is not kept */
        assert_true(n + 30 - (r.cut_to - r.cut_from) <= 100);
        pn_generate_result_free(&r);
    }
    o.n_keep = 51;
    pn_error err;
    pn_generate_result r = {0};
    assert_int_equal(pn_generate(slides, tokens, 101, &o, &r, &err), PN_ERR_LIMIT);
    r = generate(slides, tokens, 90, &o); /* fits, but could not slide: the answer ends with the context */
    assert_int_equal(r.tokens.n, 11);
    assert_int_equal(r.finish, PN_FINISH_LENGTH);
    assert_int_equal(r.n_slides, 0);
    pn_generate_result_free(&r);
    pn_session_free(ends);
    pn_session_free(slides);
    pn_model_close(model);
}

/* What comes after a cut is what comes after the shortened text, by itself. */
static void sliding_is_computing_the_shorter_text(void **state) {
    (void)state;
    enum { KEEP = 20, CUT = 40, N = 95, AFTER = 12 };
    for (size_t p = 0; p < N_PATHS; p++) {
        int32_t tokens[LONG], shorter[LONG];
        pn_model *model = open_model(paths[p], 2);
        make_long(tokens, n_vocab_of(model));
        const pn_session_options options = {.n_ctx = 100, .n_chunk = 32, .overflow = PN_OVERFLOW_SLIDE};
        pn_session *s = open_session_with(model, options), *plain = open_session(model, LONG, 32);
        pn_generate_options o = greedy(100 - N + AFTER);
        o.n_keep = KEEP;
        pn_generate_result r = generate(s, tokens, N, &o);
        assert_int_equal(r.n_slides, 1);
        assert_int_equal(r.cut_to, KEEP + CUT);
        const size_t before =
            100 - N + 1; /* tokens of the answer that were sampled when the context was full */
        memcpy(tokens + N, r.tokens.ids, before * sizeof *tokens);
        memcpy(shorter, tokens, KEEP * sizeof *tokens);
        memcpy(shorter + KEEP, tokens + KEEP + CUT, (N + before - KEEP - CUT) * sizeof *tokens);
        o.max_tokens = AFTER - 1;
        pn_generate_result want = generate(plain, shorter, N + before - CUT, &o);
        assert_memory_equal(r.tokens.ids + before, want.tokens.ids, (AFTER - 1) * sizeof *tokens);
        pn_generate_result_free(&want);
        /* The next turn, with the whole text, finds the same cut and reuses all of it. */
        memcpy(tokens + N, r.tokens.ids, r.tokens.n * sizeof *tokens);
        o.max_tokens = 1;
        pn_generate_result next = generate(s, tokens, N + r.tokens.n, &o);
        assert_int_equal(next.cut_to, KEEP + CUT);
        assert_int_equal(next.n_prefilled, 1);
        pn_generate_result_free(&next);
        pn_generate_result_free(&r);
        pn_session_free(s);
        pn_session_free(plain);
        pn_model_close(model);
    }
}

/* ---- layers that keep their bits ---- */

static float *logits_with(const char *path, pn_kv_type type, const pn_kv_layers *layers, size_t n,
                          size_t n_chunk, uint64_t *kv_bytes) {
    const pn_model_options options = {
        .n_threads = 1, .no_probe = true, .kv_layers = layers, .n_kv_layers = n};
    pn_model *model = NULL;
    pn_session_stats stats;
    int32_t tokens[LONG];
    assert_int_equal(pn_model_open(path, &options, &model, NULL), PN_OK);
    const size_t n_bytes = (size_t)n_vocab_of(model) * sizeof(float);
    float *logits = malloc(n_bytes);
    make_long(tokens, n_vocab_of(model));
    pn_session *s = open_session_with(
        model, (pn_session_options){.n_ctx = LONG, .n_chunk = (int)n_chunk, .kv_type = type});
    check_sync(s, tokens, LONG);
    memcpy(logits, pn_session_logits(s), n_bytes);
    pn_session_get_stats(s, &stats);
    *kv_bytes = stats.kv_bytes;
    pn_session_free(s);
    pn_model_close(model);
    return logits;
}

/* All layers of f16 in a cache of q4 is f16; some of them lie in between, in bytes and whatever the chunks.
 */
static void layers_can_keep_their_bits(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        pn_model *model = open_model(paths[p], 1);
        pn_model_info info;
        pn_model_get_info(model, &info);
        const size_t n_bytes = (size_t)info.n_vocab * sizeof(float);
        pn_model_close(model);
        const pn_kv_layers all = {0, info.n_layer - 1, PN_KV_F16}, first = {0, 0, PN_KV_F16},
                           as_whole = {0, info.n_layer - 1, PN_KV_Q8};
        uint64_t bytes[7];
        float *f16 = logits_with(paths[p], PN_KV_F16, NULL, 0, 64, &bytes[0]),
              *q4 = logits_with(paths[p], PN_KV_Q4, NULL, 0, 64, &bytes[1]),
              *q8 = logits_with(paths[p], PN_KV_Q8, NULL, 0, 64, &bytes[2]),
              *whole = logits_with(paths[p], PN_KV_Q4, &all, 1, 64, &bytes[3]),
              *some = logits_with(paths[p], PN_KV_Q4, &first, 1, 64, &bytes[4]),
              *again = logits_with(paths[p], PN_KV_Q4, &first, 1, 17, &bytes[5]),
              *fewer = logits_with(paths[p], PN_KV_F16, &as_whole, 1, 64, &bytes[6]);
        assert_memory_equal(whole, f16, n_bytes);
        assert_memory_equal(again, some, n_bytes);
        assert_memory_equal(fewer, f16, n_bytes); /* nothing gets fewer bits by it */
        assert_memory_not_equal(some, q4, n_bytes);
        assert_memory_not_equal(some, f16, n_bytes);
        assert_true(bytes[1] < bytes[4] && bytes[4] < bytes[3]);
        float *const made[] = {f16, q4, q8, whole, some, again, fewer};
        for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
            free(made[i]);
    }
}

static void layers_that_are_not_there_are_refused(void **state) {
    (void)state;
    const pn_kv_layers wrong[] = {{0, 99, PN_KV_Q8}, {1, 0, PN_KV_Q8}, {-1, 0, PN_KV_Q8}, {0, 0, PN_KV_F32}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const pn_model_options options = {.n_threads = 1, .kv_layers = &wrong[i], .n_kv_layers = 1};
        pn_model *model = NULL;
        assert_int_equal(pn_model_open(LLAMA, &options, &model, NULL), PN_ERR_ARGUMENT);
    }
}

/* A session that steps down leaves them as they are. */
static void layers_keep_their_bits_under_pressure(void **state) {
    (void)state;
    const pn_kv_layers all = {0, 1, PN_KV_F16};
    const pn_model_options options = {.n_threads = 1, .no_probe = true, .kv_layers = &all, .n_kv_layers = 1};
    pn_model *model = NULL;
    uint64_t bytes;
    int32_t tokens[LONG];
    pn_session_stats stats;
    float *want = logits_with(LLAMA, PN_KV_F16, NULL, 0, 32, &bytes);
    assert_int_equal(pn_model_open(LLAMA, &options, &model, NULL), PN_OK);
    make_long(tokens, n_vocab_of(model));
    pn_session *s = open_session_with(model, (pn_session_options){.n_ctx = LONG, .n_chunk = 32});
    check_sync(s, tokens, LONG - 1);
    size_t n_packed = 0;
    assert_true(pn_kv_step_down(&s->kv, s->model->kernels, &n_packed));
    assert_true(pn_kv_step_down(&s->kv, s->model->kernels, &n_packed));
    assert_true(n_packed > 0);
    check_sync(s, tokens, LONG);
    pn_session_get_stats(s, &stats);
    assert_int_equal(stats.n_prefilled, 1);
    assert_memory_equal(pn_session_logits(s), want, (size_t)n_vocab_of(model) * sizeof *want);
    free(want);
    pn_session_free(s);
    pn_model_close(model);
}

/* ---- conversations, and texts that stay ---- */

static const char *const rules = "[{\"role\":\"system\",\"content\":\"Rules that hold for all who come by, "
                                 "long enough to fill a block of the "
                                 "cache, as they do, even where letters are tokens.\"}]";

/* Whatever the model's own template makes of a system message. */
static const pn_chat_options plainly = {
    .template_source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"};

static void pinned_texts_outlive_all_others(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        const pn_model_options options = {
            .n_threads = 1, .no_probe = true, .prefix_cache = PN_PREFIX_CACHE_OFF};
        pn_model *model = NULL;
        pn_session_stats stats;
        assert_int_equal(pn_model_open(paths[p], &options, &model, NULL), PN_OK);
        const pn_session_options o = {.n_ctx = 256};
        pn_session *s = open_session_with(model, o);
        assert_int_equal(pn_session_pin(s, NULL), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_start_chat(s, rules, &plainly, NULL, NULL, NULL), PN_OK);
        pn_session_get_stats(s, &stats);
        const size_t n = stats.n_tokens, whole = n / PN_KV_BLOCK * PN_KV_BLOCK;
        assert_true(whole > 0);
        assert_int_equal(pn_session_pin(s, NULL), PN_OK);
        assert_int_equal(pn_session_pin(s, NULL), PN_OK); /* once more is not twice */
        pn_session_get_stats(s, &stats);
        const uint64_t pinned = stats.pinned_bytes;
        assert_true(pinned > 0);
        int32_t other[LONG];
        make_long(other, n_vocab_of(model));
        for (int i = 0; i < 3; i++) {
            other[0]++;
            check_sync(s, other, LONG);
            pn_session_finish_chat(s);
        }
        pn_session_get_stats(s, &stats);
        assert_int_equal(stats.n_tokens, 0);
        pn_session_free(s);
        s = open_session_with(model, o);
        assert_int_equal(pn_session_start_chat(s, rules, &plainly, NULL, NULL, NULL), PN_OK);
        pn_session_get_stats(s, &stats);
        assert_int_equal(stats.n_shared, whole);
        assert_int_equal(stats.pinned_bytes, pinned);
        pn_session_free(s);
        pn_model_close(model);
    }
}

static void pinning_counts_in_the_budget(void **state) {
    (void)state;
    pn_error err;
    pn_plan plan;
    const pn_session_options o = {.n_ctx = 256};
    pn_model *model = open_model(LLAMA, 1);
    pn_session *s = open_session_with(model, o);
    assert_int_equal(pn_session_start_chat(s, rules, &plainly, NULL, NULL, NULL), PN_OK);
    assert_int_equal(pn_session_plan(model, &o, &plan, NULL), PN_OK);
    pn_memory_set_budget(plan.total_bytes - plan.kv_bytes - plan.scratch_bytes + 100);
    assert_int_equal(pn_session_pin(s, &err), PN_ERR_MEMORY);
    assert_non_null(strstr(err.message, "pinning the text takes"));
    pn_memory_set_budget(plan.total_bytes);
    assert_int_equal(pn_session_pin(s, &err), PN_OK);
    pn_memory_set_budget(0);
    pn_session_free(s);
    pn_model_close(model);
}

/* What a conversation was begun with stays when the text slides, without being counted by the caller. */
static void sliding_keeps_what_a_chat_begins_with(void **state) {
    (void)state;
    pn_model *model = open_model(LLAMA, 1);
    const pn_session_options o = {.n_ctx = 256, .overflow = PN_OVERFLOW_SLIDE};
    pn_session *s = open_session_with(model, o);
    pn_session_stats stats;
    assert_int_equal(pn_session_start_chat(s, "[{\"role\":\"system\",\"content\":\"Be brief.\"}]", &plainly,
                                           NULL, NULL, NULL),
                     PN_OK);
    pn_session_get_stats(s, &stats);
    int32_t prompt[300];
    memcpy(prompt, s->tokens, stats.n_tokens * sizeof *prompt);
    for (size_t i = stats.n_tokens; i < 300; i++)
        prompt[i] = (int32_t)(10 + i * 7 % 50);
    pn_generate_options g = {.max_tokens = 1, .sampling = pn_sampling_default()};
    pn_generate_result r = generate(s, prompt, 300, &g);
    assert_int_equal(r.cut_from, stats.n_tokens);
    pn_generate_result_free(&r);
    prompt[0]++; /* another beginning */
    r = generate(s, prompt, 300, &g);
    assert_int_equal(r.cut_from, 4);
    pn_generate_result_free(&r);
    pn_session_free(s);
    pn_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_share_their_beginnings),
        cmocka_unit_test(a_session_can_keep_to_itself),
        cmocka_unit_test(overflow_can_be_changed),
        cmocka_unit_test(precisions_share_nothing),
        cmocka_unit_test(forks_go_on_by_themselves),
        cmocka_unit_test(sessions_can_be_resized),
        cmocka_unit_test(tiers_have_sizes_and_quotas),
        cmocka_unit_test(conversations_never_mix),
        cmocka_unit_test(a_quota_steps_down),
        cmocka_unit_test(the_end_of_the_context),
        cmocka_unit_test(sliding_is_computing_the_shorter_text),
        cmocka_unit_test(layers_can_keep_their_bits),
        cmocka_unit_test(layers_that_are_not_there_are_refused),
        cmocka_unit_test(layers_keep_their_bits_under_pressure),
        cmocka_unit_test(pinned_texts_outlive_all_others),
        cmocka_unit_test(pinning_counts_in_the_budget),
        cmocka_unit_test(sliding_keeps_what_a_chat_begins_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
