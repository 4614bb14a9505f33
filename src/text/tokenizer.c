/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer as one object: finds control and user-defined tokens, hands the text between them to the
   vocabulary's own algorithm (bpe.h, spm.h), and turns tokens back into bytes. */
#include "text/tokenizer.h"

#include "base/mem.h"
#include "base/quote.h"
#include "text/bpe.h"
#include "text/special.h"
#include "text/spm.h"

/* Keeps every offset, also of text in which spaces take three bytes, within 31 bits. */
#define MAX_TEXT_BYTES ((size_t)256 << 20)

/* How models spell the end of their turn. Some spellings are HTML tags too, and user-defined tokens of that
   meaning in Gemma's vocabulary: those count only as control tokens. */
static const struct {
    const char *spelling;
    bool also_markup;
} end_spellings[] = {
    {"<|im_end|>", false},
    {"<|endoftext|>", false},
    {"<end_of_turn>", false},
    {"<|eot_id|>", false},
    {"<|eom_id|>", false},
    {"<|end_of_text|>", false},
    {"<|end|>", false},
    {"<|endofturn|>", false},
    {"<|end_of_turn|>", false},
    {"<|END_OF_TURN_TOKEN|>", false},
    {"<|eot|>", false},
    {"<|end_of_role|>", false},
    {"<EOT>", false},
    {"<eos>", false},
    {"</s>", true},
    {"<end_of_utterance>", false},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     false},
};

#define N_END_SPELLINGS (sizeof end_spellings / sizeof end_spellings[0])

struct pn_tokenizer {
    pn_vocab vocab;
    pn_special special;
    bool is_spm; /* else byte-level BPE */
    pn_bpe bpe;
    pn_spm spm;
    int32_t bos_id;
    bool add_bos, add_space_prefix;
    int32_t ends[N_END_SPELLINGS + 3];
    size_t n_ends;
};

/* ---- create ---- */

static pn_status check_id(const pn_tokenizer_spec *spec, const char *what, int32_t id, pn_error *err) {
    if (id >= -1 && (id < 0 || (size_t)id < spec->n_tokens)) return PN_OK;
    return pn_fail(err, PN_ERR_FORMAT, "the %s token id %d is outside the vocabulary of %zu tokens", what, id,
                   spec->n_tokens);
}

static void add_end(pn_tokenizer *tok, int32_t id) {
    if (id >= 0 && !pn_tokenizer_is_end(tok, id)) tok->ends[tok->n_ends++] = id;
}

static void find_ends(pn_tokenizer *tok, const pn_tokenizer_spec *spec) {
    add_end(tok, spec->eos_id);
    add_end(tok, spec->eot_id);
    add_end(tok, spec->eom_id);
    for (size_t i = 0; i < N_END_SPELLINGS; i++) {
        int32_t id = pn_tokenizer_find(tok, pn_str_from(end_spellings[i].spelling));
        pn_token_kind kind = id < 0 ? PN_TOKEN_NORMAL : pn_vocab_kind(&tok->vocab, id);
        if (kind == PN_TOKEN_CONTROL || (kind == PN_TOKEN_USER_DEFINED && !end_spellings[i].also_markup))
            add_end(tok, id);
    }
}

static pn_status init(pn_tokenizer *tok, const pn_tokenizer_spec *spec, pn_error *err) {
    tok->is_spm = pn_str_equal(spec->model, PN_STR("llama"));
    if (!tok->is_spm && !pn_str_equal(spec->model, PN_STR("gpt2")))
        return pn_fail(err, PN_ERR_UNSUPPORTED, "unknown tokenizer model \"%s\"; known are gpt2, llama",
                       pn_quote(spec->model).text);
    PN_TRY(check_id(spec, "BOS", spec->bos_id, err));
    PN_TRY(check_id(spec, "EOS", spec->eos_id, err));
    PN_TRY(check_id(spec, "unknown", spec->unk_id, err));
    PN_TRY(check_id(spec, "end-of-turn", spec->eot_id, err));
    PN_TRY(check_id(spec, "end-of-message", spec->eom_id, err));
    PN_TRY(pn_vocab_init(&tok->vocab, spec, err));
    PN_TRY(pn_special_init(&tok->special, &tok->vocab, tok->is_spm, err));
    if (tok->is_spm)
        PN_TRY(pn_spm_init(&tok->spm, &tok->vocab, spec, err));
    else
        PN_TRY(pn_bpe_init(&tok->bpe, &tok->vocab, spec, err));
    tok->bos_id = spec->bos_id;
    tok->add_bos = spec->add_bos && spec->bos_id >= 0;
    tok->add_space_prefix = spec->add_space_prefix && tok->is_spm;
    find_ends(tok, spec);
    return PN_OK;
}

