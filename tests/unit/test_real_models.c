/* SPDX-License-Identifier: Apache-2.0 */
/* The two published models against transformers on their dequantised weights
   (tests/golden/make_real_logits.py describes the vectors), quantised inputs against floats, and the promise
   that threads, chunks and reuse change nothing. Needs the files that POSTERN_SMOLLM2 and POSTERN_GEMMA3
   name; skipped by name without them. */
#include "support/check.h"

#include <postern.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct real_model {
    const char *variable, *reference;
} models[] = {
    {"POSTERN_SMOLLM2", "tests/golden/real/smollm2.json"},
    {"POSTERN_GEMMA3", "tests/golden/real/gemma3.json"},
};

/* The float path itself; and a half cache, which shifts the softmax a little. */
#define MAX_KL_F32 1e-6
#define MAX_KL_F16 5e-6

/* Of quantised inputs against floats, the mean over the recorded positions: three times what was measured. */
#define MAX_MEAN_KL_HIGH 1.5e-6
#define MAX_MEAN_KL_FAST 1e-2

#define N_MODELS (sizeof models / sizeof models[0])

static pn_model *open_model(const struct real_model *real, int n_threads) {
    const char *path = getenv(real->variable);
    if (!path || !*path) return NULL; /* main has said so */
    pn_model *model = NULL;
    pn_model_options options = {.n_threads = n_threads};
    pn_error err;
    if (pn_model_open(path, &options, &model, &err) != PN_OK) fail_msg("%s", err.message);
    return model;
}

static json_t *load_reference(const struct real_model *real) {
    json_error_t why;
    json_t *root = json_load_file(real->reference, 0, &why);
    if (!root) fail_msg("%s: %s", real->reference, why.text);
    return root;
}

static pn_tokens ids_of(const json_t *array) {
    pn_tokens tokens = {.n = json_array_size(array)};
    tokens.ids = malloc(tokens.n * sizeof *tokens.ids);
    for (size_t i = 0; i < tokens.n; i++)
        tokens.ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return tokens;
}

static double number_at(const json_t *array, size_t i) {
    return json_number_value(json_array_get(array, i));
}

