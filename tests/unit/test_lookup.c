/* SPDX-License-Identifier: Apache-2.0 */
/* Prompt lookup: what is guessed, when it stops guessing, and that the text never changes by it. */
#include "support/check.h"

#include "engine/engine.h"

#define LLAMA "tests/golden/tiny/llama-gqa.gguf"
#define GEMMA "tests/golden/tiny/gemma3-window.gguf"

static pn_lookup *new_lookup(void) {
    pn_lookup *lookup = NULL;
    assert_int_equal(pn_lookup_create(1000, &lookup, NULL), PN_OK);
    return lookup;
}

static void what_followed_the_last_three_tokens_is_guessed(void **state) {
    (void)state;
    static const int32_t text[] = {1, 2, 3, 4, 5, 6, 9, 1, 2, 3, 7, 8, 1, 2, 3};
    int32_t draft[PN_DRAFT_MAX];
    pn_lookup *lookup = new_lookup();
    assert_int_equal(pn_lookup_draft(lookup, true, text, 2, 3, draft), 0);
    assert_int_equal(pn_lookup_draft(lookup, true, text, 9, 3, draft), 0); /* 9 1 2 is new */
    assert_int_equal(pn_lookup_draft(lookup, true, text, 10, 3, draft), 3);
    assert_int_equal(draft[0], 4);
    assert_int_equal(draft[2], 6);
    assert_int_equal(pn_lookup_draft(lookup, true, text, 15, 2, draft),
                     2); /* the latest occurrence, at most two */
    assert_int_equal(draft[0], 7);
    assert_int_equal(draft[1], 8);
    pn_lookup_free(lookup);
}

static void a_guess_may_reach_up_to_the_last_token(void **state) {
    (void)state;
    static const int32_t text[] = {5, 5, 5, 5, 5};
    int32_t draft[PN_DRAFT_MAX];
    pn_lookup *lookup = new_lookup();
    assert_int_equal(pn_lookup_draft(lookup, true, text, 3, 3, draft), 0); /* a key does not find itself */
    assert_int_equal(pn_lookup_draft(lookup, true, text, 4, 3, draft), 1);
    assert_int_equal(draft[0], 5);
    assert_int_equal(pn_lookup_draft(lookup, true, text, 5, 3, draft), 1);
    pn_lookup_free(lookup);
}

static void a_timeline_that_was_cut_back_leaves_no_false_guess(void **state) {
    (void)state;
    int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}, draft[PN_DRAFT_MAX];
    pn_lookup *lookup = new_lookup();
    pn_lookup_draft(lookup, true, text, 8, 3, draft);
    static const int32_t other[] = {9, 9, 1, 2, 3}; /* the same key, but what stood after it is gone */
    assert_int_equal(pn_lookup_draft(lookup, true, other, 5, 3, draft), 0);
    pn_lookup_free(lookup);
}

static void guessing_stops_when_it_does_not_pay_and_is_tried_again(void **state) {
    (void)state;
    int32_t text[400], draft[PN_DRAFT_MAX];
    for (int i = 0; i < 400; i++)
        text[i] = i % 6;
    pn_lookup *lookup = new_lookup();
    size_t n = 10;
    while (n < 16)
        pn_lookup_draft(lookup, false, text, n++, 3, draft);
    assert_true(pn_lookup_break_even(lookup) == 0);
    for (int i = 0; i < 20; i++) {
        pn_lookup_learn(lookup, 1, 0, 1.0);
        pn_lookup_learn(lookup, PN_DRAFT_MAX + 1, 0, 1.5); /* nothing right, and half as much again */
    }
    assert_true(pn_lookup_break_even(lookup) > 0.49 && pn_lookup_break_even(lookup) < 0.51);
    int n_tried = 0;
    while (n < 336)
        n_tried += pn_lookup_draft(lookup, false, text, n++, 3, draft) > 0;
    assert_in_range(n_tried, 5, 20);
    assert_int_equal(pn_lookup_draft(lookup, true, text, n++, 3, draft), 3);
    for (int i = 0; i < 40; i++)
        pn_lookup_learn(lookup, PN_DRAFT_MAX + 1, 2, 1.5); /* two right at 1.5 times the price pay */
    while (n < 350)
        assert_int_equal(pn_lookup_draft(lookup, false, text, n++, 3, draft), 3);
    pn_lookup_free(lookup);
}