pn_status pn_tokenizer_create(const pn_tokenizer_spec *spec, pn_tokenizer **out, pn_error *err) {
    pn_tokenizer *tok = pn_alloc(PN_MEM_OTHER, 1, sizeof *tok);
    if (!tok) return pn_fail_memory(err, "tokenizer", sizeof *tok);
    pn_status status = init(tok, spec, err);
    if (status != PN_OK) {
        pn_tokenizer_free(tok);
        return status;
    }
    *out = tok;
    return PN_OK;
}

void pn_tokenizer_free(pn_tokenizer *tok) {
    if (!tok) return;
    pn_bpe_done(&tok->bpe);
    pn_spm_done(&tok->spm);
    pn_special_done(&tok->special);
    pn_vocab_done(&tok->vocab);
    pn_free(tok);
}

/* ---- encode ---- */

/* Walks the trusted ranges along with the text; adjacent ones are one. */
typedef struct trust {
    const pn_range *ranges;
    size_t n, next;
    pn_range now;
} trust;

/* How many bytes from pos on are trusted without a gap. pos must not go back between calls. */
static size_t trusted_from(trust *t, size_t pos) {
    while (pos >= t->now.end && t->next < t->n) {
        t->now = t->ranges[t->next++];
        while (t->next < t->n && t->ranges[t->next].begin == t->now.end)
            t->now.end = t->ranges[t->next++].end;
    }
    return pos >= t->now.begin && pos < t->now.end ? t->now.end - pos : 0;
}

static pn_status check_ranges(const pn_encode_options *options, size_t len, pn_error *err) {
    size_t last = 0;
    for (size_t i = 0; i < options->n_trusted; i++) {
        pn_range r = options->trusted[i];
        if (r.begin < last || r.end < r.begin || r.end > len)
            return pn_fail(err, PN_ERR_ARGUMENT,
                           "trusted range %zu, [%zu, %zu), is out of order or outside the text of %zu bytes",
                           i, r.begin, r.end, len);
        last = r.end;
    }
    return PN_OK;
}

typedef struct encoder {
    const pn_tokenizer *tok;
    pn_bpe_scratch bpe;
    pn_spm_scratch spm;
    pn_token_list out;
    bool add_space; /* the next plain text begins the text or follows a control token: SentencePiece adds a
                       space */
} encoder;

static pn_status encode_plain(encoder *e, const char *text, size_t len, pn_error *err) {
    if (len == 0) return PN_OK;
    if (!e->tok->is_spm) return pn_bpe_encode(&e->tok->bpe, &e->bpe, text, len, &e->out, err);
    bool add_space = e->add_space;
    e->add_space = false;
    return pn_spm_encode(&e->tok->spm, &e->spm, text, len, add_space, &e->out, err);
}

/* A control or user-defined token. SentencePiece counts the latter as text, which the added space goes
 * before. */
static pn_status put_special(encoder *e, int32_t id, pn_error *err) {
    bool control = pn_vocab_kind(&e->tok->vocab, id) == PN_TOKEN_CONTROL;
    if (!control && e->add_space) PN_TRY(pn_spm_encode(&e->tok->spm, &e->spm, NULL, 0, true, &e->out, err));
    e->add_space = control && e->tok->add_space_prefix;
    pn_token_list_push(&e->out, id);
    return PN_OK;
}

static pn_status encode_all(encoder *e, const char *text, size_t len, const pn_encode_options *options,
                            pn_error *err) {
    const pn_special *special = &e->tok->special;
    trust t = {.ranges = options->trusted, .n = options->n_trusted};
    size_t plain = 0; /* where the text that is not encoded yet begins */
    bool wants_bos = options->add_bos && e->tok->add_bos;
    e->add_space = e->tok->add_space_prefix;
    if (wants_bos) pn_token_list_push(&e->out, e->tok->bos_id);
    for (size_t pos = 0; pos < len;) {
        int32_t id;
        size_t n = special->begins[(uint8_t)text[pos]]
                       ? pn_special_match(special, text + pos, len - pos, trusted_from(&t, pos), &id)
                       : 0;
        if (n == 0) {
            pos++;
            continue;
        }
        PN_TRY(encode_plain(e, text + plain, pos - plain, err));
        if (!(wants_bos && pos == 0 && id == e->tok->bos_id)) PN_TRY(put_special(e, id, err));
        pos += n;
        plain = pos;
    }
    PN_TRY(encode_plain(e, text + plain, len - plain, err));
    if (e->out.failed) return pn_fail_memory(err, "token list", e->out.n * sizeof *e->out.ids);
    return PN_OK;
}