/* Natural log of the sum of exp. */
static double log_total(const float *logits, size_t n) {
    double max = (double)logits[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        if ((double)logits[i] > max) max = (double)logits[i];
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

/* KL(reference || ours) over the listed tokens and the rest as one. */
static double divergence(const json_t *want, const float *logits, size_t n_vocab) {
    const json_t *ids = json_object_get(want, "ids"), *logprobs = json_object_get(want, "logprobs");
    double total = log_total(logits, n_vocab), kl = 0, listed = 0;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        double p = number_at(logprobs, i), q = (double)logits[(size_t)number_at(ids, i)] - total;
        kl += exp(p) * (p - q);
        listed += exp(q);
    }
    double rest = json_number_value(json_object_get(want, "rest"));
    return kl + exp(rest) * (rest - log(1 - listed));
}

static int n_greater(const float *logits, size_t n_vocab, int32_t id) {
    int n = 0;
    for (size_t i = 0; i < n_vocab; i++)
        n += logits[i] > logits[id];
    return n;
}

/* The ten best are the same, but for neighbours that the reference itself puts within rounding of each other.
 */
static void check_top_ten(const json_t *want, const float *logits, size_t n_vocab) {
    const json_t *ids = json_object_get(want, "ids"), *logprobs = json_object_get(want, "logprobs");
    for (size_t i = 0; i < 10; i++) {
        int place = n_greater(logits, n_vocab, (int32_t)number_at(ids, i));
        double there = number_at(logprobs, (size_t)(place < 50 ? place : 49));
        if (place != (int)i && fabs(there - number_at(logprobs, i)) > 2e-3)
            fail_msg("token %d is at place %d, expected %zu", (int)number_at(ids, i), place, i);
    }
}

static void check_sequence(pn_session *session, const json_t *sequence, size_t n_vocab, double max_kl,
                           double *worst) {
    pn_tokens ids = ids_of(json_object_get(sequence, "ids"));
    const json_t *positions = json_object_get(sequence, "positions");
    assert_true(json_array_size(positions) >= 8);
    for (size_t i = 0; i < json_array_size(positions); i++) {
        const json_t *want = json_array_get(positions, i);
        size_t n = (size_t)json_integer_value(json_object_get(want, "position")) + 1;
        assert_int_equal(pn_session_sync(session, ids.ids, n, NULL, NULL, NULL), PN_OK);
        const float *logits = pn_session_logits(session);
        check_top_ten(want, logits, n_vocab);
        double kl = divergence(want, logits, n_vocab);
        if (!(kl <= max_kl))
            fail_msg("KL %g at position %zu of %s", kl, n - 1,
                     json_string_value(json_object_get(sequence, "name")));
        if (kl > *worst) *worst = kl;
    }
    free(ids.ids);
}

static pn_session *open_session(pn_model *model, pn_session_options options) {
    pn_session *session = NULL;
    pn_error err;
    if (options.n_ctx == 0) options.n_ctx = 1024;
    if (pn_session_create(model, &options, &session, &err) != PN_OK) fail_msg("%s", err.message);
    return session;
}

static void check_logits(const struct real_model *real, pn_kv_type type, double max_kl) {
    pn_model *model = open_model(real, 2);
    if (!model) return;
    pn_session *session =
        open_session(model, (pn_session_options){.kv_type = type, .precision = PN_PRECISION_EXACT});
    pn_model_info info;
    pn_model_get_info(model, &info);
    json_t *root = load_reference(real), *sequences = json_object_get(root, "sequences"), *sequence;
    double worst = 0;
    size_t i;
    json_array_foreach(sequences, i, sequence) {
        check_sequence(session, sequence, (size_t)info.n_vocab, max_kl, &worst);
    }
    print_message("%s, %s cache: KL at most %.1e\n", info.name, type == PN_KV_F32 ? "f32" : "f16", worst);
    json_decref(root);
    pn_session_free(session);
    pn_model_close(model);
}

static void logits_match_the_reference(void **state) {
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++) {
        check_logits(&models[m], PN_KV_F32, MAX_KL_F32);
        check_logits(&models[m], PN_KV_F16, MAX_KL_F16);
    }
}

/* ---- precisions ---- */

/* KL(p || q) of two sets of logits. */
static double divergence_of(const float *p, const float *q, size_t n) {
    double p_total = log_total(p, n), q_total = log_total(q, n), kl = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = (double)p[i] - p_total;
        kl += exp(log_p) * (log_p - ((double)q[i] - q_total));
    }
    return kl;
}

enum { N_QUANTISED = 2 };
static const struct {
    pn_precision precision;
    const char *name;
    double max_mean_kl;
} quantised[N_QUANTISED] = {{PN_PRECISION_HIGH, "high", MAX_MEAN_KL_HIGH},
                            {PN_PRECISION_FAST, "fast", MAX_MEAN_KL_FAST}};

/* Adds the divergences at the recorded positions to sum; returns how many there are. */
static size_t compare_precisions(pn_session *exact, pn_session *const *others, const json_t *sequence,
                                 size_t n_vocab, double sum[N_QUANTISED]) {
    pn_tokens ids = ids_of(json_object_get(sequence, "ids"));
    const json_t *positions = json_object_get(sequence, "positions");
    size_t n = json_array_size(positions);
    for (size_t i = 0; i < n; i++) {
        size_t n_tok =
            (size_t)json_integer_value(json_object_get(json_array_get(positions, i), "position")) + 1;
        assert_int_equal(pn_session_sync(exact, ids.ids, n_tok, NULL, NULL, NULL), PN_OK);
        for (size_t q = 0; q < N_QUANTISED; q++) {
            assert_int_equal(pn_session_sync(others[q], ids.ids, n_tok, NULL, NULL, NULL), PN_OK);
            sum[q] += divergence_of(pn_session_logits(exact), pn_session_logits(others[q]), n_vocab);
        }
    }
    free(ids.ids);
    return n;
}

