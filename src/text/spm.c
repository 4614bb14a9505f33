/* SPDX-License-Identifier: Apache-2.0 */
#include "text/spm.h"

#include "base/mem.h"
#include "base/quote.h"
#include "base/utf8.h"

#include <math.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that a piece spelled "<0xNN>" stands for, or -1. */
static int byte_of_piece(pn_str piece) {
    if (piece.len != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
    int high = hex_digit(piece.data[3]), low = hex_digit(piece.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool is_marker(const char *text, size_t len) {
    return len >= PN_SPM_MARKER_LEN && memcmp(text, PN_SPM_MARKER, PN_SPM_MARKER_LEN) == 0;
}

/* Float order turned around and made unsigned: the highest score gets the lowest rank, -0 and 0 the same. */
static uint32_t rank_of_score(float score) {
    float plain = score + 0.0f; /* -0 becomes 0 */
    uint32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

static pn_status rank_scores(pn_spm *spm, const float *scores, pn_error *err) {
    if (!scores)
        return pn_fail(err, PN_ERR_FORMAT, "a SentencePiece vocabulary needs scores, there are none");
    for (size_t i = 0; i < spm->vocab->n; i++) {
        if (isnan(scores[i])) return pn_fail(err, PN_ERR_FORMAT, "the score of token %zu is not a number", i);
        spm->ranks[i] = rank_of_score(scores[i]);
    }
    return PN_OK;
}

/* With kinds, byte tokens are those of that kind; a file without kinds has them by their spelling only. */
static pn_status find_bytes(pn_spm *spm, bool by_spelling, pn_error *err) {
    int n_found = 0, missing = 0;
    memset(spm->byte_ids, 0xFF, sizeof spm->byte_ids);
    for (int32_t id = 0; id < (int32_t)spm->vocab->n; id++) {
        pn_str piece = pn_vocab_piece(spm->vocab, id);
        if (!by_spelling && pn_vocab_kind(spm->vocab, id) != PN_TOKEN_BYTE) continue;
        int byte = byte_of_piece(piece);
        if (byte < 0 && by_spelling) continue;
        if (byte < 0)
            return pn_fail(err, PN_ERR_FORMAT, "the byte token %d is spelled \"%s\", expected \"<0xNN>\"", id,
                           pn_quote(piece).text);
        if (spm->byte_ids[byte] >= 0) continue;
        spm->byte_ids[byte] = id;
        n_found++;
    }
    if (n_found == 256) return PN_OK;
    while (spm->byte_ids[missing] >= 0)
        missing++;
    if (n_found > 0)
        return pn_fail(err, PN_ERR_FORMAT, "%d byte tokens of 256: \"<0x%02X>\" is missing", n_found,
                       missing);
    if (spm->unk_id < 0)
        return pn_fail(err, PN_ERR_FORMAT, "the vocabulary has neither byte tokens nor an unknown token");
    return PN_OK;
}

static void note_pieces(pn_spm *spm) {
    for (int32_t id = 0; id < (int32_t)spm->vocab->n; id++) {
        pn_str piece = pn_vocab_piece(spm->vocab, id);
        if (pn_vocab_kind(spm->vocab, id) == PN_TOKEN_UNUSED) spm->has_unused = true;
        for (size_t i = 1; i + PN_SPM_MARKER_LEN <= piece.len; i++) {
            if (is_marker(piece.data + i, piece.len - i))
                spm->before_marker[(uint8_t)piece.data[i - 1]] = true;
        }
    }
}

pn_status pn_spm_init(pn_spm *spm, const pn_vocab *vocab, const pn_tokenizer_spec *spec, pn_error *err) {
    pn_status status;
    *spm = (pn_spm){.vocab = vocab, .unk_id = spec->unk_id};
    spm->ranks = pn_alloc(PN_MEM_OTHER, vocab->n, sizeof *spm->ranks);
    if (!spm->ranks) return pn_fail_memory(err, "token scores", vocab->n * sizeof *spm->ranks);
    PN_TRY_GOTO(status, rank_scores(spm, spec->scores, err), fail);
    PN_TRY_GOTO(status, find_bytes(spm, !spec->kinds, err), fail);
    note_pieces(spm);
    return PN_OK;
fail:
    pn_spm_done(spm);
    return status;
}

void pn_spm_done(pn_spm *spm) {
    pn_free(spm->ranks);
    *spm = (pn_spm){0};
}

void pn_spm_scratch_init(pn_spm_scratch *scratch) {
    *scratch = (pn_spm_scratch){0};
    pn_buf_init(&scratch->text, SIZE_MAX);
}

void pn_spm_scratch_done(pn_spm_scratch *scratch) {
    pn_merger_done(&scratch->merger);
    pn_buf_done(&scratch->text);
    pn_free(scratch->splits);
    pn_free(scratch->stack);
    *scratch = (pn_spm_scratch){0};
}

typedef struct encoder {
    const pn_spm *spm;
    pn_spm_scratch *scratch;
    pn_token_list *out;
} encoder;

static bool is_unused(const pn_spm *spm, int32_t id) {
    return id >= 0 && pn_vocab_kind(spm->vocab, id) == PN_TOKEN_UNUSED;
}

static bool pair_rank(void *ctx, const pn_symbol *left, const pn_symbol *right, uint32_t *rank, int32_t *id) {
    encoder *e = ctx;
    *id = pn_vocab_find_plain(e->spm->vocab, e->scratch->text.data + left->begin, left->len + right->len);
    if (*id < 0) return false;
    *rank = e->spm->ranks[*id];
    if (is_unused(e->spm, *id)) e->scratch->splits[*id] = left->len;
    return true;
}

/* Characters that are no piece: their bytes, or one unknown token for all that follow each other. */
static void put_unknown(encoder *e, const char *text, size_t len) {
    if (e->spm->byte_ids[0] >= 0) {
        for (size_t i = 0; i < len; i++)
            pn_token_list_push(e->out, e->spm->byte_ids[(uint8_t)text[i]]);
    } else {
        if (!e->scratch->unknown_last) pn_token_list_push(e->out, e->spm->unk_id);
        e->scratch->unknown_last = true;
    }
}

static void put(encoder *e, uint32_t begin, uint32_t len, int32_t id) {
    if (id < 0) {
        put_unknown(e, e->scratch->text.data + begin, len);
    } else {
        pn_token_list_push(e->out, id);
        e->scratch->unknown_last = false;
    }
}

/* An unused piece takes part in merging, but is taken apart again where it was last put together. The stack
   holds parts that do not overlap, so their number is at most the length. */
static pn_status put_split(encoder *e, uint32_t begin, uint32_t len, pn_error *err) {
    pn_spm_scratch *s = e->scratch;
    if (s->cap_stack < len) {
        uint32_t *stack = pn_realloc(s->stack, len, 2 * sizeof *stack);
        if (!stack) return pn_fail_memory(err, "merge scratch", len);
        s->stack = stack;
        s->cap_stack = len;
    }
    size_t n = 0;
    s->stack[2 * n] = begin;
    s->stack[2 * n++ + 1] = len;
    while (n > 0) {
        uint32_t at = s->stack[2 * --n], left = 0;
        len = s->stack[2 * n + 1];
        int32_t id = pn_vocab_find_plain(e->spm->vocab, s->text.data + at, len);
        if (is_unused(e->spm, id)) left = s->splits[id];
        if (left == 0) {
            put(e, at, len, id);
            continue;
        }
        s->stack[2 * n] = at + left;
        s->stack[2 * n++ + 1] = len - left;
        s->stack[2 * n] = at;
        s->stack[2 * n++ + 1] = left;
    }
    return PN_OK;
}

/* Merges and outputs the symbols added so far and begins a new part. */
static pn_status flush(encoder *e, pn_error *err) {
    pn_merger *m = &e->scratch->merger;
    if (e->scratch->text.status != PN_OK || !pn_merger_run(m, pair_rank, e))
        return pn_fail_memory(err, "merge scratch", e->scratch->text.len);
    for (int32_t at = m->n_symbols > 0 ? 0 : -1; at >= 0; at = m->symbols[at].next) {
        const pn_symbol *symbol = &m->symbols[at];
        if (is_unused(e->spm, symbol->id))
            PN_TRY(put_split(e, symbol->begin, symbol->len, err));
        else
            put(e, symbol->begin, symbol->len, symbol->id);
    }
    pn_merger_begin(m);
    pn_buf_clear(&e->scratch->text);
    return PN_OK;
}

/* No piece goes on over a marker that follows such a byte, so no merge can: what comes before is done. This
   keeps the scratch as small as a word in most vocabularies. */
static bool can_part(const encoder *e) {
    const pn_buf *text = &e->scratch->text;
    return text->len > 0 && !e->spm->before_marker[(uint8_t)text->data[text->len - 1]];
}

static pn_status add_character(encoder *e, const char *text, size_t len, pn_error *err) {
    bool marker = is_marker(text, len);
    if (marker && can_part(e)) PN_TRY(flush(e, err));
    uint32_t begin = (uint32_t)e->scratch->text.len;
    if (pn_buf_append(&e->scratch->text, text, len) != PN_OK)
        return pn_fail_memory(err, "merge scratch", len);
    pn_merger_add(&e->scratch->merger, begin, (uint32_t)len, pn_vocab_find_plain(e->spm->vocab, text, len));
    return PN_OK;
}

pn_status pn_spm_encode(const pn_spm *spm, pn_spm_scratch *scratch, const char *text, size_t len,
                        bool space_prefix, pn_token_list *out, pn_error *err) {
    encoder e = {spm, scratch, out};
    if (spm->has_unused && !scratch->splits) {
        scratch->splits = pn_alloc(PN_MEM_OTHER, spm->vocab->n, sizeof *scratch->splits);
        if (!scratch->splits)
            return pn_fail_memory(err, "merge scratch", spm->vocab->n * sizeof *scratch->splits);
    }
    scratch->unknown_last = false;
    pn_merger_begin(&scratch->merger);
    pn_buf_clear(&scratch->text);
    if (space_prefix) PN_TRY(add_character(&e, PN_SPM_MARKER, PN_SPM_MARKER_LEN, err));
    for (size_t pos = 0; pos < len;) {
        size_t n = pn_utf8_decode(text + pos, len - pos, NULL);
        if (n == 0) n = 1; /* not UTF-8: a symbol of one byte, which no piece spells */
        if (text[pos] == ' ')
            PN_TRY(add_character(&e, PN_SPM_MARKER, PN_SPM_MARKER_LEN, err));
        else
            PN_TRY(add_character(&e, text + pos, n, err));
        pos += n;
    }
    return flush(&e, err);
}

pn_status pn_spm_decode_piece(pn_str piece, pn_token_kind kind, bool drop_space, pn_buf *buf) {
    int byte = kind == PN_TOKEN_BYTE ? byte_of_piece(piece) : -1;
    if (byte >= 0) return pn_buf_append(buf, &(char){(char)byte}, 1);
    size_t pos = drop_space && is_marker(piece.data, piece.len) ? PN_SPM_MARKER_LEN : 0;
    while (pos < piece.len) {
        bool marker = is_marker(piece.data + pos, piece.len - pos);
        PN_TRY(pn_buf_append(buf, marker ? " " : piece.data + pos, 1));
        pos += marker ? PN_SPM_MARKER_LEN : 1;
    }
    return PN_OK;
}
