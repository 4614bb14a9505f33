/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "engine/engine.h"

#include <math.h>
#include <stdlib.h>

#define N 50

static float logits[N];

static void falling_logits(void) {
    for (int i = 0; i < N; i++)
        logits[i] = 5.0f - 0.25f * (float)((i * 7) % N); /* token 0 is best, then 43, 36, … */
}

static int32_t next(const pn_sampling *o, const int32_t *history, size_t n_history, uint64_t seed) {
    pn_sampler *sampler;
    pn_rng rng;
    int32_t id = -1;
    pn_rng_seed(&rng, seed);
    assert_int_equal(pn_sampler_create(pn_kernels_host(), N, &sampler, NULL), PN_OK);
    assert_int_equal(pn_sampling_check(o, N, NULL), PN_OK);
    assert_int_equal(pn_sampler_next(sampler, o, logits, history, n_history, &rng, &id, NULL), PN_OK);
    pn_sampler_free(sampler);
    assert_in_range(id, 0, N - 1);
    return id;
}

static pn_sampling with_temperature(float t) {
    return (pn_sampling){.temperature = t, .top_p = 1, .repeat_penalty = 1, .penalty_last_n = -1};
}

/* How often each token comes in many draws. */
static void histogram(const pn_sampling *o, int counts[N], int n_draws) {
    pn_sampler *sampler;
    pn_rng rng;
    pn_rng_seed(&rng, 1);
    memset(counts, 0, N * sizeof *counts);
    assert_int_equal(pn_sampler_create(pn_kernels_host(), N, &sampler, NULL), PN_OK);
    for (int i = 0; i < n_draws; i++) {
        int32_t id;
        assert_int_equal(pn_sampler_next(sampler, o, logits, NULL, 0, &rng, &id, NULL), PN_OK);
        counts[id]++;
    }
    pn_sampler_free(sampler);
}

static int n_distinct(const int counts[N]) {
    int n = 0;
    for (int i = 0; i < N; i++)
        n += counts[i] > 0;
    return n;
}

static void temperature_zero_takes_the_greatest_and_the_lowest_id_on_a_tie(void **state) {
    (void)state;
    falling_logits();
    pn_sampling o = with_temperature(0);
    assert_int_equal(next(&o, NULL, 0, 1), 0);
    logits[7] = logits[3] = 9;
    assert_int_equal(next(&o, NULL, 0, 1), 3);
}

static void draws_follow_the_softmax(void **state) {
    (void)state;
    falling_logits();
    pn_sampling o = with_temperature(1);
    int counts[N];
    const int n_draws = 200000;
    histogram(&o, counts, n_draws);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < N; i++) {
        double p = exp((double)logits[i]) / sum, sigma = sqrt(n_draws * p * (1 - p));
        assert_true(fabs(counts[i] - n_draws * p) < 5 * sigma + 1);
    }
}

static void each_filter_keeps_what_it_says(void **state) {
    (void)state;
    falling_logits();
    int counts[N];
    pn_sampling o = with_temperature(1);
    o.top_k = 3;
    histogram(&o, counts, 20000);
    assert_int_equal(n_distinct(counts), 3);
    assert_true(counts[0] && counts[43] && counts[36]);

    /* Probabilities fall by exp(-0.25) = 0.7788 each: the first n hold 1 - 0.7788^n, so 0.5 needs 3. */
    o = with_temperature(1);
    o.top_p = 0.5f;
    histogram(&o, counts, 20000);
    assert_int_equal(n_distinct(counts), 3);
    o.top_k = 10; /* the sorted path must agree; of the ten 0.5 still needs 3 */
    histogram(&o, counts, 20000);
    assert_int_equal(n_distinct(counts), 3);

    o = with_temperature(1);
    o.min_p = 0.5f; /* 0.7788^2 = 0.61, 0.7788^3 = 0.47 */
    histogram(&o, counts, 20000);
    assert_int_equal(n_distinct(counts), 3);
    o.top_p = 0.7f; /* of what min_p left: 0.42, 0.33 and 0.25 */
    for (o.top_k = 0; o.top_k <= 10; o.top_k += 10) {
        histogram(&o, counts, 20000);
        assert_int_equal(n_distinct(counts), 2);
    }
}

static void one_candidate_always_survives(void **state) {
    (void)state;
    const float temperatures[] = {1e-9f, 1, 100}, ps[] = {0, 1}, ms[] = {0, 1};
    const int ks[] = {0, 1, 1000000000};
    for (int banned = 0; banned < 2; banned++) {
        falling_logits();
        for (int i = 0; i < N && banned; i++)
            logits[i] = -INFINITY;
        for (size_t t = 0; t < 3; t++)
            for (size_t p = 0; p < 2; p++)
                for (size_t m = 0; m < 2; m++)
                    for (size_t k = 0; k < 3; k++) {
                        pn_sampling o = with_temperature(temperatures[t]);
                        o.top_p = ps[p];
                        o.min_p = ms[m];
                        o.top_k = ks[k];
                        int32_t id = next(&o, NULL, 0, 3);
                        if (!banned && (temperatures[t] < 1e-6f || ps[p] == 0 || ms[m] == 1 || ks[k] == 1))
                            assert_int_equal(id, 0);
                    }
    }
}