static void check_precisions(const struct real_model *real) {
    pn_model *model = open_model(real, 2);
    if (!model) return;
    pn_model_info info;
    pn_model_get_info(model, &info);
    pn_session *exact = open_session(model, (pn_session_options){.precision = PN_PRECISION_EXACT}),
               *others[N_QUANTISED];
    for (size_t q = 0; q < N_QUANTISED; q++)
        others[q] = open_session(model, (pn_session_options){.precision = quantised[q].precision});
    json_t *root = load_reference(real), *sequences = json_object_get(root, "sequences"), *sequence;
    double sum[N_QUANTISED] = {0};
    size_t i, n = 0;
    json_array_foreach(sequences, i, sequence) {
        n += compare_precisions(exact, others, sequence, (size_t)info.n_vocab, sum);
    }
    for (size_t q = 0; q < N_QUANTISED; q++) {
        double mean = sum[q] / (double)n;
        print_message("%s, precision %s: mean KL %.1e over %zu positions\n", info.name, quantised[q].name,
                      mean, n);
        if (!(mean <= quantised[q].max_mean_kl))
            fail_msg("precision %s: mean KL %g", quantised[q].name, mean);
        pn_session_free(others[q]);
    }
    json_decref(root);
    pn_session_free(exact);
    pn_model_close(model);
}

static void quantised_inputs_stay_close_to_floats(void **state) {
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++)
        check_precisions(&models[m]);
}

/* ---- greedy text ---- */

enum { N_ANSWER = 20 };

static void generate(pn_session *session, const pn_tokens *prompt, int32_t answer[N_ANSWER]) {
    pn_generate_options o = {.max_tokens = N_ANSWER, .sampling = pn_sampling_default(), .ignore_eos = true};
    o.sampling.temperature = 0;
    pn_generate_result result;
    pn_error err;
    if (pn_generate(session, prompt->ids, prompt->n, &o, &result, &err) != PN_OK) fail_msg("%s", err.message);
    assert_int_equal(result.tokens.n, N_ANSWER);
    memcpy(answer, result.tokens.ids, N_ANSWER * sizeof *answer);
    pn_generate_result_free(&result);
}

struct way {
    int n_threads, n_chunk;
    bool reuse; /* start from a timeline that shares a part of the prompt and then differs */
    pn_kv_type kv_type;
    pn_precision precision;
};

/* by_threads: the model opened with one thread, and with two. */
static void greedy_of(pn_model *const by_threads[2], const pn_tokens *prompt, struct way way,
                      int32_t answer[N_ANSWER]) {
    pn_session *session = open_session(
        by_threads[way.n_threads - 1],
        (pn_session_options){.n_chunk = way.n_chunk, .kv_type = way.kv_type, .precision = way.precision});
    if (way.reuse) {
        int32_t *other = malloc(prompt->n * sizeof *other);
        memcpy(other, prompt->ids, prompt->n * sizeof *other);
        other[prompt->n / 3] = 300;
        assert_int_equal(pn_session_sync(session, other, prompt->n, NULL, NULL, NULL), PN_OK);
        free(other);
    }
    generate(session, prompt, answer);
    pn_session_free(session);
}

