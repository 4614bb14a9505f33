/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer on small vocabularies made here. That real vocabularies give the reference's ids is checked
   end to end (tests/e2e/test_tokenizer_reference.py). */
#include "support/check.h"
#include "support/vocab_build.h"

#include "base/mem.h"
#include "base/rng.h"

/* ---- byte-level BPE ---- */

static void merges_go_by_rank_then_from_the_left(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_byte_level("gpt-2"));
    VB_EXPECT(tok, "hello", HELLO);
    VB_EXPECT(tok, "hello hello", HELLO, SP_HELLO);
    VB_EXPECT(tok, "hell", HELL);
    VB_EXPECT(tok, "helo", HE, 'l', 'o');
    VB_EXPECT(tok, "aaa", AA, 'a');
    VB_EXPECT(tok, "aaaa", AA, AA);
    VB_EXPECT(tok, "lll", LL, 'l');
    vb_check_ids(vb_encode(tok, PN_STR(""), NULL), NULL, 0);
    pn_tokenizer_free(tok);
}

static void words_are_cut_as_the_name_says(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_byte_level("gpt-2"));
    VB_EXPECT(tok, "12", D12);
    VB_EXPECT(tok, "x   hello", 'x', SP_SP, SP_HELLO); /* the last space goes with the word */
    VB_EXPECT(tok, "x  ", 'x', SP_SP);
    VB_EXPECT(tok, "\xE1\xA0\x8E!", 0xE1, 0xA0, B8E_BANG); /* U+180E is no space since Unicode 6.3 */
    VB_EXPECT(tok, "\xC2\x85!", 0xC2, 0x85, '!');
    pn_tokenizer_free(tok);

    tok = vb_create(vb_byte_level("smollm"));
    VB_EXPECT(tok, "12", '1', '2'); /* every digit by itself */
    VB_EXPECT(tok, "hello 12", HELLO, ' ', '1', '2');
    pn_tokenizer_free(tok);

    tok = vb_create(vb_byte_level("llama-bpe"));
    VB_EXPECT(tok, "121212", D12, '1', '2', D12); /* three digits at a time */
    pn_tokenizer_free(tok);
}

static void a_word_that_is_a_token_may_skip_merging(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("llama-bpe");
    int32_t whole = vb_add(f, "xyz", PN_TOKEN_NORMAL, 0), end = vb_add(f, "qqq", PN_TOKEN_CONTROL, 0);
    pn_tokenizer *tok = vb_create(f);
    vb_check_ids(vb_encode(tok, PN_STR("xyz"), NULL), &whole, 1);
    VB_EXPECT(tok, "xyzx", 'x', 'y', 'z', 'x');
    VB_EXPECT(tok, "qqq", 'q', 'q', 'q'); /* but never as a control token */
    assert_int_equal(pn_tokenizer_find(tok, PN_STR("qqq")), end);
    pn_tokenizer_free(tok);

    f = vb_byte_level("gpt-2");
    vb_add(f, "xyz", PN_TOKEN_NORMAL, 0);
    tok = vb_create(f);
    VB_EXPECT(tok, "xyz", 'x', 'y', 'z');
    pn_tokenizer_free(tok);
}

static void merging_makes_no_control_token(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    f->kinds[HELL] = PN_TOKEN_CONTROL;
    pn_tokenizer *tok = vb_create(f);
    VB_EXPECT(tok, "hello", HE, LL, 'o');
    pn_tokenizer_free(tok);
}

static void a_missing_byte_is_left_out(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    f->tokens['x'] = PN_STR("taken away");
    pn_tokenizer *tok = vb_create(f);
    vb_check_ids(vb_encode(tok, PN_STR("x"), NULL), NULL, 0);
    VB_EXPECT(tok, "hxe", HE); /* what is left becomes neighbours, as in Hugging Face tokenizers */
    pn_tokenizer_free(tok);
}

/* ---- SentencePiece ---- */