static void bias_bans_and_forces(void **state) {
    (void)state;
    falling_logits();
    pn_sampling o = with_temperature(0);
    pn_logit_bias bias[] = {{0, -INFINITY}, {43, -100}};
    o.logit_bias = bias;
    o.n_logit_bias = 2;
    assert_int_equal(next(&o, NULL, 0, 1), 36);
    bias[1] = (pn_logit_bias){17, 100};
    assert_int_equal(next(&o, NULL, 0, 1), 17);
}

static void penalties_follow_their_formulas(void **state) {
    (void)state;
    const int32_t history[] = {0, 0, 43, 5};
    falling_logits(); /* 0: 5, 43: 4.75, 36: 4.5 */
    pn_sampling o = with_temperature(0);
    o.presence_penalty = 0.3f; /* 0: 4.7, 43: 4.45 */
    assert_int_equal(next(&o, history, 4, 1), 0);
    o.presence_penalty = 0;
    o.frequency_penalty = 0.3f; /* 0: 4.4, 43: 4.45, 36: 4.5 */
    assert_int_equal(next(&o, history, 4, 1), 36);
    o.frequency_penalty = 0;
    o.repeat_penalty = 1.2f; /* 0: 4.17, 43: 3.96 */
    assert_int_equal(next(&o, history, 4, 1), 36);
    o.penalty_last_n = 1; /* only token 5 is in the window */
    assert_int_equal(next(&o, history, 4, 1), 0);
    for (int i = 0; i < N; i++)
        logits[i] = -1 - 0.001f * (float)i; /* a negative logit must fall as well */
    o.penalty_last_n = -1;
    assert_int_equal(next(&o, history, 4, 1), 1);
}

static void the_same_seed_draws_the_same(void **state) {
    (void)state;
    falling_logits();
    pn_sampling o = with_temperature(2);
    int n_same = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        assert_int_equal(next(&o, NULL, 0, seed), next(&o, NULL, 0, seed));
        n_same += next(&o, NULL, 0, seed) == next(&o, NULL, 0, seed + 1000);
    }
    assert_true(n_same < 100);
}

static void a_ban_holds_for_an_infinite_logit(void **state) {
    (void)state;
    falling_logits();
    logits[0] = INFINITY;
    pn_logit_bias ban = {0, -INFINITY};
    pn_sampling o = with_temperature(1);
    o.min_p = 0.5f;
    o.logit_bias = &ban;
    o.n_logit_bias = 1;
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_int_not_equal(next(&o, NULL, 0, seed), 0);
}

static void a_nan_is_an_error_that_says_so(void **state) {
    (void)state;
    falling_logits();
    logits[11] = NAN;
    pn_sampling o = with_temperature(0);
    pn_sampler *sampler;
    pn_rng rng;
    pn_error err;
    int32_t id = 77;
    pn_rng_seed(&rng, 1);
    assert_int_equal(pn_sampler_create(pn_kernels_host(), N, &sampler, NULL), PN_OK);
    assert_int_equal(pn_sampler_next(sampler, &o, logits, NULL, 0, &rng, &id, &err), PN_ERR_NUMERIC);
    assert_non_null(strstr(err.message, "NaN"));
    assert_int_equal(id, 77);
    pn_sampler_free(sampler);
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    const pn_sampling good = with_temperature(1);
    pn_logit_bias outside = {N, 1}, nan_bias = {1, NAN}, infinite_bias = {1, INFINITY};
#define REFUSED(change)                                                                                      \
    do {                                                                                                     \
        pn_sampling o = good;                                                                                \
        o.change;                                                                                            \
        if (o.logit_bias) o.n_logit_bias = 1;                                                                \
        pn_error err;                                                                                        \
        assert_int_equal(pn_sampling_check(&o, N, &err), PN_ERR_ARGUMENT);                                   \
    } while (0)
    REFUSED(temperature = -1);
    REFUSED(temperature = 101);
    REFUSED(temperature = NAN);
    REFUSED(top_k = -1);
    REFUSED(top_p = 1.5f);
    REFUSED(top_p = -0.1f);
    REFUSED(min_p = 1.5f);
    REFUSED(repeat_penalty = 0);
    REFUSED(repeat_penalty = INFINITY);
    REFUSED(presence_penalty = 101);
    REFUSED(frequency_penalty = NAN);
    REFUSED(penalty_last_n = -2);
    REFUSED(logit_bias = &outside);
    REFUSED(logit_bias = &nan_bias);
    REFUSED(logit_bias = &infinite_bias);
    assert_int_equal(pn_sampling_check(&good, N, NULL), PN_OK);
    pn_sampling standard = pn_sampling_default();
    assert_int_equal(pn_sampling_check(&standard, N, NULL), PN_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_zero_takes_the_greatest_and_the_lowest_id_on_a_tie),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(each_filter_keeps_what_it_says),
        cmocka_unit_test(one_candidate_always_survives),
        cmocka_unit_test(bias_bans_and_forces),
        cmocka_unit_test(penalties_follow_their_formulas),
        cmocka_unit_test(the_same_seed_draws_the_same),
        cmocka_unit_test(a_ban_holds_for_an_infinite_logit),
        cmocka_unit_test(a_nan_is_an_error_that_says_so),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
