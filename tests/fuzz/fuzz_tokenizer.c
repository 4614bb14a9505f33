/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary and a text from one input: a byte of settings, lines of the vocabulary, an empty line, the
   text. A line is a kind ('1' to '6', others stand for themselves), a score byte and a spelling; or 'm' and a
   merge. Whatever the input, encode must give ids of the vocabulary, control tokens only where they are
   trusted, and decode the text again. */
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_LINES = 64, MAX_TOKENS = 257 + MAX_LINES };

typedef struct input {
    uint8_t settings;
    pn_str tokens[MAX_TOKENS], merges[MAX_LINES], text;
    float scores[MAX_TOKENS];
    int32_t kinds[MAX_TOKENS];
    char base[256][8];
    size_t n, n_merges;
    bool plain_user_defined; /* all of ASCII: they decode to the same bytes spelled out or by the byte
                                alphabet */
} input;

static void require(bool holds) {
    if (!holds) abort();
}

static void add(input *in, pn_str spelling, int32_t kind, float score) {
    in->tokens[in->n] = spelling;
    in->kinds[in->n] = kind;
    in->scores[in->n++] = score;
}

static void add_base(input *in, bool pieces) {
    static const char hex[] = "0123456789ABCDEF";
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        char *out = in->base[b];
        size_t len = 6;
        memcpy(out, (char[]){'<', '0', 'x', hex[b >> 4], hex[b & 15], '>'}, 6);
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (!pieces) len = pn_utf8_encode(printable ? b : next++, out);
        add(in, (pn_str){out, len}, pieces ? PN_TOKEN_BYTE : PN_TOKEN_NORMAL, 0);
    }
    add(in, PN_STR("\xE2\x96\x81"), PN_TOKEN_NORMAL, -1);
}

static bool is_ascii(pn_str s) {
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] & 0x80) return false;
    return true;
}

static void add_line(input *in, pn_str line) {
    if (line.data[0] == 'm') {
        in->merges[in->n_merges++] = (pn_str){line.data + 1, line.len - 1};
        return;
    }
    int32_t kind = line.data[0] >= '1' && line.data[0] <= '6' ? line.data[0] - '0' : line.data[0];
    float score = line.len > 1 ? (float)line.data[1] : 0;
    pn_str spelling = {line.data + 2, line.len > 2 ? line.len - 2 : 0};
    if (kind == PN_TOKEN_USER_DEFINED && !is_ascii(spelling)) in->plain_user_defined = false;
    add(in, spelling, kind, score);
}

static void parse(input *in, const char *data, size_t size) {
    size_t pos = 0;
    in->settings = size ? (uint8_t)data[pos++] : 0;
    in->plain_user_defined = true;
    if (!(in->settings & 0x80)) add_base(in, in->settings & 1);
    for (int i = 0; i < MAX_LINES && pos < size; i++) {
        const char *end = memchr(data + pos, '\n', size - pos);
        size_t len = end ? (size_t)(end - (data + pos)) : size - pos;
        if (len > 0) add_line(in, (pn_str){data + pos, len});
        pos += len + (end ? 1 : 0);
        if (len == 0) break;
    }
    in->text = (pn_str){data + pos, size - pos};
}

static pn_tokenizer *create(const input *in) {
    static const char *const pres[] = {"gpt-2",       "smollm",         "llama-bpe", "qwen2",
                                       "tekken",      "gpt-4o",         "qwen35",    "falcon",
                                       "deepseek-v3", "deepseek-coder", "default",   "deepseek-llm"};
    const pn_tokenizer_spec spec = {
        .model = in->settings & 1 ? PN_STR("llama") : PN_STR("gpt2"),
        .pre = pn_str_from(pres[(in->settings >> 3 & 15) % (sizeof pres / sizeof pres[0])]),
        .tokens = in->tokens,
        .scores = in->scores,
        .kinds = in->kinds,
        .n_tokens = in->n,
        .merges = in->merges,
        .n_merges = in->n_merges,
        .bos_id = in->n ? (int32_t)in->n - 1 : -1,
        .eos_id = -1,
        .eot_id = -1,
        .eom_id = -1,
        .unk_id = in->n ? 0 : -1,
        .add_bos = in->settings & 2,
        .add_space_prefix = in->settings & 4,
    };
    pn_tokenizer *tok = NULL;
    pn_error err = {0};
    pn_status status = pn_tokenizer_create(&spec, &tok, &err);
    require((status == PN_OK) == (tok != NULL));
    require(status == PN_OK || (err.code == status && err.message[0] != '\0'));
    return tok;
}