static void pieces_merge_by_score(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_pieces());
    VB_EXPECT(tok, "abc", S_ABC); /* bc is better than ab, and then a joins */
    VB_EXPECT(tok, "ab", S_AB);
    VB_EXPECT(tok, "abab", S_AB, S_AB);
    VB_EXPECT(tok, "cab", S_C, S_AB);
    VB_EXPECT(tok, " a", S_MARK_A);
    VB_EXPECT(tok, "b a", S_B, S_MARK_A);
    VB_EXPECT(tok, " ab", S_MARK, S_AB); /* ab is better than the marker with a */
    pn_tokenizer_free(tok);

    static const float scores[][2] = {{1, 2},   {-1, 0},         {-1, 0.5f},
                                      {-2, -1}, {1e-40f, 1e30f}, {-1e30f, -1e-40f}};
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        vb_fixture *f = vb_pieces();
        f->tokens[S_ABC] = PN_STR("zz");
        f->scores[S_AB] = scores[i][0];
        f->scores[S_BC] = scores[i][1];
        tok = vb_create(f);
        VB_EXPECT(tok, "abc", S_A, S_BC);
        pn_tokenizer_free(tok);
    }
}

static void pieces_may_go_on_over_a_space(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    int32_t over = vb_add(f, "b" VB_MARK "a", PN_TOKEN_NORMAL, -5);
    pn_tokenizer *tok = vb_create(f);
    vb_check_ids(vb_encode(tok, PN_STR("b a"), NULL), &over, 1);
    VB_EXPECT(tok, "c a", S_C, S_MARK_A);
    pn_tokenizer_free(tok);
}

static void equal_scores_merge_from_the_left(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    f->scores[S_AB] = f->scores[S_BC] = -1;
    f->tokens[S_ABC] = PN_STR("zz");
    pn_tokenizer *tok = vb_create(f);
    VB_EXPECT(tok, "abc", S_AB, S_C);
    f->scores[S_AB] = -0.0f;
    f->scores[S_BC] = 0.0f;
    pn_tokenizer *zero = vb_create(f);
    VB_EXPECT(zero, "abc", S_AB, S_C);
    pn_tokenizer_free(zero);
    pn_tokenizer_free(tok);
}

static void user_defined_pieces_stand_before_everything(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_pieces());
    VB_EXPECT(tok, "a  b", S_A, S_TWO, S_B);
    VB_EXPECT(tok, "a   a", S_A, S_TWO, S_MARK_A);
    VB_EXPECT(tok, VB_MARK VB_MARK, S_TWO); /* the marker spelled out is the same as a space */
    VB_EXPECT(tok, " " VB_MARK, S_TWO);
    VB_EXPECT(tok, "a<b>b", S_A, S_TAG, S_B);
    pn_tokenizer_free(tok);
}

static void a_space_is_added_where_text_begins(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    f->spec.add_space_prefix = true;
    pn_tokenizer *tok = vb_create(f);
    VB_EXPECT(tok, "a", S_MARK_A);
    VB_EXPECT(tok, "<b>a", S_MARK, S_TAG, S_A);
    vb_check_ids(vb_encode(tok, PN_STR(""), NULL), NULL, 0);
    pn_range whole = {0, 10};
    pn_encode_options trusting = {.trusted = &whole, .n_trusted = 1};
    static const int32_t ids[] = {S_MARK_A, S_EOS, S_MARK_A, S_EOS};
    vb_check_ids(vb_encode(tok, PN_STR("a</s>a</s>"), &trusting), ids, 4);
    vb_check_text(tok, ids, 4, true, PN_STR("a</s>a</s>"));
    vb_check_text(tok, ids, 4, false, PN_STR("aa"));
    vb_check_round_trip(tok, PN_STR("  a b "));
    pn_buf buf;
    pn_buf_init(&buf, 100);
    assert_int_equal(pn_tokenizer_decode_token(tok, S_MARK_A, false, false, &buf, NULL), PN_OK);
    assert_string_equal(buf.data, " a");
    pn_buf_done(&buf);
    pn_tokenizer_free(tok);
}

