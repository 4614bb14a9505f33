/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies that are wrong or odd, and memory that runs out. */
#include "support/check.h"
#include "support/vocab_build.h"

#include "base/mem.h"

#include <math.h>

static void expect_failure(vb_fixture *f, pn_status code, const char *part_of_message) {
    pn_tokenizer *tok = NULL;
    pn_error err = {0};
    f->spec.n_tokens = f->n;
    f->spec.n_merges = f->n_merges;
    uint64_t before = pn_mem_bytes(PN_MEM_OTHER);
    assert_int_equal(pn_tokenizer_create(&f->spec, &tok, &err), code);
    assert_int_equal(err.code, code);
    if (!strstr(err.message, part_of_message)) fail_msg("\"%s\" lacks \"%s\"", err.message, part_of_message);
    assert_null(tok);
    assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), before);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    f->spec.model = PN_STR("t5");
    expect_failure(f, PN_ERR_UNSUPPORTED, "gpt2, llama");
    f = vb_byte_level("my\npre");
    expect_failure(f, PN_ERR_UNSUPPORTED, "\"my\\x0apre\"; known are gpt-2");
    f = vb_byte_level("");
    expect_failure(f, PN_ERR_UNSUPPORTED, "smollm");
}

static void wrong_vocabularies_are_refused(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    f->spec.bos_id = (int32_t)f->n;
    expect_failure(f, PN_ERR_FORMAT, "BOS");
    f = vb_byte_level("gpt-2");
    f->spec.eos_id = -2;
    expect_failure(f, PN_ERR_FORMAT, "EOS");
    f = vb_byte_level("gpt-2");
    f->spec.unk_id = INT32_MAX;
    expect_failure(f, PN_ERR_FORMAT, "unknown");
    f = vb_byte_level("gpt-2");
    f->spec.eot_id = INT32_MAX;
    expect_failure(f, PN_ERR_FORMAT, "end-of-turn");
    f = vb_byte_level("gpt-2");
    f->kinds[7] = 7;
    expect_failure(f, PN_ERR_FORMAT, "token 7");
    f = vb_byte_level("gpt-2");
    f->n = 0;
    expect_failure(f, PN_ERR_FORMAT, "no tokens");
    f = vb_byte_level("gpt-2");
    for (size_t i = 0; i < f->n; i++)
        f->tokens[i] = PN_STR("");
    expect_failure(f, PN_ERR_FORMAT, "no single byte");

    static char long_piece[1025];
    memset(long_piece, 'x', sizeof long_piece);
    f = vb_byte_level("gpt-2");
    vb_add_bytes(f, (pn_str){long_piece, sizeof long_piece}, PN_TOKEN_CONTROL, 0);
    expect_failure(f, PN_ERR_FORMAT, "1025 bytes");
    f->tokens[f->n - 1].len = 1024;
    pn_tokenizer_free(vb_create(f));
}

