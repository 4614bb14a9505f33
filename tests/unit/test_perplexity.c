/* SPDX-License-Identifier: Apache-2.0 */
/* Perplexity and divergence of tiny models against a slow computation, position by position, from
   pn_session_logits; and the file that stands for a base. */
#include "support/check.h"

#include "base/mem.h"
#include "eval/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define LLAMA      "tests/golden/tiny/llama-gqa.gguf"
#define LLAMA_BIAS "tests/golden/tiny/llama-bias.gguf" /* on the same vocabulary */
#define CODED      "tests/golden/tiny/llama-q8.gguf"   /* too; its matrices have integer codes */
#define GEMMA      "tests/golden/tiny/gemma3-window.gguf"
#define GEMMA_TOO  "tests/golden/tiny/gemma3-linear.gguf"

#define CTX 90 /* 44 positions: more than are held at a time */

static char folder[] = "/tmp/pn-perplexity-XXXXXX", path[64];

static int setup(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/reference", folder);
    return 0;
}

/* Fails when a test left a file that has no name yet. */
static int teardown(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static pn_model *open_model(const char *name, int n_threads) {
    pn_model *model = NULL;
    pn_model_options options = {.n_threads = n_threads};
    pn_error err;
    if (pn_model_open(name, &options, &model, &err) != PN_OK) fail_msg("%s", err.message);
    return model;
}

/* Words in no order that repeats soon. */
static const char *text_of(size_t n_words) {
    static const char *const words[] = {"the",   "gate ", "of a ", "castle,", "is small\n",
                                        "and ",  "opens", " at ",  "night. ", "Who ",
                                        "comes", "?",     " 42 ",  "<bos>",   "\xC3\xBC\xFF"};
    static char text[16384];
    size_t len = 0;
    uint32_t state = 7;
    for (size_t i = 0; i < n_words; i++) {
        state = state * 1664525u + 1013904223u;
        const char *word = words[(state >> 16) % (sizeof words / sizeof *words)];
        memcpy(text + len, word, strlen(word));
        len += strlen(word);
    }
    text[len] = '\0';
    return text;
}

static pn_perplexity_result measure(pn_model *model, const char *text, const pn_perplexity_options *options) {
    pn_perplexity_result result;
    pn_error err;
    if (pn_perplexity(model, text, strlen(text), options, &result, &err) != PN_OK)
        fail_msg("%s", err.message);
    return result;
}

/* ---- the slow way ---- */

static pn_session *open_session(pn_model *model, int n_ctx, int n_chunk, pn_precision precision) {
    pn_session *session = NULL;
    pn_session_options o = {.n_ctx = n_ctx, .n_chunk = n_chunk, .precision = precision};
    assert_int_equal(pn_session_create(model, &o, &session, NULL), PN_OK);
    return session;
}

/* Log-probabilities [n_vocab] after the first n of tokens; returns the lowest id of the greatest. */
static size_t log_probs_after(pn_session *session, const int32_t *tokens, size_t n, size_t n_vocab,
                              double *out) {
    double sum = 0, greatest = -INFINITY;
    size_t best = 0;
    assert_int_equal(pn_session_sync(session, tokens, n, NULL, NULL, NULL), PN_OK);
    const float *logits = pn_session_logits(session);
    for (size_t i = 0; i < n_vocab; i++)
        if ((double)logits[i] > greatest) greatest = (double)logits[best = i];
    for (size_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - greatest);
    for (size_t i = 0; i < n_vocab; i++)
        out[i] = (double)logits[i] - greatest - log(sum);
    return best;
}

struct column { /* numbers of all positions */
    double at[1024];
    size_t n;
};

static pn_estimate mean_of(const struct column *c) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += c->at[i];
    double mean = sum / (double)c->n;
    for (size_t i = 0; i < c->n; i++)
        squares += (c->at[i] - mean) * (c->at[i] - mean);
    return (pn_estimate){mean, sqrt(squares / (double)c->n / (double)(c->n - 1))};
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct slow {
    struct column loss, base_loss, ratio, divergence, same;
};

static double divergence_of(const double *p, const double *q, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp(p[i]) * (p[i] - q[i]);
    return sum;
}

static struct slow *compute_slowly(pn_model *model, pn_model *base, const char *text, size_t n_ctx,
                                   pn_precision precision) {
    struct slow *s = calloc(1, sizeof *s);
    pn_tokens tokens = {0};
    pn_model_info info;
    pn_model_get_info(model, &info);
    const size_t n_vocab = (size_t)info.n_vocab;
    double *p = calloc(n_vocab, sizeof *p), *q = calloc(n_vocab, sizeof *q);
    assert_int_equal(pn_tokenize(model, text, strlen(text), PN_TOKENIZE_BOS, &tokens, NULL), PN_OK);
    pn_session *session = open_session(model, (int)n_ctx, 0, precision);
    pn_session *base_session = open_session(base, (int)n_ctx, 0, precision);
    for (size_t chunk = 0; chunk < tokens.n / n_ctx; chunk++) {
        int32_t *ids = tokens.ids + chunk * n_ctx;
        if (strcmp(info.architecture, "gemma3") == 0) ids[0] = info.bos_id; /* the others want none */
        for (size_t i = n_ctx / 2; i + 1 < n_ctx; i++) {
            size_t best = log_probs_after(session, ids, i + 1, n_vocab, q),
                   base_best = log_probs_after(base_session, ids, i + 1, n_vocab, p);
            size_t at = s->loss.n++, target = (size_t)ids[i + 1];
            s->loss.at[at] = -q[target];
            s->base_loss.at[at] = -p[target];
            s->ratio.at[at] = p[target] - q[target];
            s->divergence.at[at] = divergence_of(p, q, n_vocab);
            s->same.at[at] = best == base_best;
        }
    }
    s->base_loss.n = s->ratio.n = s->divergence.n = s->same.n = s->loss.n;
    free(p);
    free(q);
    pn_tokens_free(&tokens);
    pn_session_free(session);
    pn_session_free(base_session);
    return s;
}

static void check_near(double found, double expected, double tolerance, const char *what) {
    if (!(fabs(found - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%s is %.9g, not %.9g", what, found, expected);
}

static void check_estimate(pn_estimate found, const struct column *c, bool is_log, double tolerance,
                           const char *what) {
    pn_estimate mean = mean_of(c);
    double value = is_log ? exp(mean.value) : mean.value;
    check_near(found.value, value, tolerance, what);
    check_near(found.error, is_log ? value * mean.error : mean.error, tolerance, what);
}

static void check_means(const pn_perplexity_result *r, const struct slow *s) {
    assert_int_equal(r->n_scored, s->loss.n);
    check_estimate(r->ppl, &s->loss, true, 1e-6, "perplexity");
    check_estimate(r->base_ppl, &s->base_loss, true, 1e-6, "perplexity of the base");
    check_estimate(r->ppl_ratio, &s->ratio, true, 1e-6, "ratio");
    check_estimate(r->same_top, &s->same, false, 1e-9, "share of same tokens");
}

static void check_divergence(const pn_perplexity_result *r, struct slow *s) {
    struct column *d = &s->divergence;
    check_estimate(r->kl, d, false, 1e-6, "divergence");
    qsort(d->at, d->n, sizeof *d->at, compare);
    double at = 0.99 * (double)(d->n - 1);
    size_t below = (size_t)at;
    check_near(r->kl_p99, d->at[below] + (at - (double)below) * (d->at[below + 1] - d->at[below]), 1e-6,
               "99th percentile");
    check_near(r->kl_max, d->at[d->n - 1], 1e-6, "greatest divergence");
}

static void check_pair(const char *name, const char *base_name, pn_precision precision) {
    const char *text = text_of(250);
    pn_model *model = open_model(name, 2), *base = open_model(base_name, 2);
    pn_perplexity_options o = {.n_ctx = CTX, .base = base, .precision = precision};
    struct slow *slow = compute_slowly(model, base, text, CTX, precision);
    pn_perplexity_result direct = measure(model, text, &o);
    assert_true(direct.n_chunks >= 3);
    assert_true(direct.n_scored == direct.n_chunks * pn_scored_count(CTX));
    check_means(&direct, slow);
    check_divergence(&direct, slow);

    unlink(path);
    o = (pn_perplexity_options){.n_ctx = CTX, .save_reference = path, .precision = precision};
    pn_perplexity_result saved = measure(base, text, &o);
    assert_true(saved.ppl.value == direct.base_ppl.value && saved.kl.value == 0);
    o = (pn_perplexity_options){.reference = path, .precision = precision};
    pn_perplexity_result read = measure(model, text, &o);
    check_means(&read, slow);
    /* What was drawn adds some noise to each position, evened out over all of them. */
    assert_true(fabs(read.kl.value - direct.kl.value) < 0.05 * direct.kl.value);
    assert_int_equal(read.n_ctx, CTX);
    assert_true(read.n_chunks == direct.n_chunks && read.same_top.value == direct.same_top.value);
    assert_true(read.base_precision == precision);
    assert_string_equal(read.base_name, direct.base_name);
    free(slow);
    pn_model_close(model);
    pn_model_close(base);
}

static void numbers_are_those_of_a_slow_computation(void **state) {
    (void)state;
    check_pair(LLAMA_BIAS, LLAMA, PN_PRECISION_HIGH);
    check_pair(CODED, LLAMA, PN_PRECISION_HIGH);
    check_pair(CODED, LLAMA, PN_PRECISION_EXACT);
    check_pair(LLAMA, CODED, PN_PRECISION_FAST);
    check_pair(GEMMA, GEMMA_TOO, PN_PRECISION_HIGH);
}

/* ---- summaries ---- */

#define N_TOKENS 3000 /* some blocks, the last one short */

static uint32_t lcg = 1;
static float random_logit(void) {
    lcg = lcg * 1664525u + 1013904223u;
    return (float)(lcg >> 8) / (float)(1 << 24) * 8 - 4;
}

/* Over all offsets each token of the tail is drawn as often as it is probable there, and the estimate is the
   divergence. */
static void what_is_drawn_stands_for_the_tail(void **state) {
    (void)state;
    enum { N_DRAWS = 400 };
    static float base_logits[N_TOKENS], logits[N_TOKENS];
    static size_t n_drawn[N_TOKENS];
    const pn_kernels *kernels = pn_kernels_host();
    for (size_t i = 0; i < N_TOKENS; i++) {
        base_logits[i] = random_logit() - (i % 3 ? 0 : 2);
        logits[i] = base_logits[i] + random_logit() / 4;
    }
    base_logits[2999] = 7;
    logits[2999] = 6;
    pn_softmax base = pn_softmax_of(kernels, base_logits, N_TOKENS),
               other = pn_softmax_of(kernels, logits, N_TOKENS);
    double divergence = pn_divergence(kernels, &base, &other), estimate = 0, least = INFINITY;
    pn_summary s;
    for (size_t draw = 0; draw < N_DRAWS; draw++) {
        s = pn_summary_of(kernels, &base, 17, ((double)draw + 0.5) / N_DRAWS);
        assert_true(s.n_top == PN_SUMMARY_TOP && s.n_drawn == PN_SUMMARY_DRAWN && s.ids[0] == 2999);
        for (size_t i = s.n_top; i < PN_SUMMARY_MAX; i++)
            n_drawn[s.ids[i]]++;
        double one = pn_summary_divergence(&s, &other);
        estimate += one / N_DRAWS;
        if (one < least) least = one;
    }
    check_near(estimate, divergence, 1e-3, "mean of estimates");
    assert_true(least > divergence / 2);
    double tail = 1;
    for (size_t i = 0; i < s.n_top; i++) {
        tail -= exp((double)s.log_probs[i]);
        assert_int_equal(n_drawn[s.ids[i]], 0);
        assert_true(i == 0 || s.log_probs[i] <= s.log_probs[i - 1]);
    }
    check_near((double)s.tail, tail, 1e-5, "tail");
    for (size_t i = 0; i < N_TOKENS; i++)
        if ((double)base_logits[i] < base.log_sum + (double)s.log_probs[s.n_top - 1])
            check_near((double)n_drawn[i], exp(pn_softmax_log(&base, (int32_t)i)) / tail * N_DRAWS * 16, 1.01,
                       "times drawn");
}

/* Of a vocabulary that has no tail, and of one that has no room in it for a number. */
static void small_and_certain_distributions_have_no_tail(void **state) {
    (void)state;
    static const float few[] = {1, 3, 3, -2}, more[] = {2, 3, 1, 0};
    static float certain[64];
    const pn_kernels *kernels = pn_kernels_host();
    pn_softmax a = pn_softmax_of(kernels, few, 4), b = pn_softmax_of(kernels, more, 4);
    pn_summary s = pn_summary_of(kernels, &a, 0, 0.5);
    assert_true(s.n_top == 4 && s.n_drawn == 0 && s.tail == 0 && s.ids[0] == 1 && s.ids[1] == 2);
    assert_int_equal(pn_softmax_best(&a), 1);
    check_near(pn_summary_divergence(&s, &b), pn_divergence(kernels, &a, &b), 1e-6, "divergence of few");
    for (size_t i = 0; i < 64; i++)
        certain[i] = i < 32 ? 500 : -500;
    a = pn_softmax_of(kernels, certain, 64);
    s = pn_summary_of(kernels, &a, 40, 0.5);
    assert_true(s.tail == 0 && s.n_drawn == PN_SUMMARY_DRAWN && pn_summary_divergence(&s, &a) < 1e-9);
}

/* ---- what must hold ---- */

static void a_model_is_no_way_from_itself(void **state) {
    (void)state;
    static const char *const names[] = {LLAMA, CODED, GEMMA};
    const char *text = text_of(250);
    for (size_t i = 0; i < 3; i++) {
        pn_model *model = open_model(names[i], 2);
        pn_perplexity_options o = {.n_ctx = CTX, .base = model, .save_reference = path};
        pn_perplexity_result r = measure(model, text, &o);
        assert_true(r.kl.value == 0 && r.kl.error == 0 && r.kl_p99 == 0 && r.kl_max == 0);
        assert_true(r.ppl_ratio.value == 1 && r.ppl_ratio.error == 0 && r.same_top.value == 1);
        assert_true(r.ppl.value == r.base_ppl.value);
        o = (pn_perplexity_options){.reference = path};
        r = measure(model, text, &o);
        assert_true(r.kl_max < 1e-7 && fabs(r.ppl_ratio.value - 1) < 1e-6 && r.same_top.value == 1);
        pn_model_close(model);
    }
}

static void threads_and_limits_change_no_bit(void **state) {
    (void)state;
    const char *text = text_of(250);
    pn_perplexity_result want = {0};
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        pn_model *model = open_model(CODED, n_threads), *base = open_model(LLAMA, n_threads);
        pn_perplexity_options o = {.n_ctx = CTX, .n_chunks = 2, .base = base};
        pn_perplexity_result r = measure(model, text, &o);
        assert_int_equal(r.n_chunks, 2);
        if (n_threads == 1) want = r;
        assert_true(r.ppl.value == want.ppl.value && r.kl.value == want.kl.value);
        assert_true(r.kl.error == want.kl.error && r.kl_p99 == want.kl_p99);
        pn_model_close(model);
        pn_model_close(base);
    }
    pn_model *model = open_model(CODED, 2), *base = open_model(LLAMA, 2);
    unlink(path);
    measure(base, text, &(pn_perplexity_options){.n_ctx = CTX, .save_reference = path});
    pn_perplexity_options o = {.n_chunks = 2, .reference = path}; /* of the more that it holds */
    assert_true(measure(model, text, &o).ppl.value == want.ppl.value);
    pn_model_close(model);
    pn_model_close(base);
}

static size_t n_bytes_of(const pn_model *model) {
    pn_model_info info;
    pn_model_get_info(model, &info);
    return (size_t)info.n_vocab * sizeof(float);
}

static void logits_at_are_those_after_each_beginning(void **state) {
    (void)state;
    static const char *const names[] = {CODED, GEMMA};
    for (size_t m = 0; m < 2; m++) {
        pn_model *model = open_model(names[m], 2);
        pn_session *session = open_session(model, 64, 16, PN_PRECISION_HIGH),
                   *other = open_session(model, 64, 64, PN_PRECISION_HIGH);
        const size_t n_bytes = n_bytes_of(model);
        float *at = malloc(16 * n_bytes);
        int32_t ids[40];
        for (int i = 0; i < 40; i++)
            ids[i] = 10 + i * 5;
        assert_int_equal(pn_session_logits_at(session, 0, 1, at, NULL), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_sync(session, ids, 40, NULL, NULL, NULL), PN_OK); /* 16, 16 and 8 */
        assert_int_equal(pn_session_logits_at(session, 32, 8, at, NULL), PN_OK);
        for (size_t i = 0; i < 8; i++) {
            assert_int_equal(pn_session_sync(other, ids, 33 + i, NULL, NULL, NULL), PN_OK);
            assert_memory_equal((char *)at + i * n_bytes, pn_session_logits(other), n_bytes);
        }
        assert_memory_equal(pn_session_logits(session), pn_session_logits(other), n_bytes);
        assert_int_equal(pn_session_logits_at(session, 31, 1, at, NULL), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_logits_at(session, 32, 9, at, NULL), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_logits_at(session, 40, 1, at, NULL), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_logits_at(session, SIZE_MAX, 2, at, NULL), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_logits_at(session, 0, 0, at, NULL), PN_OK);
        assert_int_equal(pn_session_sync(session, ids, 0, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_logits_at(session, 0, 1, at, NULL), PN_ERR_ARGUMENT);
        free(at);
        pn_session_free(session);
        pn_session_free(other);
        pn_model_close(model);
    }
}

struct counts {
    size_t n_calls, n_done, n_total;
};

static void count(void *user, size_t n_done, size_t n_total) {
    struct counts *c = user;
    assert_true(n_done >= c->n_done && n_done <= n_total);
    *c = (struct counts){c->n_calls + 1, n_done, n_total};
}

static void progress_ends_with_all_tokens(void **state) {
    (void)state;
    struct counts counts = {0};
    pn_model *model = open_model(LLAMA, 2);
    pn_perplexity_options o = {.n_ctx = CTX, .n_chunks = 3, .progress = count, .user = &counts};
    measure(model, text_of(250), &o);
    assert_true(counts.n_calls > 6 && counts.n_done == 3 * CTX && counts.n_total == 3 * CTX);
    pn_model_close(model);
}

/* ---- what is refused ---- */

static void check_refused(pn_model *model, const char *text, pn_perplexity_options o, pn_status status,
                          const char *reason) {
    pn_perplexity_result result = {.n_ctx = -1};
    pn_error err = {0};
    assert_int_equal(pn_perplexity(model, text, strlen(text), &o, &result, &err), status);
    if (!strstr(err.message, reason)) fail_msg("\"%s\" does not say \"%s\"", err.message, reason);
    assert_int_equal(result.n_ctx, -1);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    pn_model *model = open_model(LLAMA, 2), *gemma = open_model(GEMMA, 2);
    const char *text = text_of(250);
    unlink(path);
    measure(model, text, &(pn_perplexity_options){.n_ctx = CTX, .n_chunks = 2, .save_reference = path});
    check_refused(model, "a", (pn_perplexity_options){.n_ctx = CTX}, PN_ERR_ARGUMENT,
                  "the text has 1 tokens, fewer than a chunk of 90");
    check_refused(model, "", (pn_perplexity_options){.n_ctx = CTX}, PN_ERR_ARGUMENT, "0 tokens");
    check_refused(model, text, (pn_perplexity_options){.n_ctx = 7}, PN_ERR_ARGUMENT, "8 to");
    check_refused(model, text, (pn_perplexity_options){.n_ctx = -1}, PN_ERR_ARGUMENT, "8 to");
    check_refused(model, text, (pn_perplexity_options){.n_ctx = 1 << 20}, PN_ERR_ARGUMENT, "8 to");
    check_refused(model, text, (pn_perplexity_options){.n_ctx = CTX, .base = gemma}, PN_ERR_ARGUMENT,
                  "cannot be compared");
    check_refused(model, text, (pn_perplexity_options){.base = model, .reference = path}, PN_ERR_ARGUMENT,
                  "exclude");
    check_refused(gemma, text, (pn_perplexity_options){.reference = path}, PN_ERR_ARGUMENT,
                  "cannot be compared");
    check_refused(model, text + 1, (pn_perplexity_options){.reference = path}, PN_ERR_ARGUMENT,
                  "another text: chunk 1");
    check_refused(model, text_of(30), (pn_perplexity_options){.reference = path}, PN_ERR_ARGUMENT,
                  "it holds 2 chunks, this has 1");
    text = text_of(250);
    check_refused(model, text, (pn_perplexity_options){.n_ctx = 80, .reference = path}, PN_ERR_ARGUMENT,
                  "in chunks of 90 tokens, 80");
    check_refused(model, text, (pn_perplexity_options){.n_chunks = 3, .reference = path}, PN_ERR_ARGUMENT,
                  "holds 2 chunks, 3");
    check_refused(model, text, (pn_perplexity_options){.reference = LLAMA}, PN_ERR_FORMAT, "PNLP");
    check_refused(model, text, (pn_perplexity_options){.reference = "/none"}, PN_ERR_IO, "/none");
    check_refused(model, text, (pn_perplexity_options){.n_ctx = CTX, .save_reference = "/none/x"}, PN_ERR_IO,
                  "/none/x");
    check_refused(model, text, (pn_perplexity_options){.n_ctx = CTX, .precision = (pn_precision)9},
                  PN_ERR_ARGUMENT, "precision");
    pn_model_close(model);
    pn_model_close(gemma);
}

/* ---- the file ---- */

static uint8_t bytes[65536];

static size_t read_bytes(void) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(len > 0 && len < sizeof bytes);
    return len;
}

static void write_bytes(size_t len) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static size_t save_small(void) {
    pn_model *model = open_model(LLAMA, 1);
    unlink(path);
    measure(model, text_of(60), &(pn_perplexity_options){.n_ctx = 8, .n_chunks = 2, .save_reference = path});
    pn_model_close(model);
    return read_bytes();
}

static pn_status open_only(void) {
    pn_reference r = {0};
    pn_error err = {0};
    pn_status status = pn_reference_open(path, &r, &err);
    if (status != PN_OK && !strstr(err.message, path)) fail_msg("%s", err.message);
    pn_reference_close(&r);
    return status;
}

static void a_damaged_reference_is_refused(void **state) {
    (void)state;
    const size_t len = save_small();
    assert_int_equal(open_only(), PN_OK);
    for (size_t n = 0; n < len; n++) {
        write_bytes(n);
        assert_int_equal(open_only(), PN_ERR_FORMAT);
    }
    bytes[len] = 0;
    write_bytes(len + 1);
    assert_int_equal(open_only(), PN_ERR_FORMAT);
    for (size_t i = 0; i < len; i++) {
        uint8_t bit = (uint8_t)(1 << (i % 8));
        bytes[i] ^= bit;
        write_bytes(len);
        pn_status status = open_only();
        if (status != (i >= 4 && i < 8 ? PN_ERR_UNSUPPORTED : PN_ERR_FORMAT))
            fail_msg("byte %d: %s", (int)i, pn_status_name(status));
        bytes[i] ^= bit;
    }
}

/* Makes the checksums fit what the header says, as one who means harm would. */
static void sign(size_t head_len, size_t chunk_len, size_t len) {
    uint64_t sum = 0;
    for (size_t at = 0, n = head_len; at + n <= len; at += n, n = chunk_len) {
        sum = XXH3_64bits_withSeed(bytes + at, n - sizeof sum, sum);
        memcpy(bytes + at + n - sizeof sum, &sum, sizeof sum);
    }
}

static void a_hostile_reference_does_no_harm(void **state) {
    (void)state;
    const size_t len = save_small();
    pn_reference r;
    assert_int_equal(pn_reference_open(path, &r, NULL), PN_OK);
    const size_t head_len = (size_t)r.chunks_at, chunk_len = (size_t)r.chunk_bytes;
    pn_reference_close(&r);
    size_t n_refused = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t was = bytes[i];
        bytes[i] ^= 0xFF;
        sign(head_len, chunk_len, len);
        write_bytes(len);
        if (pn_reference_open(path, &r, NULL) == PN_OK) {
            pn_summary s;
            for (size_t c = 0; c < r.head.n_chunks; c++)
                for (size_t k = 0; k < pn_scored_count(r.head.n_ctx); k++) {
                    if (!pn_reference_get(&r, c, k, &s)) {
                        n_refused++;
                        continue;
                    }
                    assert_true(s.n_top == PN_SUMMARY_TOP && s.n_drawn == PN_SUMMARY_DRAWN);
                    assert_true(s.target <= 1e-5f);
                    for (size_t j = 0; j < PN_SUMMARY_MAX; j++)
                        assert_true(s.ids[j] >= 0 && (uint32_t)s.ids[j] < r.head.n_vocab);
                }
            pn_reference_close(&r);
        }
        bytes[i] = was;
    }
    assert_true(n_refused > 50);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    pn_model *model = open_model(CODED, 1), *base = open_model(LLAMA, 1);
    const char *text = text_of(60);
    char old[64];
    snprintf(old, sizeof old, "%s/old", folder);
    unlink(path);
    measure(base, text, &(pn_perplexity_options){.n_ctx = 16, .save_reference = old});
    const pn_perplexity_options all[] = {{.n_ctx = 16, .base = base, .save_reference = path},
                                         {.reference = old, .save_reference = path}};
    for (size_t k = 0; k < 2; k++) {
        pn_mem_fail_at(0);
        measure(model, text, &all[k]);
        uint64_t n = pn_mem_fail_at(0), held = pn_mem_bytes(PN_MEM_OTHER);
        assert_true(n > 10);
        for (uint64_t i = 1; i <= n; i++) {
            pn_perplexity_result result;
            unlink(path);
            pn_mem_fail_at(i);
            pn_status status = pn_perplexity(model, text, strlen(text), &all[k], &result, NULL);
            pn_mem_fail_at(0);
            if (status != PN_ERR_MEMORY && status != PN_OK) fail_msg("allocation %d: %d", (int)i, status);
            assert_true((access(path, F_OK) == 0) == (status == PN_OK));
            assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), held);
            assert_int_equal(pn_mem_bytes(PN_MEM_SCRATCH), 0);
        }
    }
    unlink(old);
    pn_model_close(model);
    pn_model_close(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_a_slow_computation),
        cmocka_unit_test(what_is_drawn_stands_for_the_tail),
        cmocka_unit_test(small_and_certain_distributions_have_no_tail),
        cmocka_unit_test(a_model_is_no_way_from_itself),
        cmocka_unit_test(threads_and_limits_change_no_bit),
        cmocka_unit_test(logits_at_are_those_after_each_beginning),
        cmocka_unit_test(progress_ends_with_all_tokens),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_damaged_reference_is_refused),
        cmocka_unit_test(a_hostile_reference_does_no_harm),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