static void check_greedy(pn_model *const by_threads[2], const json_t *sequence, pn_precision precision) {
    static const struct { int n_threads, n_chunk; } ways[] = {{1, 512}, {2, 32}, {1, 7}, {2, 1}};
    pn_tokens prompt = ids_of(json_object_get(sequence, "ids")),
              want = ids_of(json_object_get(sequence, "greedy"));
    assert_int_equal(want.n, N_ANSWER);
    int32_t first[N_ANSWER], answer[N_ANSWER];
    greedy_of(by_threads, &prompt, (struct way){2, 0, false, PN_KV_F32, PN_PRECISION_EXACT}, answer);
    assert_memory_equal(answer, want.ids, sizeof answer);
    /* With a half cache or quantised inputs the text may differ from the reference's where its two best are
       close, but not between ways. */
    greedy_of(by_threads, &prompt, (struct way){2, 0, true, PN_KV_F16, precision}, first);
    /* The long one is there for the window; short ones are enough to cut in many ways. */
    size_t n_ways = prompt.n > 200 ? 1 : sizeof ways / sizeof ways[0];
    for (size_t i = 0; i < n_ways; i++) {
        struct way way = {ways[i].n_threads, ways[i].n_chunk, false, PN_KV_F16, precision};
        greedy_of(by_threads, &prompt, way, answer);
        if (memcmp(answer, first, sizeof answer) != 0)
            fail_msg("%s, precision %d: another text with %d threads and chunks of %d",
                     json_string_value(json_object_get(sequence, "name")), (int)precision, way.n_threads,
                     way.n_chunk);
    }
    free(prompt.ids);
    free(want.ids);
}

static void greedy_text_is_the_reference_text_and_one_in_every_way_of_running(void **state) {
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++) {
        pn_model *by_threads[2] = {open_model(&models[m], 1), open_model(&models[m], 2)};
        if (!by_threads[0]) continue;
        json_t *root = load_reference(&models[m]), *sequences = json_object_get(root, "sequences"), *sequence;
        size_t i;
        json_array_foreach(sequences, i, sequence) {
            check_greedy(by_threads, sequence, (pn_precision)(i % 3)); /* each precision has its sequences */
        }
        json_decref(root);
        pn_model_close(by_threads[0]);
        pn_model_close(by_threads[1]);
    }
}

/* ---- one text in every way that keys and values come about ---- */

static const size_t lengths[] = {1, 31, 32, 33, 511, 512, 513, 2000};
#define N_LENGTHS (sizeof lengths / sizeof lengths[0])

/* A text of the model's own tokens, without much sense. */
static int32_t *long_text(const pn_model *model, size_t n) {
    pn_model_info info;
    pn_model_get_info(model, &info);
    int32_t *tokens = malloc(n * sizeof *tokens);
    uint32_t state = 7;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        tokens[i] = i > 40 && state % 4 == 0 ? tokens[i - 40] : (int32_t)(1000 + (state >> 8) % 20000);
    }
    return tokens;
}

static void sync_to(pn_session *session, const int32_t *tokens, size_t n, size_t least_reused) {
    pn_session_stats stats;
    pn_error err;
    if (pn_session_sync(session, tokens, n, NULL, NULL, &err) != PN_OK) fail_msg("%s", err.message);
    pn_session_get_stats(session, &stats);
    assert_true(stats.n_reused >= least_reused);
}

static void same_logits(pn_session *session, const float *want, size_t n_vocab, pn_kv_type type, size_t n,
                        const char *way) {
    if (memcmp(pn_session_logits(session), want, n_vocab * sizeof *want) != 0)
        fail_msg("KV type %d, %zu tokens, %s: other logits", (int)type, n, way);
}

/* In a session that goes on from what the file has, which nobody else holds. */
static void check_restored(pn_model *model, const pn_session_options *o, const char *path,
                           const int32_t *tokens, const float *want, size_t n_vocab) {
    const size_t last = lengths[N_LENGTHS - 1];
    pn_tokens found = {0};
    pn_session *session = open_session(model, *o);
    assert_int_equal(pn_session_load(session, path, &found, NULL), PN_OK);
    assert_int_equal(found.n, last / 64 * 64);
    assert_memory_equal(found.ids, tokens, found.n * sizeof *tokens);
    sync_to(session, tokens, last, found.n);
    same_logits(session, want, n_vocab, o->kv_type, last, "restored from disk");
    pn_tokens_free(&found);
    pn_session_free(session);
}