static void wrong_merges_are_named(void **state) {
    (void)state;
    static const struct {
        const char *merge, *message;
    } cases[] = {
        {"h zz", "merge 3, \"h zz\": the right piece"},
        {"zz h", "merge 3, \"zz h\": the left piece"},
        {"x y", "merge 3, \"x y\": both pieces"},
        {"xy", "merge 3, \"xy\": expected two"},
        {"", "merge 3, \"\": expected two"},
        {" ", "merge 3, \" \": expected two"},
        {"x ", "merge 3, \"x \": the right piece"},
        {" x", "merge 3, \" x\": expected two"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vb_fixture *f = vb_byte_level("gpt-2");
        f->merges[3] = pn_str_from(cases[i].merge);
        expect_failure(f, PN_ERR_FORMAT, cases[i].message);
    }
}

static void wrong_pieces_are_refused(void **state) {
    (void)state;
    vb_fixture *f = vb_pieces();
    f->spec.scores = NULL;
    expect_failure(f, PN_ERR_FORMAT, "scores");
    f = vb_pieces();
    f->scores[S_A] = NAN;
    expect_failure(f, PN_ERR_FORMAT, "not a number");
    f = vb_pieces();
    f->tokens[BYTE_0 + 0x41] = PN_STR("<0x4G>");
    expect_failure(f, PN_ERR_FORMAT, "\"<0x4G>\"");
    f = vb_pieces();
    f->tokens[BYTE_0 + 0x41] = PN_STR("<0x42>");
    expect_failure(f, PN_ERR_FORMAT, "\"<0x41>\" is missing");
    f = vb_pieces();
    for (int b = 0; b < 256; b++)
        f->kinds[BYTE_0 + b] = PN_TOKEN_NORMAL;
    f->spec.unk_id = -1;
    expect_failure(f, PN_ERR_FORMAT, "neither byte tokens");
}

static void odd_vocabularies_have_defined_meaning(void **state) {
    (void)state;
    vb_fixture *f = vb_byte_level("gpt-2");
    int32_t empty = vb_add(f, "", PN_TOKEN_CONTROL, 0);
    vb_add(f, "hello", PN_TOKEN_NORMAL, 0);          /* spelled like an earlier one */
    vb_add(f, "<think>", PN_TOKEN_CONTROL, 0);       /* likewise */
    vb_add(f, "\xFF\xC3", PN_TOKEN_USER_DEFINED, 0); /* not UTF-8 */
    int32_t last = (int32_t)f->n - 1;
    vb_add_merge(f, "x h");
    f->merges[f->n_merges++] = PN_STR("h e"); /* again: the first counts, and comes before "x h" */
    pn_tokenizer *tok = vb_create(f);
    VB_EXPECT(tok, "hello<think>", HELLO, THINK);
    VB_EXPECT(tok, "xhe", 'x', HE);
    vb_check_ids(vb_encode(tok, PN_STR("\xFF\xC3"), NULL), &last, 1);
    vb_check_text(tok, &empty, 1, true, PN_STR(""));
    pn_tokenizer_free(tok);

    f = vb_pieces();
    f->spec.kinds = NULL; /* all normal, byte tokens by their spelling */
    tok = vb_create(f);
    VB_EXPECT(tok, "ab!", S_AB, BYTE_0 + '!');
    pn_tokenizer_free(tok);

    f = vb_pieces();
    f->scores[S_AB] = INFINITY;
    f->scores[S_BC] = -INFINITY;
    tok = vb_create(f);
    VB_EXPECT(tok, "abc", S_ABC);
    VB_EXPECT(tok, "bc", S_BC);
    pn_tokenizer_free(tok);
}

/* ---- memory ---- */

static pn_status use(vb_fixture *f, pn_error *err) {
    static const char text[] =
        "hello <|im_end|> ab  abc\xFFhellohellohellohellohellohellohellohellohellohellohello"
        " abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc";
    const pn_range all = {0, sizeof text - 1};
    const pn_encode_options options = {.add_bos = true, .trusted = &all, .n_trusted = 1};
    pn_tokenizer *tok = NULL;
    pn_tokens ids = {0};
    pn_buf buf;
    pn_status status;
    pn_buf_init(&buf, SIZE_MAX);
    f->spec.n_tokens = f->n;
    f->spec.n_merges = f->n_merges;
    PN_TRY_GOTO(status, pn_tokenizer_create(&f->spec, &tok, err), done);
    PN_TRY_GOTO(status, pn_tokenizer_encode(tok, text, sizeof text - 1, &options, &ids, err), done);
    PN_TRY_GOTO(status, pn_tokenizer_decode(tok, ids.ids, ids.n, true, &buf, err), done);
    assert_int_equal(buf.len, sizeof text - 1);
done:
    pn_buf_done(&buf);
    pn_free(ids.ids);
    pn_tokenizer_free(tok);
    return status;
}

/* Fails each allocation in turn. PCRE2 can do without those of its JIT: then the result must be right. */
static void sweep(vb_fixture *f) {
    uint64_t before = pn_mem_bytes(PN_MEM_OTHER), nth = 0, n_made, n_reported = 0;
    pn_status status;
    do {
        pn_error err = {0};
        pn_mem_fail_at(++nth);
        status = use(f, &err);
        n_made = pn_mem_fail_at(0);
        assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), before);
        assert_true(status == PN_OK || (status == PN_ERR_MEMORY && err.code == PN_ERR_MEMORY));
        if (status == PN_ERR_MEMORY) n_reported++;
    } while (n_made >= nth);
    assert_int_equal(status, PN_OK);
    assert_in_range(n_reported, 10, nth);
}

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state) {
    (void)state;
    sweep(vb_byte_level("smollm"));
    sweep(vb_byte_level("llama-bpe"));
    vb_fixture *f = vb_pieces();
    f->kinds[S_ABC] = PN_TOKEN_UNUSED;
    f->spec.add_space_prefix = true;
    sweep(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(wrong_vocabularies_are_refused),
        cmocka_unit_test(wrong_merges_are_named),
        cmocka_unit_test(wrong_pieces_are_refused),
        cmocka_unit_test(odd_vocabularies_have_defined_meaning),
        cmocka_unit_test(every_failed_allocation_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
