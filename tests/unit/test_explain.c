/* SPDX-License-Identifier: Apache-2.0 */
/* Why keys and values were not reused: each cause, through the public interface. */
#include "support/check.h"
#include "support/tiny_models.h"

#include <postern.h>

#include <stdio.h>
#include <string.h>

#define PLAIN                                                                                                \
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}"                      \
    "{% if add_generation_prompt %}<assistant>{% endif %}"
#define DATED "Today is {{ strftime_now('%Y-%m-%d') }}.\n" PLAIN
#define FORGETS                                                                                              \
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] | trim }}</{{ m.role }}>\n"     \
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
#define LAST_MARKED                                                                                          \
    "{% for m in messages %}{% if loop.last %}[last]{% endif %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>" \
    "\n{% endfor %}"

#define SYSTEM "{\"role\":\"system\",\"content\":\"You keep the gate.\"}"
#define ASKED  "{\"role\":\"user\",\"content\":\"Who goes there, and why so late?\"}"
#define OTHER  "{\"role\":\"user\",\"content\":\"Who stays here?\"}"
#define SAID   "{\"role\":\"assistant\",\"content\":\"A friend of the castle.\"}"
#define MORE   "{\"role\":\"user\",\"content\":\"Then pass.\"}"

/* Syncs a session to the first prompt, with an answer after it, and explains the second. */
static pn_cache_explanation explain(const pn_chat_options *first, const char *before, const char *answer,
                                    const pn_chat_options *second, const char *now, bool tell_before) {
    pn_model *model = open_model(LLAMA, 1);
    pn_session *session = open_session(model, 256, 64);
    pn_text text = {0};
    pn_tokens tokens = {0};
    pn_cache_explanation e = {0};
    char whole[2048];
    pn_error err = {0};
    assert_int_equal(pn_chat_render(model, before, first, &text, &err), PN_OK);
    snprintf(whole, sizeof whole, "%s%s", text.data, answer);
    assert_int_equal(pn_tokenize(model, whole, strlen(whole), PN_TOKENIZE_BOS, &tokens, &err), PN_OK);
    assert_int_equal(pn_session_sync(session, tokens.ids, tokens.n, NULL, NULL, &err), PN_OK);
    assert_int_equal(pn_chat_explain(session, now, second, tell_before ? before : NULL, &e, &err), PN_OK);
    pn_tokens_free(&tokens);
    pn_text_free(&text);
    pn_session_free(session);
    pn_model_close(model);
    return e;
}

static void an_edited_message_is_named(void **state) {
    (void)state;
    const pn_chat_options o = {.template_source = PLAIN};
    for (int tell = 0; tell < 2; tell++) {
        const pn_cache_explanation e = explain(&o, "[" SYSTEM "," ASKED "]", "A friend of the castle.", &o,
                                               "[" SYSTEM "," OTHER "," SAID "," MORE "]", tell);
        assert_int_equal(e.cause, PN_CACHE_EDITED);
        assert_int_equal(e.message, 1);
        assert_string_equal(e.role, "user");
        assert_string_equal(e.field, "content");
        assert_memory_equal(e.old_text, "goes there", 10);
        assert_memory_equal(e.new_text, "stays here", 10);
        assert_true(e.n_common > 0 && e.n_common < e.n_timeline && e.n_known > e.n_common);
    }
}

static void a_clock_is_named(void **state) {
    (void)state;
    const pn_chat_options one = {.template_source = DATED, .now = 1700000000};
    const pn_chat_options two = {.template_source = DATED, .now = 1700000000 + 86400};
    pn_cache_explanation e =
        explain(&one, "[" ASKED "]", "A friend of the castle.", &two, "[" ASKED "," SAID "," MORE "]", true);
    assert_int_equal(e.cause, PN_CACHE_CLOCK);
    assert_int_equal(e.message, -1);
    assert_null(e.field);
    /* The program that asks wrote the time into the system message. */
    const pn_chat_options o = {.template_source = PLAIN};
    e = explain(&o, "[{\"role\":\"system\",\"content\":\"It is 9:05.\"}," ASKED "]", "", &o,
                "[{\"role\":\"system\",\"content\":\"It is 10:07.\"}," ASKED "]", false);
    assert_int_equal(e.cause, PN_CACHE_CLOCK);
    assert_int_equal(e.message, 0);
    assert_string_equal(e.role, "system");
}

static void thoughts_that_are_removed_are_named(void **state) {
    (void)state;
    const pn_chat_options o = {.template_source = FORGETS};
    const pn_cache_explanation e = explain(
        &o, "[" ASKED "]", "<think>\nIt is dark.\n</think>\n\nA friend of the castle.", &o,
        "[" ASKED ",{\"role\":\"assistant\",\"content\":\"<think>\\nIt is dark.\\n</think>\\n\\nA friend of "
        "the castle.\"}," MORE "]",
        true);
    assert_int_equal(e.cause, PN_CACHE_THINKING_REMOVED);
    assert_int_equal(e.message, 1);
}

