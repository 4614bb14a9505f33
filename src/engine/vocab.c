/* SPDX-License-Identifier: Apache-2.0 */
/* From the tokenizer keys of a file to a tokenizer. */
#include "engine/engine.h"

/* Arrays made for pn_tokenizer_create, which copies what it needs. */
struct arrays {
    pn_str *tokens, *merges;
    float *scores;
    int32_t *kinds;
};

static void free_arrays(struct arrays *a) {
    pn_free(a->tokens);
    pn_free(a->merges);
    pn_free(a->scores);
    pn_free(a->kinds);
}

static pn_status read_strings(const pn_gguf_value *array, pn_str **out, pn_error *err) {
    size_t n = (size_t)array->as.array.n;
    pn_str *strings = pn_alloc(PN_MEM_OTHER, n, sizeof *strings);
    if (!strings) return pn_fail_memory(err, "vocabulary", n * sizeof *strings);
    uint64_t offset = 0;
    for (size_t i = 0; i < n && pn_gguf_next_string(array, &offset, &strings[i]); i++) {
    }
    *out = strings;
    return PN_OK;
}

static pn_status check_length(const pn_gguf_value *array, size_t n, pn_error *err) {
    if (array->as.array.n == n) return PN_OK;
    return pn_fail_at(err, PN_ERR_FORMAT, array->position,
                      "%.*s has %llu entries, expected one per token: %zu", (int)array->key.len,
                      array->key.data, (unsigned long long)array->as.array.n, n);
}

static pn_status read_scores(const pn_gguf *file, size_t n, float **out, pn_error *err) {
    const pn_gguf_value *array;
    PN_TRY(pn_gguf_get_array_or_none(file, "tokenizer.ggml.scores", PN_GGUF_F32, &array, err));
    if (!array) return PN_OK;
    PN_TRY(check_length(array, n, err));
    float *scores = pn_alloc(PN_MEM_OTHER, n, sizeof *scores);
    if (!scores) return pn_fail_memory(err, "token scores", n * sizeof *scores);
    for (size_t i = 0; i < n; i++)
        scores[i] = (float)pn_gguf_array_f64(array, i);
    *out = scores;
    return PN_OK;
}

static pn_status read_kinds(const pn_gguf *file, size_t n, int32_t **out, pn_error *err) {
    const pn_gguf_value *array;
    PN_TRY(pn_gguf_get_array_or_none(file, "tokenizer.ggml.token_type", PN_GGUF_I32, &array, err));
    if (!array) return PN_OK;
    PN_TRY(check_length(array, n, err));
    int32_t *kinds = pn_alloc(PN_MEM_OTHER, n, sizeof *kinds);
    if (!kinds) return pn_fail_memory(err, "token types", n * sizeof *kinds);
    for (size_t i = 0; i < n; i++)
        kinds[i] = (int32_t)pn_gguf_array_i64(array, i);
    *out = kinds;
    return PN_OK;
}

static pn_status read_arrays(const pn_gguf *file, pn_tokenizer_spec *spec, struct arrays *a, pn_error *err) {
    const pn_gguf_value *tokens, *merges;
    PN_TRY(pn_gguf_get_array_or_none(file, "tokenizer.ggml.tokens", PN_GGUF_STRING, &tokens, err));
    if (!tokens)
        return pn_fail(err, PN_ERR_FORMAT, "tokenizer.ggml.tokens is missing: the file has no vocabulary");
    PN_TRY(read_strings(tokens, &a->tokens, err));
    spec->n_tokens = (size_t)tokens->as.array.n;
    PN_TRY(pn_gguf_get_array_or_none(file, "tokenizer.ggml.merges", PN_GGUF_STRING, &merges, err));
    if (merges) {
        PN_TRY(read_strings(merges, &a->merges, err));
        spec->n_merges = (size_t)merges->as.array.n;
    }
    PN_TRY(read_scores(file, spec->n_tokens, &a->scores, err));
    PN_TRY(read_kinds(file, spec->n_tokens, &a->kinds, err));
    spec->tokens = a->tokens;
    spec->merges = a->merges;
    spec->scores = a->scores;
    spec->kinds = a->kinds;
    return PN_OK;
}