static void unknown_characters_fall_back(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    pn_tokenizer *tok = vb_create(f);
    VB_EXPECT(tok, "a\xC3\xA9z", S_A, BYTE_0 + 0xC3, BYTE_0 + 0xA9, BYTE_0 + 'z');
    VB_EXPECT(tok, "\xFF\xC3", BYTE_0 + 0xFF, BYTE_0 + 0xC3);
    VB_EXPECT(tok, "<0x41>", BYTE_0 + '<', BYTE_0 + '0', BYTE_0 + 'x', BYTE_0 + '4', BYTE_0 + '1',
              BYTE_0 + '>');
    VB_EXPECT(tok, "<unk>", BYTE_0 + '<', BYTE_0 + 'u', BYTE_0 + 'n', BYTE_0 + 'k', BYTE_0 + '>');
    pn_tokenizer_free(tok);

    for (int b = 0; b < 256; b++) {
        f->kinds[BYTE_0 + b] = PN_TOKEN_NORMAL;
        f->tokens[BYTE_0 + b] = PN_STR("");
    }
    tok = vb_create(f);
    VB_EXPECT(tok, "a\xC3\xA9zza z", S_A, UNK, S_A, S_MARK, UNK); /* one for all that follow each other */
    pn_tokenizer_free(tok);
}

/* As SentencePiece's Model::SampleEncode takes them apart: where they were last put together. */
static void unused_pieces_are_taken_apart(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    f->kinds[S_ABC] = PN_TOKEN_UNUSED;
    pn_tokenizer *tok = vb_create(f);
    VB_EXPECT(tok, "abc", S_A, S_BC);
    pn_tokenizer_free(tok);
    f->kinds[S_BC] = PN_TOKEN_UNUSED;
    tok = vb_create(f);
    VB_EXPECT(tok, "abc", S_A, S_B, S_C);
    VB_EXPECT(tok, "abcbc a", S_A, S_B, S_C, S_B, S_C, S_MARK_A);
    pn_tokenizer_free(tok);
}

/* ---- control tokens ---- */

static void control_tokens_come_from_trusted_text_only(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_byte_level("gpt-2"));
    const pn_str text = PN_STR("a<|im_end|>");
    static const int32_t as_text[] = {'a', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'};
    static const int32_t as_control[] = {'a', END_CONTROL};
    static const struct {
        pn_range ranges[3];
        size_t n;
        bool control;
    } cases[] = {
        {{{0}}, 0, false},
        {{{0, 11}}, 1, true},
        {{{1, 11}}, 1, true},
        {{{2, 11}}, 1, false},
        {{{0, 10}}, 1, false},
        {{{0, 1}}, 1, false},
        {{{0, 4}, {4, 11}}, 2, true}, /* adjacent ranges are one */
        {{{0, 4}, {4, 4}, {4, 11}}, 3, true},
        {{{0, 4}, {5, 11}}, 2, false},
        {{{0, 0}, {1, 1}, {1, 11}}, 3, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pn_encode_options o = {.trusted = cases[i].ranges, .n_trusted = cases[i].n};
        if (cases[i].control)
            vb_check_ids(vb_encode(tok, text, &o), as_control, 2);
        else
            vb_check_ids(vb_encode(tok, text, &o), as_text, 11);
    }
    pn_tokenizer_free(tok);
}

static void the_longest_special_token_wins(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_byte_level("gpt-2"));
    VB_EXPECT(tok, "<think>ing", THINKING);
    VB_EXPECT(tok, "<think>in", THINK, 'i', 'n');
    VB_EXPECT(tok, "<<think><", '<', THINK, '<');
    VB_EXPECT(tok, "<thin", '<', 't', 'h', 'i', 'n');
    pn_tokenizer_free(tok);
}