static void a_template_that_rewrites_is_named(void **state) {
    (void)state;
    const pn_chat_options o = {.template_source = LAST_MARKED};
    const pn_cache_explanation e =
        explain(&o, "[" SYSTEM "," ASKED "]", "", &o, "[" SYSTEM "," ASKED "," SAID "," MORE "]", true);
    assert_int_equal(e.cause, PN_CACHE_TEMPLATE);
}

static void what_goes_on_is_reused(void **state) {
    (void)state;
    const pn_chat_options o = {.template_source = PLAIN};
    const pn_cache_explanation e =
        explain(&o, "[" ASKED "]", "A friend of the castle.", &o, "[" ASKED "," SAID "," MORE "]", true);
    assert_true(e.cause == PN_CACHE_REUSED || e.cause == PN_CACHE_RETOKENIZED);
    assert_true(e.n_common + 4 >= e.n_timeline);
}

/* ---- by tokens alone ---- */

enum { LONG = 200 };

static pn_session_stats sync_to(pn_session *session, const int32_t *tokens, size_t n) {
    pn_session_stats stats;
    assert_int_equal(pn_session_sync(session, tokens, n, NULL, NULL, NULL), PN_OK);
    pn_session_get_stats(session, &stats);
    return stats;
}

static void every_sync_counts_its_cause(void **state) {
    (void)state;
    const pn_model_options options = {.n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF};
    pn_model *model = NULL;
    assert_int_equal(pn_model_open(LLAMA, &options, &model, NULL), PN_OK);
    int32_t a[LONG], b[LONG];
    for (int i = 0; i < LONG; i++) {
        a[i] = 10 + i % 50;
        b[i] = 11 + i % 40;
    }
    pn_session *session = open_session(model, 256, 64), *coarse;
    pn_session_stats s = sync_to(session, a, 150);
    assert_int_equal(s.cache_cause, PN_CACHE_NOTHING_BEFORE);
    assert_int_equal(s.n_recomputed, 0);
    s = sync_to(session, a, LONG);
    assert_int_equal(s.cache_cause, PN_CACHE_REUSED);
    assert_int_equal(s.n_recomputed, 0);
    coarse = open_session_with(model, (pn_session_options){.n_ctx = 256, .kv_type = PN_KV_Q8});
    s = sync_to(coarse, a, LONG);
    assert_int_equal(s.cache_cause, PN_CACHE_OTHER_PRECISION);
    assert_int_equal(s.n_recomputed, 128); /* what the other has not yet entered into the tree is not seen */
    pn_session_free(coarse);
    memcpy(b, a, 100 * sizeof *b);
    b[100] = 9;
    s = sync_to(session, b, LONG);
    assert_int_equal(s.cache_cause, PN_CACHE_CHANGED);
    assert_int_equal(s.n_reused, 100);
    assert_int_equal(s.n_recomputed, 100);
    assert_true(s.recomputed_seconds > 0 && s.recomputed_seconds <= s.prefill_seconds);
    /* Without a prefix cache the end of the first text was given up. */
    s = sync_to(session, a, LONG);
    assert_int_equal(s.cache_cause, PN_CACHE_EVICTED);
    pn_session_free(session);
    pn_model_close(model);
}

static void check_lint(const char *source, const char *want) {
    pn_model *model = open_model(LLAMA, 1);
    const pn_chat_options o = {.template_source = source};
    pn_text text = {0};
    assert_int_equal(pn_chat_lint_json(model, &o, &text, NULL), PN_OK);
    if (!strstr(text.data, want)) fail_msg("%s is not in %s", want, text.data);
    pn_text_free(&text);
    pn_model_close(model);
}

static void templates_that_rewrite_are_told(void **state) {
    (void)state;
    check_lint(PLAIN, "\"appends\":true");
    check_lint(FORGETS, "\"cause\":\"thinking_removed\"");
    check_lint(DATED, "\"cause\":\"clock\"");
    check_lint(LAST_MARKED, "\"cause\":\"template\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edited_message_is_named),
        cmocka_unit_test(a_clock_is_named),
        cmocka_unit_test(thoughts_that_are_removed_are_named),
        cmocka_unit_test(a_template_that_rewrites_is_named),
        cmocka_unit_test(what_goes_on_is_reused),
        cmocka_unit_test(every_sync_counts_its_cause),
        cmocka_unit_test(templates_that_rewrite_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
