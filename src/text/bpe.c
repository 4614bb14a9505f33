/* SPDX-License-Identifier: Apache-2.0 */
#include "text/bpe.h"

#include "base/mem.h"
#include "base/quote.h"
#include "base/utf8.h"

/* Most bytes a word may have to be looked up as it stands. Longer tokens exist in no vocabulary known. */
#define MAX_WHOLE_WORD 256

/* GPT-2's alphabet: bytes that are printable in Latin-1 spell themselves; the 68 others take U+0100 and up in
 * order. */
static bool spells_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

/* Which of the other bytes it is, counted from 0: 0x00..0x20, 0x7F..0xA0, 0xAD. */
static uint32_t spelling_of(uint8_t byte) {
    if (spells_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
    return 0x143;
}

static int byte_of(uint32_t code_point) {
    if (code_point < 0x100) return spells_itself(code_point) ? (int)code_point : -1;
    if (code_point < 0x121) return (int)(code_point - 0x100);
    if (code_point < 0x143) return (int)(code_point - 0x121 + 0x7F);
    return code_point == 0x143 ? 0xAD : -1;
}

pn_status pn_bpe_decode_piece(pn_str piece, pn_buf *buf) {
    size_t before = buf->len;
    for (size_t pos = 0; pos < piece.len;) {
        uint32_t cp;
        size_t n = pn_utf8_decode(piece.data + pos, piece.len - pos, &cp);
        int byte = n ? byte_of(cp) : -1;
        if (byte < 0) {
            buf->len = before;
            return pn_buf_append(buf, piece.data, piece.len);
        }
        PN_TRY(pn_buf_append(buf, &(char){(char)byte}, 1));
        pos += n;
    }
    return PN_OK;
}

static pn_status find_bytes(pn_bpe *bpe, pn_error *err) {
    bool any = false;
    for (int byte = 0; byte < 256; byte++) {
        char spelling[4];
        size_t len = pn_utf8_encode(spelling_of((uint8_t)byte), spelling);
        bpe->byte_ids[byte] = pn_vocab_find_plain(bpe->vocab, spelling, len);
        any = any || bpe->byte_ids[byte] >= 0;
    }
    if (!any) return pn_fail(err, PN_ERR_FORMAT, "the byte-level vocabulary has a token for no single byte");
    return PN_OK;
}

/* The slot of the pair, or the free one where it would go. The table is never full. */
static pn_merge_rule *rule_of(const pn_bpe *bpe, uint64_t pair) {
    size_t mask = bpe->n_slots - 1;
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(hash ^ hash >> 32) & mask;
    while (bpe->rules[at].rank != 0 && bpe->rules[at].pair != pair)
        at = (at + 1) & mask;
    return &bpe->rules[at];
}

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static pn_status fail_merge(size_t index, pn_str merge, const char *what, pn_error *err) {
    return pn_fail(err, PN_ERR_FORMAT, "merge %zu, \"%s\": %s", index, pn_quote(merge).text, what);
}

/* `joined` has room for the longest piece. */
static pn_status add_merge(pn_bpe *bpe, pn_str merge, size_t index, char *joined, pn_error *err) {
    const char *space = merge.len > 1 ? memchr(merge.data + 1, ' ', merge.len - 1) : NULL;
    if (!space) return fail_merge(index, merge, "expected two pieces with a space between", err);
    pn_str left = {merge.data, (size_t)(space - merge.data)};
    pn_str right = {space + 1, merge.len - left.len - 1};
    int32_t left_id = pn_vocab_find(bpe->vocab, left.data, left.len);
    if (left_id < 0) return fail_merge(index, merge, "the left piece is no token", err);
    int32_t right_id = pn_vocab_find(bpe->vocab, right.data, right.len);
    if (right_id < 0) return fail_merge(index, merge, "the right piece is no token", err);
    int32_t id = -1;
    if (left.len + right.len <= bpe->vocab->max_len) {
        memcpy(joined, left.data, left.len);
        memcpy(joined + left.len, right.data, right.len);
        id = pn_vocab_find(bpe->vocab, joined, left.len + right.len);
    }
    if (id < 0) return fail_merge(index, merge, "both pieces together are no token", err);
    if (pn_vocab_find_plain(bpe->vocab, joined, left.len + right.len) < 0)
        return PN_OK; /* text makes no control token */
    pn_merge_rule *rule = rule_of(bpe, pair_of(left_id, right_id));
    if (rule->rank == 0) *rule = (pn_merge_rule){pair_of(left_id, right_id), (uint32_t)index + 1, id};
    return PN_OK;
}

static pn_status add_merges(pn_bpe *bpe, const pn_tokenizer_spec *spec, pn_error *err) {
    pn_status status = PN_OK;
    if (spec->n_merges > UINT32_MAX / 4)
        return pn_fail(err, PN_ERR_FORMAT, "the vocabulary has %zu merges, at most %u are possible",
                       spec->n_merges, UINT32_MAX / 4);
    bpe->n_slots = 16;
    while (bpe->n_slots < 2 * spec->n_merges)
        bpe->n_slots *= 2;
    bpe->rules = pn_alloc(PN_MEM_OTHER, bpe->n_slots, sizeof *bpe->rules);
    char *joined = pn_alloc(PN_MEM_OTHER, bpe->vocab->max_len, 1);
    if (!bpe->rules || !joined) {
        status = pn_fail_memory(err, "merge table", bpe->n_slots * sizeof *bpe->rules);
        goto done;
    }
    for (size_t i = 0; i < spec->n_merges; i++)
        PN_TRY_GOTO(status, add_merge(bpe, spec->merges[i], i, joined, err), done);
done:
    pn_free(joined);
    return status;
}

pn_status pn_bpe_init(pn_bpe *bpe, const pn_vocab *vocab, const pn_tokenizer_spec *spec, pn_error *err) {
    pn_status status;
    *bpe = (pn_bpe){.vocab = vocab};
    PN_TRY_GOTO(status, pn_pretok_create(spec->pre, &bpe->pretok, err), fail);
    PN_TRY_GOTO(status, find_bytes(bpe, err), fail);
    PN_TRY_GOTO(status, add_merges(bpe, spec, err), fail);
    return PN_OK;
fail:
    pn_bpe_done(bpe);
    return status;
}

void pn_bpe_done(pn_bpe *bpe) {
    pn_pretok_free(bpe->pretok);
    pn_free(bpe->rules);
    *bpe = (pn_bpe){0};
}

pn_status pn_bpe_scratch_init(pn_bpe_scratch *scratch, const pn_bpe *bpe, pn_error *err) {
    *scratch = (pn_bpe_scratch){0};
    return pn_pretok_scratch_create(bpe->pretok, &scratch->pretok, err);
}

void pn_bpe_scratch_done(pn_bpe_scratch *scratch) {
    pn_pretok_scratch_free(scratch->pretok);
    pn_merger_done(&scratch->merger);
    *scratch = (pn_bpe_scratch){0};
}

typedef struct encoder {
    const pn_bpe *bpe;
    pn_merger *merger;
    pn_token_list *out;
} encoder;

static bool pair_rank(void *ctx, const pn_symbol *left, const pn_symbol *right, uint32_t *rank, int32_t *id) {
    const pn_merge_rule *rule = rule_of(((const encoder *)ctx)->bpe, pair_of(left->id, right->id));
    *rank = rule->rank;
    *id = rule->id;
    return rule->rank != 0;
}

/* The token that the word is as it stands, or -1. */
static int32_t whole_word(const pn_bpe *bpe, const char *word, size_t len) {
    char spelled[MAX_WHOLE_WORD * 2];
    size_t n = 0;
    if (len > MAX_WHOLE_WORD) return -1;
    for (size_t i = 0; i < len; i++)
        n += pn_utf8_encode(spelling_of((uint8_t)word[i]), spelled + n);
    return pn_vocab_find_plain(bpe->vocab, spelled, n);
}

static pn_status encode_word(void *ctx, const char *word, size_t len, pn_error *err) {
    encoder *e = ctx;
    if (pn_pretok_ignores_merges(e->bpe->pretok)) {
        int32_t id = whole_word(e->bpe, word, len);
        if (id >= 0) {
            pn_token_list_push(e->out, id);
            return PN_OK;
        }
    }
    pn_merger_begin(e->merger);
    for (size_t i = 0; i < len; i++) {
        int32_t id = e->bpe->byte_ids[(uint8_t)word[i]];
        if (id >= 0) pn_merger_add(e->merger, (uint32_t)i, 1, id);
    }
    if (!pn_merger_run(e->merger, pair_rank, e)) return pn_fail_memory(err, "merge scratch", len);
    int32_t at = e->merger->n_symbols > 0 ? 0 : -1;
    for (; at >= 0; at = e->merger->symbols[at].next)
        pn_token_list_push(e->out, e->merger->symbols[at].id);
    return PN_OK;
}

pn_status pn_bpe_encode(const pn_bpe *bpe, pn_bpe_scratch *scratch, const char *text, size_t len,
                        pn_token_list *out, pn_error *err) {
    encoder e = {bpe, &scratch->merger, out};
    for (size_t pos = 0; pos < len;) {
        size_t end = pos, n;
        while ((n = pn_utf8_decode(text + end, len - end, NULL)) > 0)
            end += n;
        if (end > pos)
            PN_TRY(pn_pretok_cut(bpe->pretok, scratch->pretok, text + pos, end - pos, encode_word, &e, err));
        if (end < len) PN_TRY(encode_word(&e, text + end, 1, err));
        pos = end + 1;
    }
    return PN_OK;
}