/* What a session of all tokens leaves behind: a fork, and a file. */
static void check_copies(pn_model *model, pn_session *session, const pn_session_options *o,
                         const int32_t *tokens, const float *want, size_t n_vocab) {
    const size_t last = lengths[N_LENGTHS - 1];
    char path[] = "/tmp/postern-real-XXXXXX";
    pn_session *fork;
    assert_true(close(mkstemp(path)) == 0);
    sync_to(session, tokens, last, 0);
    assert_int_equal(pn_session_save(session, path, NULL), PN_OK);
    assert_int_equal(pn_session_fork(session, &fork, NULL), PN_OK);
    pn_session_free(session);
    sync_to(fork, tokens, last, last - 1);
    same_logits(fork, want, n_vocab, o->kv_type, last, "forked");
    pn_session_free(fork);
    check_restored(model, o, path, tokens, want, n_vocab);
    unlink(path);
}

/* Growing from length to length; all at once in odd chunks; cut back again and again; from another session;
   from a fork, and from disk. */
static void check_lengths(pn_model *model, const int32_t *tokens, pn_kv_type type) {
    pn_model_info info;
    pn_model_get_info(model, &info);
    const size_t n_vocab = (size_t)info.n_vocab, last = lengths[N_LENGTHS - 1];
    const pn_session_options even = {.n_ctx = (int)last, .n_chunk = 256, .kv_type = type},
                             odd = {.n_ctx = (int)last, .n_chunk = 101, .kv_type = type};
    float *want = malloc(N_LENGTHS * n_vocab * sizeof *want);
    pn_session *session = open_session(model, even);
    for (size_t i = 0; i < N_LENGTHS; i++) {
        sync_to(session, tokens, lengths[i], i > 0 ? lengths[i - 1] : 0);
        memcpy(want + i * n_vocab, pn_session_logits(session), n_vocab * sizeof *want);
    }
    pn_session_free(session); /* and nothing of it is left: the model has no prefix cache */
    session = open_session(model, odd);
    for (size_t i = N_LENGTHS; i-- > 0;) {
        sync_to(session, tokens, lengths[i], 0);
        same_logits(session, want + i * n_vocab, n_vocab, type, lengths[i], "cut back");
    }
    sync_to(session, tokens, 512, 0);
    pn_session *other = open_session(model, even);
    sync_to(other, tokens, 513, 448);
    same_logits(other, want + 6 * n_vocab, n_vocab, type, 513, "from another session");
    pn_session_free(other);
    check_copies(model, session, &even, tokens, want + 7 * n_vocab, n_vocab);
    free(want);
}

static void keys_and_values_are_the_same_in_every_way(void **state) {
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++) {
        const char *path = getenv(models[m].variable);
        const pn_model_options options = {.n_threads = 2, .prefix_cache = PN_PREFIX_CACHE_OFF};
        pn_model *model;
        if (!path || !*path) continue;
        assert_int_equal(pn_model_open(path, &options, &model, NULL), PN_OK);
        int32_t *tokens = long_text(model, lengths[N_LENGTHS - 1]);
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++)
            check_lengths(model, tokens, (pn_kv_type)type);
        free(tokens);
        pn_model_close(model);
    }
}

int main(void) {
    size_t n_named = 0;
    for (size_t m = 0; m < N_MODELS; m++) {
        const char *path = getenv(models[m].variable);
        n_named += path && *path;
        if (!path || !*path) printf("skipped: %s does not name a model file\n", models[m].variable);
    }
    if (n_named == 0) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_match_the_reference),
        cmocka_unit_test(quantised_inputs_stay_close_to_floats),
        cmocka_unit_test(greedy_text_is_the_reference_text_and_one_in_every_way_of_running),
        cmocka_unit_test(keys_and_values_are_the_same_in_every_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
