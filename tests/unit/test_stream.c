/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/utf8.h"
#include "engine/engine.h"

struct received {
    pn_buf text;
    int n_pieces;
    int refuse_after;
};

static bool receive(void *user, const char *text, size_t len) {
    struct received *r = user;
    assert_true(len > 0);
    assert_true(pn_utf8_valid(text, len));
    pn_buf_append(&r->text, text, len);
    return ++r->n_pieces != r->refuse_after;
}

/* Feeds `bytes` in steps of `step` bytes, as tokens would bring them, and compares all that came out. */
static void check_stream(const char *bytes, size_t step, const char *const *stop, size_t n_stop,
                         const char *want, bool want_stopped) {
    struct received r = {0};
    pn_buf_init(&r.text, 10000);
    pn_generate_options o = {.stop = stop, .n_stop = n_stop, .on_text = receive, .user = &r};
    pn_stream stream;
    pn_stream_init(&stream, &o);
    size_t len = strlen(bytes);
    for (size_t i = 0; i < len && !stream.stopped_by; i += step) {
        pn_buf_append(&stream.pending, bytes + i, len - i < step ? len - i : step);
        assert_int_equal(pn_stream_advance(&stream, NULL), PN_OK);
    }
    assert_int_equal(pn_stream_finish(&stream, NULL), PN_OK);
    assert_int_equal(stream.stopped_by != NULL, want_stopped);
    assert_string_equal(stream.text.data ? stream.text.data : "", want);
    assert_string_equal(r.text.data ? r.text.data : "", want);
    pn_stream_done(&stream);
    pn_buf_done(&r.text);
}

static void characters_come_whole(void **state) {
    (void)state;
    for (size_t step = 1; step <= 9; step++) {
        check_stream("héllo 世界 👨‍👩‍👧 end", step, NULL, 0,
                     "héllo 世界 👨‍👩‍👧 end", false);
        check_stream("ok \xf0\x9f\x98", step, NULL, 0, "ok \xef\xbf\xbd", false); /* cut at the end */
        check_stream("a\xff\xfe z\xc3(", step, NULL, 0, "a\xef\xbf\xbd\xef\xbf\xbd z\xef\xbf\xbd(", false);
    }
}

static void stop_strings_end_the_text_wherever_tokens_cut_them(void **state) {
    (void)state;
    const char *const stop[] = {"END", "\n\n", "好吗"};
    for (size_t step = 1; step <= 12; step++) {
        check_stream("one END two", step, stop, 3, "one ", true);
        check_stream("ENDEND", step, stop, 3, "", true);
        check_stream("EN EENEND", step, stop, 3, "EN EEN", true);
        check_stream("line\nline\n", step, stop, 3, "line\nline\n", false);
        check_stream("你好吗?", step, stop, 3, "你", true);
        check_stream("ends on EN", step, stop, 3, "ends on EN", false); /* held back, then flushed */
    }
    /* Of several the earliest counts, whatever its place in the list. */
    const char *const two[] = {"later", "now"};
    check_stream("say now or later", 100, two, 2, "say ", true);
}

static void text_is_shown_as_early_as_possible(void **state) {
    (void)state;
    const char *const stop[] = {"<end>"};
    struct received r = {0};
    pn_buf_init(&r.text, 100);
    pn_generate_options o = {.stop = stop, .n_stop = 1, .on_text = receive, .user = &r};
    pn_stream stream;
    pn_stream_init(&stream, &o);
    pn_buf_append_str(&stream.pending, "abc<en");
    assert_int_equal(pn_stream_advance(&stream, NULL), PN_OK);
    assert_string_equal(r.text.data, "abc");
    pn_buf_append_str(&stream.pending, "x");
    assert_int_equal(pn_stream_advance(&stream, NULL), PN_OK);
    assert_string_equal(r.text.data, "abc<enx");
    pn_stream_done(&stream);
    pn_buf_done(&r.text);
}

static void a_listener_that_refuses_is_not_called_again(void **state) {
    (void)state;
    struct received r = {.refuse_after = 1};
    pn_buf_init(&r.text, 100);
    pn_generate_options o = {.on_text = receive, .user = &r};
    pn_stream stream;
    pn_stream_init(&stream, &o);
    pn_buf_append_str(&stream.pending, "a");
    assert_int_equal(pn_stream_advance(&stream, NULL), PN_OK);
    assert_true(stream.refused);
    pn_buf_append_str(&stream.pending, "b");
    assert_int_equal(pn_stream_finish(&stream, NULL), PN_OK);
    assert_int_equal(r.n_pieces, 1);
    assert_string_equal(stream.text.data, "ab");
    pn_stream_done(&stream);
    pn_buf_done(&r.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(stop_strings_end_the_text_wherever_tokens_cut_them),
        cmocka_unit_test(text_is_shown_as_early_as_possible),
        cmocka_unit_test(a_listener_that_refuses_is_not_called_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
