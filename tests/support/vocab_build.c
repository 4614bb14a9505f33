/* SPDX-License-Identifier: Apache-2.0 */
#include "support/vocab_build.h"

#include "support/check.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>

int32_t vb_add_bytes(vb_fixture *f, pn_str spelling, int32_t kind, float score) {
    assert_in_range(f->n, 0, VB_MAX_TOKENS - 1);
    f->tokens[f->n] = spelling;
    f->kinds[f->n] = kind;
    f->scores[f->n] = score;
    return (int32_t)f->n++;
}

int32_t vb_add(vb_fixture *f, const char *spelling, int32_t kind, float score) {
    return vb_add_bytes(f, pn_str_from(spelling), kind, score);
}

static pn_str vb_keep(vb_fixture *f, const char *text, size_t len) {
    assert_in_range(f->used + len, 0, sizeof f->storage);
    char *copy = memcpy(f->storage + f->used, text, len);
    f->used += len;
    return (pn_str){copy, len};
}

static void set_spec(vb_fixture *f, const char *model, const char *pre) {
    f->spec = (pn_tokenizer_spec){.model = pn_str_from(model),
                                  .pre = pn_str_from(pre),
                                  .tokens = f->tokens,
                                  .scores = f->scores,
                                  .kinds = f->kinds,
                                  .merges = f->merges,
                                  .bos_id = -1,
                                  .eos_id = -1,
                                  .eot_id = -1,
                                  .eom_id = -1,
                                  .unk_id = -1};
}

/* Byte b becomes token b, spelled as GPT-2's bytes_to_unicode does. */
static void add_byte_alphabet(vb_fixture *f) {
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        char spelling[4];
        size_t len = pn_utf8_encode(printable ? b : next++, spelling);
        vb_add_bytes(f, vb_keep(f, spelling, len), PN_TOKEN_NORMAL, 0);
    }
}

int32_t vb_add_merge(vb_fixture *f, const char *merge) {
    char joined[64];
    const char *space = strchr(merge, ' ');
    int len = snprintf(joined, sizeof joined, "%.*s%s", (int)(space - merge), merge, space + 1);
    f->merges[f->n_merges++] = pn_str_from(merge);
    return vb_add_bytes(f, vb_keep(f, joined, (size_t)len), PN_TOKEN_NORMAL, 0);
}

pn_tokenizer *vb_create(vb_fixture *f) {
    pn_tokenizer *tok = NULL;
    pn_error err = {0};
    f->spec.n_tokens = f->n;
    f->spec.n_merges = f->n_merges;
    if (pn_tokenizer_create(&f->spec, &tok, &err) != PN_OK) fail_msg("%s", err.message);
    return tok;
}

pn_tokens vb_encode(const pn_tokenizer *tok, pn_str text, const pn_encode_options *options) {
    pn_tokens ids = {0};
    pn_error err = {0};
    if (pn_tokenizer_encode(tok, text.data, text.len, options, &ids, &err) != PN_OK)
        fail_msg("%s", err.message);
    return ids;
}

void vb_check_ids(pn_tokens got, const int32_t *ids, size_t n) {
    assert_int_equal(got.n, n);
    if (n) assert_memory_equal(got.ids, ids, n * sizeof *ids);
    pn_free(got.ids);
}

static pn_buf decode(const pn_tokenizer *tok, const int32_t *ids, size_t n, bool with_control) {
    pn_buf buf;
    pn_error err = {0};
    pn_buf_init(&buf, SIZE_MAX);
    if (pn_tokenizer_decode(tok, ids, n, with_control, &buf, &err) != PN_OK) fail_msg("%s", err.message);
    return buf;
}

void vb_check_text(const pn_tokenizer *tok, const int32_t *ids, size_t n, bool with_control, pn_str text) {
    pn_buf buf = decode(tok, ids, n, with_control);
    assert_int_equal(buf.len, text.len);
    if (text.len) assert_memory_equal(buf.data, text.data, text.len);
    pn_buf_done(&buf);
}

void vb_check_round_trip(const pn_tokenizer *tok, pn_str text) {
    pn_tokens ids = vb_encode(tok, text, NULL);
    vb_check_text(tok, ids.ids, ids.n, true, text);
    pn_free(ids.ids);
}

vb_fixture *vb_byte_level(const char *pre) {
    static vb_fixture f;
    f = (vb_fixture){0};
    set_spec(&f, "gpt2", pre);
    add_byte_alphabet(&f);
    assert_int_equal(vb_add_merge(&f, "h e"), HE);
    assert_int_equal(vb_add_merge(&f, "l l"), LL);
    assert_int_equal(vb_add_merge(&f, "he ll"), HELL);
    assert_int_equal(vb_add_merge(&f, "hell o"), HELLO);
    assert_int_equal(vb_add_merge(&f, "\xC4\xA0 hello"), SP_HELLO);
    assert_int_equal(vb_add_merge(&f, "\xC4\xA0 \xC4\xA0"), SP_SP);
    assert_int_equal(vb_add_merge(&f, "1 2"), D12);
    assert_int_equal(vb_add_merge(&f, "a a"), AA);
    assert_int_equal(vb_add_merge(&f, "\xC4\xB0 !"), B8E_BANG);
    assert_int_equal(vb_add_merge(&f, "\xC4\xA7 !"), B85_BANG);
    assert_int_equal(vb_add(&f, "<|im_end|>", PN_TOKEN_CONTROL, 0), END_CONTROL);
    assert_int_equal(vb_add(&f, "<think>", PN_TOKEN_USER_DEFINED, 0), THINK);
    assert_int_equal(vb_add(&f, "<think>ing", PN_TOKEN_USER_DEFINED, 0), THINKING);
    return &f;
}

vb_fixture *vb_pieces(void) {
    static vb_fixture f;
    f = (vb_fixture){0};
    set_spec(&f, "llama", "");
    vb_add(&f, "<unk>", PN_TOKEN_UNKNOWN, 0);
    vb_add(&f, "<s>", PN_TOKEN_CONTROL, 0);
    vb_add(&f, "</s>", PN_TOKEN_CONTROL, 0);
    for (int b = 0; b < 256; b++) {
        char spelling[8];
        vb_add_bytes(&f, vb_keep(&f, spelling, (size_t)snprintf(spelling, 8, "<0x%02X>", b)), PN_TOKEN_BYTE,
                     0);
    }
    assert_int_equal(vb_add(&f, VB_MARK, PN_TOKEN_NORMAL, -10), S_MARK);
    vb_add(&f, "a", PN_TOKEN_NORMAL, -11);
    vb_add(&f, "b", PN_TOKEN_NORMAL, -12);
    vb_add(&f, "c", PN_TOKEN_NORMAL, -13);
    vb_add(&f, "ab", PN_TOKEN_NORMAL, -2);
    vb_add(&f, "bc", PN_TOKEN_NORMAL, -1);
    vb_add(&f, "abc", PN_TOKEN_NORMAL, -3);
    vb_add(&f, VB_MARK "a", PN_TOKEN_NORMAL, -4);
    vb_add(&f, "  ", PN_TOKEN_USER_DEFINED, -1000);
    assert_int_equal(vb_add(&f, "<b>", PN_TOKEN_USER_DEFINED, -1000), S_TAG);
    f.spec.bos_id = S_BOS;
    f.spec.eos_id = S_EOS;
    f.spec.unk_id = UNK;
    return &f;
}