/* An id; -1, also as an unsigned number, means none. */
static pn_status read_id(const pn_gguf *file, const char *key, int32_t fallback, int32_t *out,
                         pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(file, key);
    uint64_t id;
    if (!value) {
        *out = fallback;
        return PN_OK;
    }
    if ((value->type == PN_GGUF_I32 || value->type == PN_GGUF_I64) && value->as.i == -1) {
        *out = -1;
        return PN_OK;
    }
    PN_TRY(pn_gguf_get_u64(file, key, 0, UINT32_MAX, &id, err));
    *out = id <= INT32_MAX ? (int32_t)id : -1;
    return PN_OK;
}

/* Files leave out what their kind of tokenizer usually does: a SentencePiece vocabulary begins with unknown,
   BOS, EOS and wants a BOS and a leading space; a byte-level one wants neither, but for Llama 3's. */
pn_status pn_vocab_settings(const pn_gguf *file, pn_tokenizer_spec *spec, pn_error *err) {
    PN_TRY(pn_gguf_get_str_or(file, "tokenizer.ggml.model", "", &spec->model, err));
    PN_TRY(pn_gguf_get_str_or(file, "tokenizer.ggml.pre", "", &spec->pre, err));
    bool pieces = pn_str_equal(spec->model, PN_STR("llama"));
    bool wants_bos = pieces || pn_str_equal(spec->pre, PN_STR("llama-bpe")) ||
                     pn_str_equal(spec->pre, PN_STR("llama3")) || pn_str_equal(spec->pre, PN_STR("llama-v3"));
    if (!pieces && spec->model.len && !spec->pre.len)
        return pn_fail(
            err, PN_ERR_UNSUPPORTED,
            "tokenizer.ggml.pre is missing: this file is from before pre-tokenizers were recorded, and "
            "guessing one gives wrong tokens; convert the model anew");
    PN_TRY(read_id(file, "tokenizer.ggml.unknown_token_id", pieces ? 0 : -1, &spec->unk_id, err));
    PN_TRY(read_id(file, "tokenizer.ggml.bos_token_id", pieces ? 1 : -1, &spec->bos_id, err));
    PN_TRY(read_id(file, "tokenizer.ggml.eos_token_id", pieces ? 2 : -1, &spec->eos_id, err));
    PN_TRY(read_id(file, "tokenizer.ggml.eot_token_id", -1, &spec->eot_id, err));
    PN_TRY(read_id(file, "tokenizer.ggml.eom_token_id", -1, &spec->eom_id, err));
    PN_TRY(pn_gguf_get_bool_or(file, "tokenizer.ggml.add_bos_token", wants_bos, &spec->add_bos, err));
    return pn_gguf_get_bool_or(file, "tokenizer.ggml.add_space_prefix", pieces, &spec->add_space_prefix, err);
}

pn_status pn_vocab_load(const pn_gguf *file, int n_vocab, pn_tokenizer **out, pn_vocab_roles *roles,
                        pn_error *err) {
    pn_tokenizer_spec spec = {0};
    struct arrays arrays = {0};
    int32_t pad_id;
    pn_status status;
    PN_TRY_GOTO(status, pn_vocab_settings(file, &spec, err), done);
    PN_TRY_GOTO(status, read_id(file, "tokenizer.ggml.padding_token_id", -1, &pad_id, err), done);
    PN_TRY_GOTO(status, read_arrays(file, &spec, &arrays, err), done);
    if (spec.n_tokens != (size_t)n_vocab) {
        status =
            pn_fail(err, PN_ERR_FORMAT, "tokenizer.ggml.tokens has %zu tokens, token_embd.weight has %d rows",
                    spec.n_tokens, n_vocab);
        goto done;
    }
    PN_TRY_GOTO(status, pn_tokenizer_create(&spec, out, err), done);
    if ((size_t)pad_id >= spec.n_tokens) pad_id = -1; /* often one past the end, and nothing here pads */
    *roles = (pn_vocab_roles){.bos = spec.bos_id, .eos = spec.eos_id, .unk = spec.unk_id, .pad = pad_id};
done:
    free_arrays(&arrays);
    return status;
}
