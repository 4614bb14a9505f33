/* SPDX-License-Identifier: Apache-2.0 */
#include "export/hf_tokenizer.h"

#include "base/utf8.h"
#include "text/pretok.h"

#include <stdlib.h>

#define FLUSH_BYTES (1u << 18)
#define MARKER      "\xe2\x96\x81" /* U+2581, a space in SentencePiece */

/* ---- text ---- */

struct out {
    const pn_hf_model *m;
    const pn_gguf_value *kinds; /* NULL: all normal */
    pn_new_file *file;
    pn_buf buf;
};

static void put(struct out *o, const char *text) {
    pn_buf_append_str(&o->buf, text);
    if (o->buf.len < FLUSH_BYTES) return;
    pn_new_file_write(o->file, o->buf.data, o->buf.len);
    pn_buf_clear(&o->buf);
}

/* What stands between the quotes of a JSON string; text is UTF-8. */
static void put_escaped(struct out *o, pn_str text) {
    size_t done = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        pn_buf_append(&o->buf, text.data + done, i - done);
        pn_buf_append_fmt(&o->buf, "\\u%04x", c);
        done = i + 1;
    }
    pn_buf_append(&o->buf, text.data + done, text.len - done);
}

static void put_string(struct out *o, pn_str text) {
    put(o, "\"");
    put_escaped(o, text);
    put(o, "\"");
}

/* ---- tokens ---- */

static pn_token_kind kind_of(const struct out *o, size_t id) {
    return o->kinds ? (pn_token_kind)pn_gguf_array_i64(o->kinds, id) : PN_TOKEN_NORMAL;
}

static pn_str piece_of(const struct out *o, size_t id) {
    return pn_tokenizer_piece(o->m->tokenizer, (int32_t)id);
}

/* Of tokens spelled alike only the first is ever found, and a JSON object has each name once. */
static bool is_found(const struct out *o, size_t id) {
    return pn_tokenizer_find(o->m->tokenizer, piece_of(o, id)) == (int32_t)id;
}

/* Those that are found before a text is cut into words. */
static bool is_added(pn_token_kind kind) {
    return kind == PN_TOKEN_CONTROL || kind == PN_TOKEN_USER_DEFINED || kind == PN_TOKEN_UNKNOWN;
}

static void put_added_tokens(struct out *o) {
    bool any = false;
    put(o, "\"added_tokens\":[");
    for (size_t id = 0; id < o->m->n_vocab; id++) {
        const pn_token_kind kind = kind_of(o, id);
        if (!is_added(kind) || !is_found(o, id)) continue;
        pn_buf_append_fmt(&o->buf, "%s\n{\"id\":%zu,\"content\":", any ? "," : "", id);
        put_string(o, piece_of(o, id));
        pn_buf_append_fmt(&o->buf,
                          ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                          "\"special\":%s}",
                          kind == PN_TOKEN_USER_DEFINED ? "false" : "true");
        any = true;
    }
    put(o, "],\n");
}

static void put_vocabulary(struct out *o) {
    bool any = false;
    put(o, "\"vocab\":{");
    for (size_t id = 0; id < o->m->n_vocab; id++) {
        if (!is_found(o, id)) continue;
        put(o, any ? ",\n" : "\n");
        put_string(o, piece_of(o, id));
        pn_buf_append_fmt(&o->buf, ":%zu", id);
        any = true;
    }
    put(o, "},\n");
}

/* BOS before a text. */
static void put_post_processor(struct out *o) {
    const int32_t bos = o->m->roles.bos;
    put(o, "\"post_processor\":");
    if (!o->m->vocab.add_bos || bos < 0) {
        put(o, "null,\n");
        return;
    }
    static const char *const parts[] = {
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":",
        ",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"SpecialToken\":{\"id\":",
        ",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":",
        ",\"type_id\":1}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{", ":{\"id\":"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        put(o, parts[i]);
        put_string(o, piece_of(o, (size_t)bos));
    }
    pn_buf_append_fmt(&o->buf, ",\"ids\":[%d],\"tokens\":[", bos);
    put_string(o, piece_of(o, (size_t)bos));
    put(o, "]}}},\n");
}

/* ---- byte-level BPE ---- */

static void put_byte_level(struct out *o) {
    const pn_gguf_value *merges = pn_gguf_find_key(o->m->file, "tokenizer.ggml.merges");
    size_t n_steps;
    bool ignores_merges = false;
    const char *const *steps = pn_pretok_patterns(o->m->vocab.pre, &n_steps, &ignores_merges);
    put(o, "\"normalizer\":null,\n\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (size_t i = 0; i < n_steps; i++) {
        put(o, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        put_string(o, pn_str_from(steps[i]));
        put(o, "},\"behavior\":\"Isolated\",\"invert\":false},\n");
    }
    put(o,
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},\n");
    put_post_processor(o);
    put(o, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
           "\"use_regex\":true},\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
           "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
           "\"byte_fallback\":false,");
    put(o, ignores_merges ? "\"ignore_merges\":true,\n" : "\"ignore_merges\":false,\n");
    put_vocabulary(o);
    put(o, "\"merges\":[");
    pn_str merge;
    bool any = false;
    for (uint64_t at = 0; merges && pn_gguf_next_string(merges, &at, &merge); any = true) {
        put(o, any ? ",\n" : "\n");
        put_string(o, merge);
    }
    put(o, "]}}\n");
}

/* ---- SentencePiece ---- */

struct merge {
    float score;
    int32_t id, left, right;
};

/* By score, then as the pieces stand in the vocabulary. */
static int compare(const void *a, const void *b) {
    const struct merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->left > y->left) - (x->left < y->left);
}

