/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the server that need neither HTTP nor a model. */
#include "support/check.h"

#include "server/api_format.h"
#include "server/buffer.h"
#include "server/keys.h"
#include "server/logprobs.h"
#include "server/metrics.h"
#include "server/queue.h"
#include "server/routes.h"
#include "server/sessions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- buffers ---- */

static void check_clean(const char *text, size_t len, const char *want) {
    buffer b = {0};
    assert_true(buffer_append_clean(&b, text, len));
    assert_int_equal(b.len, strlen(want));
    if (b.len > 0) assert_memory_equal(b.data, want, b.len);
    buffer_free(&b);
}

static void text_is_cleaned(void **state) {
    (void)state;
    check_clean("", 0, "");
    check_clean("a\xC3\xBC\xE4\xB8\x96\xF0\x9F\x98\x80", 10, "a\xC3\xBC\xE4\xB8\x96\xF0\x9F\x98\x80");
    check_clean("\xC3", 1, "\xEF\xBF\xBD");
    check_clean("\xF0\x9F\x98", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    check_clean("\xC0\x80x", 3, "\xEF\xBF\xBD\xEF\xBF\xBDx");               /* longer than need be */
    check_clean("\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"); /* a surrogate */
    check_clean("\xF4\x90\x80\x80", 4, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    check_clean("\xE0\x80\xAF", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    check_clean("\x80z", 2, "\xEF\xBF\xBDz");
}

static void buffers_grow_and_shrink(void **state) {
    (void)state;
    buffer b = {0};
    for (int i = 0; i < 1000; i++)
        assert_true(buffer_printf(&b, "%d,", i % 10));
    assert_int_equal(b.len, 2000);
    buffer_drop(&b, 1998);
    assert_int_equal(b.len, 2);
    assert_memory_equal(b.data, "9,", 2);
    buffer_drop(&b, 2);
    assert_int_equal(b.len, 0);
    assert_false(buffer_append(&b, "a", SIZE_MAX / 2 + 1));
    assert_false(buffer_append(&b, "a", 1)); /* it has failed for good */
    buffer_free(&b);
}

/* ---- keys ---- */

static void keys_are_compared_whole(void **state) {
    (void)state;
    const char *const keys[] = {"alpha", "be"};
    assert_true(keys_have(keys, 2, "alpha"));
    assert_true(keys_have(keys, 2, "be"));
    const char *const wrong[] = {"", "a", "alph", "alphaa", "alphaalpha", "bebe", "b", "Alpha"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(keys_have(keys, 2, wrong[i]));
    assert_false(keys_have(keys, 0, ""));
}

/* ---- routes ---- */

static void routes_are_found(void **state) {
    (void)state;
    api_error error = {0};
    assert_non_null(routes_find("POST", "/v1/chat/completions", &error));
    assert_ptr_equal(routes_find("HEAD", "/health", &error), routes_find("GET", "/health", &error));
    assert_int_equal(error.status, 0);
    assert_null(routes_find("GET", "/v1/completions", &error));
    assert_int_equal(error.status, 405);
    assert_string_equal(error.param, "POST");
    error = (api_error){0};
    assert_null(routes_find("GET", "/health/", &error));
    assert_int_equal(error.status, 404);
}

/* ---- requests ---- */

static json_t *parse(const char *text) {
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

static void chats_are_read(void **state) {
    (void)state;
    api_error error = {0};
    generation *g = chat_api_read(parse("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
                                        "\"temperature\": 0.5, \"top_k\": 3, \"seed\": -1,"
                                        "\"stop\": [\"x\", \"yz\"], \"max_tokens\": 5, "
                                        "\"max_completion_tokens\": 7, \"logit_bias\": {\"3\": -100, "
                                        "\"4\": 2.5}, \"n\": 2, \"logprobs\": true, \"stream\": true, "
                                        "\"stream_options\": {\"include_usage\": true}, "
                                        "\"session\": \"s\", \"overflow\": \"slide\", \"cache_prompt\": "
                                        "false, \"presence_penalty\": null}"),
                                  &error);
    assert_non_null(g);
    assert_int_equal(error.status, 0);
    assert_float_equal(g->sampling.temperature, 0.5f, 0);
    assert_int_equal(g->sampling.top_k, 3);
    assert_true(g->sampling.has_seed && g->sampling.seed == UINT64_MAX);
    assert_int_equal(g->n_stop, 2);
    assert_string_equal(g->stop[1], "yz");
    assert_int_equal(g->max_tokens, 7);
    assert_int_equal(g->sampling.n_logit_bias, 2);
    assert_true(isinf(g->sampling.logit_bias[0].bias) && g->sampling.logit_bias[1].id == 4);
    assert_true(g->n == 2 && g->n_logprobs == 0 && g->stream && g->include_usage && g->no_cache && !g->echo);
    assert_string_equal(g->session, "s");
    assert_int_equal(g->overflow, PN_OVERFLOW_SLIDE);
    assert_null(g->tier);
    generation_free(g);
}

static void completions_are_read(void **state) {
    (void)state;
    api_error error = {0};
    generation *g = completion_api_read(parse("{\"prompt\": [[1, 2, 3], \"text\", [4]]}"), &error);
    assert_non_null(g);
    assert_int_equal(g->n_prompts, 3);
    assert_int_equal(g->prompts[0].tokens.n, 3);
    assert_int_equal(g->prompts[0].tokens.ids[2], 3);
    assert_memory_equal(g->prompts[1].text, "text", 4);
    assert_int_equal(g->max_tokens, 16);
    assert_int_equal(g->n_logprobs, -1);
    generation_free(g);
    g = completion_api_read(parse("{\"prompt\": [7, 8], \"echo\": true, \"max_tokens\": 0, \"logprobs\": 2}"),
                            &error);
    assert_non_null(g);
    assert_true(g->n_prompts == 1 && g->prompts[0].tokens.n == 2 && g->echo && g->max_tokens == -1);
    generation_free(g);
    assert_null(completion_api_read(parse("{\"prompt\": \"a\", \"max_tokens\": 0}"), &error));
    assert_string_equal(error.param, "max_tokens");
}

static void errors_have_the_known_form(void **state) {
    (void)state;
    api_error error = {0};
    assert_false(api_error_set(&error, 400, "invalid_value", "a\xC3", "cut: \xE4\xB8"));
    assert_false(api_error_set(&error, 500, "other", NULL, "a second one changes nothing"));
    json_t *json = api_error_json(&error);
    const json_t *inner = json_object_get(json, "error");
    assert_string_equal(json_string_value(json_object_get(inner, "type")), "invalid_request_error");
    assert_string_equal(json_string_value(json_object_get(inner, "code")), "invalid_value");
    assert_string_equal(json_string_value(json_object_get(inner, "message")),
                        "cut: \xEF\xBF\xBD\xEF\xBF\xBD");
    json_decref(json);
    const pn_error err = {.code = PN_ERR_LIMIT, .message = "long"};
    error = (api_error){0};
    api_error_from(&error, &err, NULL);
    json = api_error_json(&error);
    assert_int_equal(error.status, 400);
    assert_true(json_is_null(json_object_get(json_object_get(json, "error"), "param")));
    json_decref(json);
}

/* ---- the queue ---- */

static job *new_job(void) {
    job *j = job_create(NULL, "/");
    assert_non_null(j);
    return j;
}

static void drop_job(job *j) {
    job_release(j);
    job_release(j);
}

static void the_queue_is_in_order_and_bounded(void **state) {
    (void)state;
    queue q;
    job *jobs[4] = {new_job(), new_job(), new_job(), new_job()};
    size_t n_waiting, n_running;
    queue_init(&q, 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(queue_push(&q, jobs[i]), i < 3);
    assert_true(queue_remove(&q, jobs[2])); /* the last, so that the end moves */
    assert_false(queue_remove(&q, jobs[2]));
    assert_true(queue_push(&q, jobs[3]));
    assert_ptr_equal(queue_pop(&q), jobs[0]);
    queue_count(&q, &n_waiting, &n_running);
    assert_true(n_waiting == 2 && n_running == 1);
    queue_finish(&q);
    assert_true(queue_remove(&q, jobs[1]));
    queue_close(&q);
    assert_false(queue_push(&q, jobs[2]));
    assert_ptr_equal(queue_pop(&q), jobs[3]);
    assert_null(queue_pop(&q));
    queue_finish(&q);
    queue_done(&q);
    for (int i = 0; i < 4; i++)
        drop_job(jobs[i]);
}

/* ---- sessions ---- */

/* A system message of 100 tokens, and what two users say after it. */
static void the_session_that_loses_least_is_picked(void **state) {
    (void)state;
    enum { N = 200 };
    int32_t a[N], b[N], c[N];
    for (int i = 0; i < N; i++) {
        a[i] = i;
        b[i] = i < 100 ? i : 1000 + i;
        c[i] = i < 100 ? i : 2000 + i;
    }
    session_slot slots[3] = {{.tokens = a, .n = 160, .n_prompt = 150, .used = 2},
                             {.tokens = b, .n = 160, .n_prompt = 150, .used = 1}};
    assert_int_equal(sessions_pick(slots, 2, false, NULL, a, N), 0);   /* goes on */
    assert_int_equal(sessions_pick(slots, 2, false, NULL, b, 140), 1); /* nearly so */
    assert_int_equal(sessions_pick(slots, 2, false, NULL, c, N), SIZE_MAX);
    assert_int_equal(sessions_pick(slots, 2, true, NULL, c, N), 1); /* the older one */
    slots[1].used = 3;
    assert_int_equal(sessions_pick(slots, 2, true, NULL, c, N), 0);
    assert_int_equal(sessions_pick(slots, 2, true, NULL, b, 120), 0); /* said differently from there on */
    assert_int_equal(sessions_pick(slots, 2, false, NULL, b, 120), SIZE_MAX);
    assert_int_equal(sessions_pick(slots, 3, false, NULL, c, N), 2); /* an empty one */
    assert_int_equal(sessions_pick(slots, 3, true, NULL, a, N), 0);
    strcpy(slots[1].name, "me");
    assert_int_equal(sessions_pick(slots, 3, false, "me", a, N), 1);
    assert_int_equal(sessions_pick(slots, 3, false, "you", a, N), 0);
    assert_int_equal(sessions_pick(slots, 0, false, NULL, a, N), SIZE_MAX);
}

/* ---- log-probabilities ---- */

static void logprobs_are_sorted_and_sum_up(void **state) {
    (void)state;
    const float logits[] = {1, 5, 2, 5, -INFINITY, 3};
    scored_token t;
    logprobs_score(logits, 6, 2, 4, &t);
    const int32_t order[] = {1, 3, 5, 2};
    assert_int_equal(t.n_top, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t.top[i].id, order[i]);
    assert_float_equal(t.token.logprob, t.top[3].logprob, 0);
    double sum = 0;
    logprobs_score(logits, 6, 4, 6, &t);
    assert_true(isinf(t.token.logprob));
    for (int i = 0; i < t.n_top; i++)
        sum += exp((double)t.top[i].logprob);
    assert_true(fabs(sum - 1) < 1e-6);
    logprobs_score(logits, 6, 0, 0, &t);
    assert_int_equal(t.n_top, 0);
}

/* ---- metrics ---- */

static void metrics_add_up(void **state) {
    (void)state;
    static const char *const known[] = {"/a", "/b"};
    metrics m;
    buffer text = {0};
    assert_true(metrics_init(&m, known, 2));
    const request_record good = {.path = "/b",
                                 .status = 200,
                                 .seconds = 2,
                                 .generated = true,
                                 .ttft_seconds = 0.02,
                                 .decode_seconds = 0.9,
                                 .n_prompt = 10,
                                 .n_reused = 4,
                                 .n_prefilled = 6,
                                 .n_completion = 10};
    const request_record lost = {.path = "-", .status = 404};
    metrics_count(&m, &good);
    metrics_count(&m, &lost);
    assert_true(fabs(metrics_mean_seconds(&m) - 2) < 1e-9);
    metrics_print(&m, 3, 1, &text);
    buffer_append(&text, "", 1);
    const char *const lines[] = {"postern_requests_total{path=\"/b\",code=\"200\"} 1\n",
                                 "postern_requests_total{path=\"other\",code=\"404\"} 1\n",
                                 "postern_ttft_seconds_bucket{le=\"0.01\"} 0\n",
                                 "postern_ttft_seconds_bucket{le=\"0.025\"} 1\n",
                                 "postern_ttft_seconds_bucket{le=\"+Inf\"} 1\n",
                                 "postern_token_seconds_bucket{le=\"0.1\"} 9\n",
                                 "postern_token_seconds_sum 0.900000\n",
                                 "postern_prefix_hit_tokens_total 4\n",
                                 "postern_decode_tokens_total 10\n",
                                 "postern_requests_waiting 3\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(text.data, lines[i]) == NULL) fail_msg("%s is not in\n%s", lines[i], text.data);
    buffer_free(&text);
    metrics_done(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cleaned),
        cmocka_unit_test(buffers_grow_and_shrink),
        cmocka_unit_test(keys_are_compared_whole),
        cmocka_unit_test(routes_are_found),
        cmocka_unit_test(chats_are_read),
        cmocka_unit_test(completions_are_read),
        cmocka_unit_test(errors_have_the_known_form),
        cmocka_unit_test(the_queue_is_in_order_and_bounded),
        cmocka_unit_test(the_session_that_loses_least_is_picked),
        cmocka_unit_test(logprobs_are_sorted_and_sum_up),
        cmocka_unit_test(metrics_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