pn_status pn_tokenizer_encode(const pn_tokenizer *tok, const char *text, size_t len,
                              const pn_encode_options *options, pn_tokens *out, pn_error *err) {
    pn_status status;
    const pn_encode_options none = {0};
    encoder e = {.tok = tok};
    if (!options) options = &none;
    if (len == 0) text = "";
    if (len > MAX_TEXT_BYTES)
        return pn_fail(err, PN_ERR_LIMIT,
                       "a text of %zu bytes is too long to encode at once, at most %zu are possible", len,
                       MAX_TEXT_BYTES);
    PN_TRY(check_ranges(options, len, err));
    pn_spm_scratch_init(&e.spm);
    if (!tok->is_spm) PN_TRY_GOTO(status, pn_bpe_scratch_init(&e.bpe, &tok->bpe, err), done);
    PN_TRY_GOTO(status, encode_all(&e, text, len, options, err), done);
    *out = (pn_tokens){e.out.ids, e.out.n};
    e.out.ids = NULL;
done:
    pn_free(e.out.ids);
    pn_spm_scratch_done(&e.spm);
    pn_bpe_scratch_done(&e.bpe);
    return status;
}

/* ---- decode ---- */

static pn_status decode_plain(const pn_tokenizer *tok, int32_t id, bool first, pn_buf *buf) {
    pn_str piece = pn_vocab_piece(&tok->vocab, id);
    pn_token_kind kind = pn_vocab_kind(&tok->vocab, id);
    if (kind == PN_TOKEN_CONTROL || kind == PN_TOKEN_UNKNOWN)
        return pn_buf_append(buf, piece.data, piece.len);
    if (tok->is_spm) return pn_spm_decode_piece(piece, kind, first && tok->add_space_prefix, buf);
    if (kind == PN_TOKEN_USER_DEFINED) return pn_buf_append(buf, piece.data, piece.len);
    return pn_bpe_decode_piece(piece, buf);
}

pn_status pn_tokenizer_decode_token(const pn_tokenizer *tok, int32_t id, bool first, bool with_control,
                                    pn_buf *buf, pn_error *err) {
    if (id < 0 || (size_t)id >= tok->vocab.n)
        return pn_fail(err, PN_ERR_ARGUMENT, "the token id %d is outside the vocabulary of %zu tokens", id,
                       tok->vocab.n);
    pn_token_kind kind = pn_vocab_kind(&tok->vocab, id);
    if (!with_control && (kind == PN_TOKEN_CONTROL || kind == PN_TOKEN_UNKNOWN)) return PN_OK;
    pn_status status = decode_plain(tok, id, first, buf);
    if (status == PN_ERR_MEMORY) return pn_fail_memory(err, "text of the tokens", buf->len);
    if (status != PN_OK)
        return pn_fail(err, status, "the text of the tokens passes its bound of %zu bytes", buf->max_len);
    return PN_OK;
}

pn_status pn_tokenizer_decode(const pn_tokenizer *tok, const int32_t *ids, size_t n, bool with_control,
                              pn_buf *buf, pn_error *err) {
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        PN_TRY(pn_tokenizer_decode_token(tok, ids[i], first, with_control, buf, err));
        first = pn_vocab_kind(&tok->vocab, ids[i]) == PN_TOKEN_CONTROL;
    }
    return PN_OK;
}

/* ---- the vocabulary ---- */

int32_t pn_tokenizer_find(const pn_tokenizer *tok, pn_str piece) {
    return pn_vocab_find(&tok->vocab, piece.data, piece.len);
}

pn_str pn_tokenizer_piece(const pn_tokenizer *tok, int32_t id) {
    if (id < 0 || (size_t)id >= tok->vocab.n) return (pn_str){"", 0};
    return pn_vocab_piece(&tok->vocab, id);
}

bool pn_tokenizer_is_end(const pn_tokenizer *tok, int32_t id) {
    for (size_t i = 0; i < tok->n_ends; i++) {
        if (tok->ends[i] == id) return true;
    }
    return false;
}