/* ---- the text is the same ---- */

static pn_generate_result generate(pn_model *model, pn_lookup_mode mode, pn_precision precision, int n_ctx,
                                   const pn_generate_options *o, size_t *n_tokens) {
    pn_session_options options = {.n_ctx = n_ctx, .lookup = mode, .precision = precision};
    pn_session *session = NULL;
    pn_generate_result result = {0};
    int32_t prompt[48];
    for (int i = 0; i < 48; i++)
        prompt[i] = 10 + i % 12 * 7;
    assert_int_equal(pn_session_create(model, &options, &session, NULL), PN_OK);
    assert_int_equal(pn_generate(session, prompt, 48, o, &result, NULL), PN_OK);
    pn_session_stats stats;
    pn_session_get_stats(session, &stats);
    *n_tokens = stats.n_tokens;
    assert_non_null(pn_session_logits(session));
    pn_session_free(session);
    return result;
}

static void check_same_text(pn_model *model, pn_precision precision, int n_ctx, const pn_generate_options *o,
                            size_t *n_accepted) {
    size_t n_plain, n_guessed;
    pn_generate_result plain = generate(model, PN_LOOKUP_OFF, precision, n_ctx, o, &n_plain),
                       guessed = generate(model, PN_LOOKUP_ON, precision, n_ctx, o, &n_guessed);
    assert_int_equal(plain.n_drafted, 0);
    assert_int_equal(plain.tokens.n, guessed.tokens.n);
    assert_memory_equal(plain.tokens.ids, guessed.tokens.ids, plain.tokens.n * sizeof(int32_t));
    assert_string_equal(plain.text.data, guessed.text.data);
    assert_int_equal(plain.finish, guessed.finish);
    assert_int_equal(n_plain, n_guessed);
    assert_true(guessed.n_accepted <= guessed.n_drafted);
    *n_accepted += guessed.n_accepted;
    pn_generate_result_free(&plain);
    pn_generate_result_free(&guessed);
}

static void lookup_never_changes_the_text(void **state) {
    (void)state;
    static const char *const paths[] = {LLAMA, GEMMA};
    size_t n_accepted = 0;
    for (size_t p = 0; p < 2; p++) {
        pn_model *model = NULL;
        assert_int_equal(pn_model_open(paths[p], NULL, &model, NULL), PN_OK);
        for (int i = 0; i < 12; i++) {
            pn_generate_options o = {.max_tokens = i % 3 == 0 ? 0 : 20 + i,
                                     .sampling = pn_sampling_default()};
            o.sampling.temperature = i % 4 == 0 ? 0 : 0.05f * (float)i;
            o.sampling.repeat_penalty = i % 5 == 4 ? 1.1f : 1;
            o.sampling.seed = (uint64_t)i;
            o.sampling.has_seed = true;
            o.ignore_eos = i % 2 == 0;
            check_same_text(model, (pn_precision)(i % 3), 90 + i, &o, &n_accepted);
        }
        pn_model_close(model);
    }
    assert_true(n_accepted > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_followed_the_last_three_tokens_is_guessed),
        cmocka_unit_test(a_guess_may_reach_up_to_the_last_token),
        cmocka_unit_test(a_timeline_that_was_cut_back_leaves_no_false_guess),
        cmocka_unit_test(guessing_stops_when_it_does_not_pay_and_is_tried_again),
        cmocka_unit_test(lookup_never_changes_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