static bool is_mergeable(const struct out *o, int32_t id) {
    if (id < 0) return false;
    const pn_token_kind kind = kind_of(o, (size_t)id);
    return kind == PN_TOKEN_NORMAL || kind == PN_TOKEN_UNUSED;
}

/* All ways to put a piece together of two. merges may be NULL: they are counted. */
static size_t find_merges(const struct out *o, const pn_gguf_value *scores, struct merge *merges) {
    size_t n = 0;
    for (size_t id = 0; id < o->m->n_vocab; id++) {
        const pn_str piece = piece_of(o, id);
        if (!is_mergeable(o, (int32_t)id) || !is_found(o, id)) continue;
        for (size_t i = 1; i < piece.len; i++) {
            if (((unsigned char)piece.data[i] & 0xC0) == 0x80) continue; /* inside a character */
            int32_t left = pn_tokenizer_find(o->m->tokenizer, (pn_str){piece.data, i});
            if (!is_mergeable(o, left)) continue;
            int32_t right = pn_tokenizer_find(o->m->tokenizer, (pn_str){piece.data + i, piece.len - i});
            if (!is_mergeable(o, right)) continue;
            if (merges)
                merges[n] = (struct merge){(float)pn_gguf_array_f64(scores, id), (int32_t)id, left, right};
            n++;
        }
    }
    return n;
}

static pn_status put_piece_merges(struct out *o, pn_error *err) {
    const pn_gguf_value *scores = pn_gguf_find_key(o->m->file, "tokenizer.ggml.scores");
    const size_t n = find_merges(o, scores, NULL);
    struct merge *merges = pn_alloc(PN_MEM_SCRATCH, n, sizeof *merges);
    if (!merges) return pn_fail_memory(err, "merges", n * sizeof *merges);
    find_merges(o, scores, merges);
    qsort(merges, n, sizeof *merges, compare);
    put(o, "\"merges\":[");
    for (size_t i = 0; i < n; i++) {
        put(o, i > 0 ? ",\n[" : "\n[");
        put_string(o, piece_of(o, (size_t)merges[i].left));
        put(o, ",");
        put_string(o, piece_of(o, (size_t)merges[i].right));
        put(o, "]");
    }
    put(o, "]}}\n");
    pn_free(merges);
    return PN_OK;
}

static pn_status put_pieces(struct out *o, pn_error *err) {
    static const char replace[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARKER "\"}";
    const bool prefix = o->m->vocab.add_space_prefix;
    put(o, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (prefix) put(o, "{\"type\":\"Prepend\",\"prepend\":\"" MARKER "\"},");
    put(o, replace);
    put(o, "]},\n\"pre_tokenizer\":null,\n");
    put_post_processor(o);
    put(o, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
           "\"" MARKER "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    if (prefix) put(o, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    put(o, "]},\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (o->m->roles.unk >= 0)
        put_string(o, piece_of(o, (size_t)o->m->roles.unk));
    else
        put(o, "null");
    put(o, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":true,"
           "\"byte_fallback\":true,\"ignore_merges\":false,\n");
    put_vocabulary(o);
    return put_piece_merges(o, err);
}

/* ---- the file ---- */

pn_status pn_hf_tokenizer_check(const pn_hf_model *m, pn_error *err) {
    for (size_t id = 0; id < m->n_vocab; id++) {
        const pn_str piece = pn_tokenizer_piece(m->tokenizer, (int32_t)id);
        if (!pn_utf8_valid(piece.data, piece.len))
            return pn_fail(err, PN_ERR_UNSUPPORTED, "token %zu is not UTF-8: tokenizer.json cannot hold it",
                           id);
    }
    return PN_OK;
}

pn_status pn_hf_tokenizer_write(const pn_hf_model *m, pn_new_file *file, pn_error *err) {
    struct out o = {m, pn_gguf_find_key(m->file, "tokenizer.ggml.token_type"), file, {0}};
    pn_status status = PN_OK;
    pn_buf_init(&o.buf, PN_BUF_NO_BOUND);
    put(&o, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    put_added_tokens(&o);
    if (pn_str_equal(m->vocab.model, PN_STR("llama")))
        status = put_pieces(&o, err);
    else
        put_byte_level(&o);
    if (status == PN_OK && o.buf.status != PN_OK) status = pn_fail_memory(err, "tokenizer.json", o.buf.len);
    if (status == PN_OK) pn_new_file_write(file, o.buf.data, o.buf.len);
    pn_buf_done(&o.buf);
    return status;
}