/* U+2581 and the space are one to SentencePiece. */
static void append_as_spaces(pn_buf *out, const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        bool marker = len - i >= 3 && memcmp(data + i, "\xE2\x96\x81", 3) == 0;
        pn_buf_append(out, marker ? " " : data + i, 1);
        i += marker ? 2 : 0;
    }
}

static void check_same_text(const input *in, pn_str back) {
    pn_buf want, got;
    pn_buf_init(&want, SIZE_MAX);
    pn_buf_init(&got, SIZE_MAX);
    append_as_spaces(&want, in->text.data, in->text.len);
    append_as_spaces(&got, back.data, back.len);
    require(want.status == PN_OK && got.status == PN_OK);
    require(pn_str_equal((pn_str){want.data, want.len}, (pn_str){got.data, got.len}));
    if (!(in->settings & 1)) require(pn_str_equal(in->text, back));
    pn_buf_done(&want);
    pn_buf_done(&got);
}

static void check_encode(const input *in, const pn_tokenizer *tok, const pn_range *trusted,
                         size_t n_trusted) {
    const pn_encode_options options = {.trusted = trusted, .n_trusted = n_trusted};
    pn_tokens ids = {0};
    pn_error err;
    pn_buf buf;
    pn_buf_init(&buf, SIZE_MAX);
    require(pn_tokenizer_encode(tok, in->text.data, in->text.len, &options, &ids, &err) == PN_OK);
    for (size_t i = 0; i < ids.n; i++) {
        require(ids.ids[i] >= 0 && (size_t)ids.ids[i] < in->n);
        bool unknown = (in->settings & 1) && ids.ids[i] == 0; /* of any kind: some files call it control */
        if (n_trusted == 0 && !unknown) require(in->kinds[ids.ids[i]] != PN_TOKEN_CONTROL);
    }
    require(pn_tokenizer_decode(tok, ids.ids, ids.n, true, &buf, &err) == PN_OK);
    bool all_bytes = !(in->settings & 0x80), spelled_out = (in->settings & 1) || in->plain_user_defined;
    if (all_bytes && spelled_out) check_same_text(in, (pn_str){buf.data, buf.len});
    pn_buf_done(&buf);
    pn_free(ids.ids);
}

static void check_bos(const input *in, const pn_tokenizer *tok) {
    const pn_range all = {0, in->text.len};
    const pn_encode_options options = {.add_bos = true, .trusted = &all, .n_trusted = 1};
    pn_tokens ids = {0};
    pn_error err;
    require(pn_tokenizer_encode(tok, in->text.data, in->text.len, &options, &ids, &err) == PN_OK);
    if (in->settings & 2) require(ids.n > 0 && ids.ids[0] == (int32_t)in->n - 1);
    pn_free(ids.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static input in;
    in = (input){0};
    parse(&in, (const char *)data, size);
    pn_tokenizer *tok = create(&in);
    if (tok) {
        size_t len = in.text.len;
        const pn_range trusted[] = {{0, len / 4}, {len / 4, len / 2}, {len - len / 4, len}};
        check_encode(&in, tok, NULL, 0);
        check_encode(&in, tok, trusted, 3);
        check_bos(&in, tok);
        for (int32_t id = 0; id < (int32_t)in.n; id++)
            pn_tokenizer_is_end(tok, id);
    }
    pn_tokenizer_free(tok);
    return 0;
}