static void bad_ranges_are_refused(void **state) {
    (void)state;
    static const pn_range cases[][2] = {{{0, 4}, {0, 0}}, {{2, 1}, {2, 2}}, {{0, 2}, {1, 3}}};
    pn_tokenizer *tok = vb_create(vb_byte_level("gpt-2"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pn_encode_options o = {.trusted = cases[i], .n_trusted = 2};
        pn_tokens ids = {0};
        pn_error err;
        assert_int_equal(pn_tokenizer_encode(tok, "abc", 3, &o, &ids, &err), PN_ERR_ARGUMENT);
        assert_null(ids.ids);
    }
    pn_tokenizer_free(tok);
}

static void bos_comes_once(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    f->spec.add_bos = true;
    pn_tokenizer *tok = vb_create(f);
    const pn_range all = {0, 4}, tail = {3, 4};
    const pn_encode_options trusting = {.add_bos = true, .trusted = &all, .n_trusted = 1};
    const pn_encode_options partly = {.add_bos = true, .trusted = &tail, .n_trusted = 1};
    const pn_encode_options without = {.trusted = &all, .n_trusted = 1};
    VB_EXPECT_OPTIONS(tok, "<s>a", &trusting, S_BOS, S_A);
    VB_EXPECT_OPTIONS(tok, "aaaa", &trusting, S_BOS, S_A, S_A, S_A, S_A);
    VB_EXPECT_OPTIONS(tok, "<s>a", &without, S_BOS, S_A);
    VB_EXPECT_OPTIONS(tok, "<s>a", &partly, S_BOS, BYTE_0 + '<', BYTE_0 + 's', BYTE_0 + '>',
                      S_A); /* not trusted */
    const pn_encode_options empty = {.add_bos = true};
    VB_EXPECT_OPTIONS(tok, "", &empty, S_BOS);
    pn_tokenizer_free(tok);

    f->spec.add_bos = false;
    tok = vb_create(f);
    VB_EXPECT_OPTIONS(tok, "aaaa", &trusting, S_A, S_A, S_A, S_A);
    pn_tokenizer_free(tok);
}

static void ends_are_known_by_spelling_and_kind(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    int32_t eos = vb_add(f, "[stop]", PN_TOKEN_CONTROL, 0),
            turn = vb_add(f, "<end_of_turn>", PN_TOKEN_CONTROL, 0);
    int32_t eot = vb_add(f, "<|eot_id|>", PN_TOKEN_USER_DEFINED, 0),
            text = vb_add(f, "<|end|>", PN_TOKEN_NORMAL, 0);
    int32_t tag = vb_add(f, "</s>", PN_TOKEN_USER_DEFINED, 0),
            over = vb_add(f, "[over]", PN_TOKEN_CONTROL, 0),
            pause = vb_add(f, "[pause]", PN_TOKEN_CONTROL, 0);
    f->spec.eos_id = eos;
    f->spec.eot_id = over;
    f->spec.eom_id = pause;
    pn_tokenizer *tok = vb_create(f);
    assert_true(pn_tokenizer_is_end(tok, eos));
    assert_true(pn_tokenizer_is_end(tok, END_CONTROL));
    assert_true(pn_tokenizer_is_end(tok, turn));
    assert_true(pn_tokenizer_is_end(tok, eot));
    assert_true(pn_tokenizer_is_end(tok, over));
    assert_true(pn_tokenizer_is_end(tok, pause));
    assert_false(pn_tokenizer_is_end(tok, text));
    assert_false(pn_tokenizer_is_end(tok, tag)); /* an HTML tag in Gemma */
    assert_false(pn_tokenizer_is_end(tok, THINK));
    assert_false(pn_tokenizer_is_end(tok, -1));
    pn_tokenizer_free(tok);
    tok = vb_create(vb_pieces());
    assert_true(pn_tokenizer_is_end(tok, S_EOS));
    assert_false(pn_tokenizer_is_end(tok, S_BOS));
    pn_tokenizer_free(tok);
}

/* ---- any bytes, any length ---- */

static const char *const awkward[] = {
    "\xF0\x9F\x98\x80",
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7", /* family */
    "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",                                         /* flag */
    "\xF4\x8F\xBF\xBF",                                                         /* U+10FFFF */
    "\xED\xA0\xBD",                                                             /* half of a surrogate pair */
    "a  b    c\t\t\n\n  \r\n ",
    "\xC3",
    "\xC3\x28\xFF\xFE\x80 \xE2\x82",
    "it's 'S I'LL 1234 \xD9\xA1\xD9\xA2 \xE4\xBD\xA0\xE5\xA5\xBD",
};

static void check_any_bytes(pn_tokenizer *tok) {
    pn_rng rng;
    pn_rng_seed(&rng, 11);
    for (size_t i = 0; i < sizeof awkward / sizeof awkward[0]; i++)
        vb_check_round_trip(tok, pn_str_from(awkward[i]));
    for (int i = 0; i < 2000; i++) {
        char text[40];
        size_t len = (size_t)(pn_rng_u64(&rng) % sizeof text);
        for (size_t j = 0; j < len; j++) {
            uint64_t r = pn_rng_u64(&rng);
            text[j] = r & 0x100 ? (char)r : "  hel<b>1'\n"[(r >> 16) % 11];
        }
        vb_check_round_trip(tok, (pn_str){text, len});
    }
    char every[256];
    for (int b = 0; b < 256; b++)
        every[b] = (char)b;
    vb_check_round_trip(tok, (pn_str){every, 256});
    pn_tokenizer_free(tok);
}

static void any_bytes_come_back(void **state) {
    (void)state;
    static const char *const names[] = {"gpt-2",       "smollm", "llama-bpe",      "qwen2",
                                        "qwen35",      "tekken", "gpt-4o",         "deepseek-llm",
                                        "deepseek-v3", "falcon", "deepseek-coder", "default"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_any_bytes(vb_create(vb_byte_level(names[i])));
    vb_fixture *f = vb_pieces();
    check_any_bytes(vb_create(f));
    f->spec.add_space_prefix = true;
    check_any_bytes(vb_create(f));
}

/* Anything quadratic takes minutes here and runs into the test's time limit. */
static void check_long(pn_tokenizer *tok) {
    static const struct {
        const char *unit;
        size_t n;
        const char *last;
    } cases[] = {{"A", 131072, ""},           {" ", 131072, ""},    {" ", 131072, "x"},
                 {"\xE5\xA5\xBD", 50000, ""}, {"us", 50000, ""},    {" ", 131072, "\xE5\xA5\xBD"},
                 {"\n", 131072, "x"},         {"l", 131072, "o"},   {"<think", 30000, ""},
                 {"<", 131072, ""},           {"\xFF", 131072, ""}, {"1", 131072, ""},
                 {"ab", 65536, "c"},          {"aA", 65536, "'s"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pn_buf text;
        pn_buf_init(&text, SIZE_MAX);
        for (size_t j = 0; j < cases[i].n; j++)
            pn_buf_append_str(&text, cases[i].unit);
        assert_int_equal(pn_buf_append_str(&text, cases[i].last), PN_OK);
        vb_check_round_trip(tok, (pn_str){text.data, text.len});
        pn_buf_done(&text);
    }
    pn_tokenizer_free(tok);
}

static void long_runs_take_no_longer_than_other_text(void **state) {
    (void)state;
    check_long(vb_create(vb_byte_level("smollm")));
    check_long(vb_create(vb_byte_level("llama-bpe")));
    check_long(vb_create(vb_byte_level("tekken")));
    check_long(vb_create(vb_byte_level("deepseek-llm")));
    check_long(vb_create(vb_pieces()));
}

static void text_past_the_bound_is_refused(void **state) {
    (void)state;
    pn_tokenizer *tok = vb_create(vb_byte_level("gpt-2"));
    pn_tokens ids = {0};
    pn_error err;
    assert_int_equal(pn_tokenizer_encode(tok, "", ((size_t)256 << 20) + 1, NULL, &ids, &err), PN_ERR_LIMIT);
    pn_tokenizer_free(tok);
}

/* ---- decode ---- */

static void decode_spells_each_kind(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    int32_t odd = vb_add(f, "\xE5\xA5\xBD", PN_TOKEN_NORMAL,
                         0); /* a character outside the alphabet stands for itself */
    pn_tokenizer *tok = vb_create(f);
    const int32_t ids[] = {SP_HELLO, END_CONTROL, THINK, 0xC3, 0xA9, odd};
    vb_check_text(tok, ids, 6, false, PN_STR(" hello<think>\xC3\xA9\xE5\xA5\xBD"));
    vb_check_text(tok, ids, 6, true, PN_STR(" hello<|im_end|><think>\xC3\xA9\xE5\xA5\xBD"));
    pn_tokenizer_free(tok);
    tok = vb_create(vb_pieces());
    const int32_t spm[] = {S_MARK_A, UNK, S_TWO, BYTE_0 + 0xE5, S_EOS};
    vb_check_text(tok, spm, 5, false, PN_STR(" a  \xE5"));
    vb_check_text(tok, spm, 5, true, PN_STR(" a<unk>  \xE5</s>"));
    pn_tokenizer_free(tok);
}

static void decode_refuses_strange_ids_and_full_buffers(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    pn_tokenizer *tok = vb_create(f);
    pn_buf buf;
    pn_error err;
    pn_buf_init(&buf, 3);
    assert_int_equal(pn_tokenizer_decode_token(tok, -1, false, false, &buf, &err), PN_ERR_ARGUMENT);
    assert_int_equal(pn_tokenizer_decode_token(tok, (int32_t)f->n, false, false, &buf, &err),
                     PN_ERR_ARGUMENT);
    assert_int_equal(pn_tokenizer_decode_token(tok, INT32_MAX, false, false, &buf, &err), PN_ERR_ARGUMENT);
    assert_int_equal(pn_tokenizer_decode_token(tok, HELLO, false, false, &buf, &err), PN_ERR_LIMIT);
    pn_buf_done(&buf);
    assert_int_equal(pn_tokenizer_piece(tok, -1).len, 0);
    assert_int_equal(pn_tokenizer_piece(tok, (int32_t)f->n).len, 0);
    assert_true(pn_str_equal(pn_tokenizer_piece(tok, HELLO), PN_STR("hello")));
    assert_int_equal(pn_tokenizer_find(tok, PN_STR("hello")), HELLO);
    assert_int_equal(pn_tokenizer_find(tok, PN_STR("hallo")), -1);
    assert_int_equal(pn_tokenizer_find(tok, PN_STR("")), -1);
    pn_tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_go_by_rank_then_from_the_left),
        cmocka_unit_test(words_are_cut_as_the_name_says),
        cmocka_unit_test(a_word_that_is_a_token_may_skip_merging),
        cmocka_unit_test(merging_makes_no_control_token),
        cmocka_unit_test(a_missing_byte_is_left_out),
        cmocka_unit_test(pieces_merge_by_score),
        cmocka_unit_test(pieces_may_go_on_over_a_space),
        cmocka_unit_test(equal_scores_merge_from_the_left),
        cmocka_unit_test(user_defined_pieces_stand_before_everything),
        cmocka_unit_test(a_space_is_added_where_text_begins),
        cmocka_unit_test(unknown_characters_fall_back),
        cmocka_unit_test(unused_pieces_are_taken_apart),
        cmocka_unit_test(control_tokens_come_from_trusted_text_only),
        cmocka_unit_test(the_longest_special_token_wins),
        cmocka_unit_test(bad_ranges_are_refused),
        cmocka_unit_test(bos_comes_once),
        cmocka_unit_test(ends_are_known_by_spelling_and_kind),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(long_runs_take_no_longer_than_other_text),
        cmocka_unit_test(text_past_the_bound_is_refused),
        cmocka_unit_test(decode_spells_each_kind),
        cmocka_unit_test(decode_refuses_strange_ids_and_full_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
