/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/utf8.h"

static void every_code_point_survives(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char bytes[4];
        uint32_t back = 0;
        size_t n = pn_utf8_encode(cp, bytes);
        assert_int_equal(pn_utf8_decode(bytes, n, &back), n);
        bool surrogate = cp >= 0xD800 && cp <= 0xDFFF;
        assert_int_equal(back, surrogate ? 0xFFFD : cp);
        assert_int_equal(n, cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
        assert_int_equal(pn_utf8_decode(bytes, n - 1, NULL), 0);
    }
    char bytes[4];
    assert_int_equal(pn_utf8_encode(0x110000, bytes), 3);
    assert_memory_equal(bytes, "\xEF\xBF\xBD", 3);
}

static void what_is_not_utf8_is_refused(void **state) {
    (void)state;
    static const char *const broken[] = {
        "\x80",             /* a continuation byte alone */
        "\xC0\xAF",         /* overlong '/' in two bytes */
        "\xC1\xBF",         /* overlong in two bytes */
        "\xE0\x9F\xBF",     /* overlong in three */
        "\xF0\x8F\xBF\xBF", /* overlong in four */
        "\xED\xA0\x80",     /* U+D800 */
        "\xED\xBF\xBF",     /* U+DFFF */
        "\xF4\x90\x80\x80", /* U+110000 */
        "\xF5\x80\x80\x80",
        "\xFF",
        "\xFE",
        "\xE2\x28\xA1",
        "\xE2\x82\x28",
        "\xF0\x9F\x98\x28",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        assert_int_equal(pn_utf8_decode(broken[i], strlen(broken[i]), NULL), 0);
        assert_false(pn_utf8_valid(broken[i], strlen(broken[i])));
    }
    assert_int_equal(pn_utf8_decode("", 0, NULL), 0);
    assert_true(pn_utf8_valid("", 0));
    assert_true(pn_utf8_valid("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\0b", 12));
    assert_false(pn_utf8_valid("a\xC3", 2));
}

static void an_unfinished_character_is_held_back(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t complete;
    } cases[] = {
        {"", 0},
        {"abc", 3},
        {"ab\xC3", 2},
        {"ab\xC3\xA9", 4},
        {"\xE2", 0},
        {"\xE2\x82", 0},
        {"\xE2\x82\xAC", 3},
        {"x\xF0\x9F\x98", 1},
        {"x\xF0\x9F\x98\x80", 5},
        {"x\xF0\x9F\x98\x80\xF0", 5},
        {"ab\x80", 3},   /* can never become a character */
        {"\xE0\x80", 2}, /* E0 wants A0 or more next */
        {"\xED\xA0", 2}, /* a surrogate */
        {"\xF4\x90", 2}, /* past U+10FFFF */
        {"\xC3\xA9\xA9\xA9\xA9", 5},
        {"\xFF\xFF", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(pn_utf8_complete(cases[i].text, strlen(cases[i].text)), cases[i].complete);
}

/* The expected values are those of Python's bytes.decode("utf-8", "replace"). */
static void invalid_bytes_become_replacement_characters(void **state) {
    (void)state;
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {"\xFF", "\xEF\xBF\xBD"},
        {"\xFF\xFE", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"a\xE2\x82"
         "b",
         "a\xEF\xBF\xBD"
         "b"},
        {"\xF0\x9F\x98", "\xEF\xBF\xBD"},
        {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC3\xA9\x80\xC3\xA9", "\xC3\xA9\xEF\xBF\xBD\xC3\xA9"},
        {"\xF1\x80\x80\xE1\x80\xC2"
         "b",
         "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
         "b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pn_buf buf;
        pn_buf_init(&buf, 1000);
        assert_int_equal(pn_utf8_append_clean(&buf, cases[i].text, strlen(cases[i].text)), PN_OK);
        assert_string_equal(buf.data, cases[i].clean);
        pn_buf_done(&buf);
    }
    pn_buf small;
    pn_buf_init(&small, 4);
    assert_int_equal(pn_utf8_append_clean(&small, "\xFF\xFF", 2), PN_ERR_LIMIT);
    pn_buf_done(&small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_survives),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(an_unfinished_character_is_held_back),
        cmocka_unit_test(invalid_bytes_become_replacement_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
