/* SPDX-License-Identifier: Apache-2.0 */
#include "export/hf_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

struct name {
    const char *gguf, *hf;
};

static const struct name of_layers[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},        {"ffn_down", "mlp.down_proj"},
};
static const struct name of_llama_layers[] = {{"ffn_norm", "post_attention_layernorm"}};
static const struct name of_gemma3_layers[] = {
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
};
static const struct name of_ends[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *find(const struct name *names, size_t n, pn_str gguf) {
    for (size_t i = 0; i < n; i++)
        if (pn_str_equal(gguf, pn_str_from(names[i].gguf))) return names[i].hf;
    return NULL;
}

static const char *find_in_layer(const pn_hf_model *m, pn_str gguf) {
    const char *hf = find(of_layers, COUNT(of_layers), gguf);
    if (hf) return hf;
    return m->is_gemma3 ? find(of_gemma3_layers, COUNT(of_gemma3_layers), gguf)
                        : find(of_llama_layers, COUNT(of_llama_layers), gguf);
}

static bool ends_with(pn_str text, pn_str end) {
    return text.len >= end.len && memcmp(text.data + text.len - end.len, end.data, end.len) == 0;
}

/* Splits "blk.12.attn_q" into its number and "attn_q"; false where it is none such. */
static bool split_layer(pn_str name, int *layer, pn_str *rest) {
    char text[64];
    int n = 0;
    if (name.len >= sizeof text) return false;
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    if (sscanf(text, "blk.%4d.%n", layer, &n) != 1 || n == 0) return false;
    *rest = (pn_str){name.data + n, name.len - (size_t)n};
    return true;
}

/* The heads whose rows the converter has moved. */
static size_t heads_of(const pn_hf_model *m, pn_str in_layer) {
    if (m->h.rope_halves) return 0;
    if (pn_str_equal(in_layer, PN_STR("attn_q"))) return (size_t)m->h.n_head;
    return pn_str_equal(in_layer, PN_STR("attn_k")) ? (size_t)m->h.n_head_kv : 0;
}

static uint64_t rows_of(const pn_gguf_tensor *t) {
    return t->n_dims == 2 ? t->dims[1] : t->dims[0];
}

pn_status pn_hf_place_of(const pn_hf_model *m, const pn_gguf_tensor *t, pn_hf_place *out, pn_error *err) {
    pn_hf_place place = {.part = ends_with(t->name, PN_STR(".bias")) ? "bias" : "weight"};
    pn_str name = t->name, in_layer;
    int layer;
    const char *hf = NULL;
    if (pn_str_equal(name, PN_STR("rope_freqs.weight"))) {
        *out = place;
        return PN_OK;
    }
    if (ends_with(name, PN_STR(".weight")) || ends_with(name, PN_STR(".bias"))) {
        name.len -= strlen(place.part) + 1;
        if (split_layer(name, &layer, &in_layer)) {
            hf = find_in_layer(m, in_layer);
            if (hf) snprintf(place.module, sizeof place.module, "model.layers.%d.%s", layer, hf);
            place.n_head = heads_of(m, in_layer);
        } else {
            hf = find(of_ends, COUNT(of_ends), name);
            if (hf) snprintf(place.module, sizeof place.module, "%s", hf);
        }
    }
    if (!hf)
        return pn_fail(err, PN_ERR_UNSUPPORTED, "tensor %.*s has no place in a model of transformers",
                       (int)t->name.len, t->name.data);
    if (place.n_head > 0 && rows_of(t) != place.n_head * (uint64_t)m->h.head_dim)
        return pn_fail(err, PN_ERR_FORMAT, "tensor %.*s has %llu rows: expected %zu heads of %d",
                       (int)t->name.len, t->name.data, (unsigned long long)rows_of(t), place.n_head,
                       m->h.head_dim);
    if (m->is_gemma3 && ends_with(name, PN_STR("_norm"))) place.added = 1;
    *out = place;
    return PN_OK;
}

/* ---- what the classes have settings for ---- */

static bool has(const pn_gguf *file, const char *part) {
    char name[64];
    snprintf(name, sizeof name, "blk.0.%s.bias", part);
    return pn_gguf_find_tensor(file, name) != NULL;
}

static pn_status read_biases(pn_hf_model *m, pn_error *err) {
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v", "attn_output"};
    int n = 0;
    for (size_t i = 0; i < COUNT(parts); i++)
        n += has(m->file, parts[i]);
    if (n != 0 && n != (int)COUNT(parts))
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "only some of attn_q, attn_k, attn_v and attn_output have biases: transformers' class "
                       "has all or none");
    m->biased = n > 0;
    return PN_OK;
}

/* Not fmax and fmin: GCC 12 for ARM does not survive a loop of them. */
static double greater(double a, double b) {
    return b > a ? b : a;
}
static double lesser(double a, double b) {
    return b < a ? b : a;
}

/* What Llama 3.1 divides a frequency by: between wavelengths of context / 4 and context it goes from 1 to
   `factor`. */
static double llama3_divisor(const pn_hf_llama3_rope *rope, double wavelength) {
    double smooth = ((double)rope->original_context / wavelength - 1) / 3;
    smooth = lesser(greater(smooth, 0), 1);
    return 1 / ((1 - smooth) / rope->factor + smooth);
}

/* Frequency i of a file's factors: what it is divided by, and its wavelength in tokens. */
static double factor_at(const pn_gguf_tensor *t, size_t i) {
    float f;
    memcpy(&f, t->data + i * sizeof f, sizeof f);
    return (double)f;
}
static double wavelength_at(const pn_hparams *h, size_t i) {
    return 2 * acos(-1) * pow(h->rope[PN_LAYER_GLOBAL].base, 2 * (double)i / (double)h->rope_dim);
}

/* The settings that factors come from: the greatest is the factor; one between 1 and that tells the context.
   Where there is none, any context will do that lies between what the others allow: if possible that of the
   models themselves. */
static pn_hf_llama3_rope guess_llama3(const pn_hparams *h, const pn_gguf_tensor *t, size_t n) {
    pn_hf_llama3_rope rope = {.used = true, .factor = 1};
    double least = 0, greatest = INFINITY, context = 8192;
    for (size_t i = 0; i < n; i++)
        rope.factor = greater(rope.factor, factor_at(t, i));
    for (size_t i = 0; i < n; i++) {
        const double f = factor_at(t, i), wavelength = wavelength_at(h, i);
        if (f < 1.0001)
            least = greater(least, 4 * wavelength);
        else if (f > 0.9999 * rope.factor)
            greatest = lesser(greatest, wavelength);
        else
            least = greatest = wavelength * (1 + 3 * (1 / f - 1 / rope.factor) / (1 - 1 / rope.factor));
        if (least == greatest) break;
    }
    context = fmin(fmax(context, least), greatest);
    rope.original_context = (int)fmin(rint(context), 1e9);
    return rope;
}

static pn_status read_llama3(pn_hf_model *m, pn_error *err) {
    const pn_gguf_tensor *t = pn_gguf_find_tensor(m->file, "rope_freqs.weight");
    if (!t) return PN_OK;
    const size_t n = (size_t)m->h.rope_dim / 2;
    bool ok = t->type == PN_QTYPE_ID_F32 && t->n_dims == 1 && t->dims[0] == n;
    if (ok) m->llama3 = guess_llama3(&m->h, t, n);
    for (size_t i = 0; ok && i < n; i++)
        ok = fabs(factor_at(t, i) / llama3_divisor(&m->llama3, wavelength_at(&m->h, i)) - 1) < 1e-3;
    if (!ok)
        return pn_fail(
            err, PN_ERR_UNSUPPORTED,
            "rope_freqs.weight is not the scaling of Llama 3.1, which alone transformers' settings "
            "can say");
    return PN_OK;
}

static pn_status check_shape(const pn_hf_model *m, pn_error *err) {
    if (m->h.rope_dim != m->h.head_dim)
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "%d of a head's %d values are rotated: transformers' class rotates all", m->h.rope_dim,
                       m->h.head_dim);
    if (!m->is_gemma3 && m->h.window > 0 && m->biased)
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "there are a window and biases: transformers' Mistral has none, its Llama no window");
    if (m->llama3.used && m->h.rope[PN_LAYER_GLOBAL].scale != 1)
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "there are linear scaling and rope_freqs: transformers' settings say one of them");
    return PN_OK;
}

static pn_status read(pn_hf_model *m, pn_error *err) {
    pn_str arch;
    PN_TRY(pn_arch_read(m->file, &m->h, err));
    PN_TRY(pn_gguf_get_str_or(m->file, "general.architecture", "", &arch, err));
    m->is_gemma3 = pn_str_equal(arch, PN_STR("gemma3"));
    if (!m->is_gemma3 && !pn_str_equal(arch, PN_STR("llama")))
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "architecture %.*s: compressed-tensors is written of llama and gemma3", (int)arch.len,
                       arch.data);
    const pn_gguf_tensor *embedding = pn_gguf_find_tensor(m->file, "token_embd.weight");
    if (!embedding || embedding->n_dims != 2 || embedding->dims[1] > INT32_MAX)
        return pn_fail(err, PN_ERR_FORMAT, "tensor token_embd.weight is missing, or no matrix");
    m->n_vocab = (size_t)embedding->dims[1];
    m->tied = !pn_gguf_find_tensor(m->file, "output.weight");
    PN_TRY(read_biases(m, err));
    PN_TRY(read_llama3(m, err));
    PN_TRY(check_shape(m, err));
    PN_TRY(pn_vocab_settings(m->file, &m->vocab, err));
    return pn_vocab_load(m->file, (int)m->n_vocab, &m->tokenizer, &m->roles, err);
}

pn_status pn_hf_model_read(const pn_gguf *file, pn_hf_model *out, pn_error *err) {
    pn_hf_model m = {.file = file};
    pn_status status = read(&m, err);
    for (size_t i = 0; status == PN_OK && i < pn_gguf_n_tensors(file); i++) {
        pn_hf_place place;
        status = pn_hf_place_of(&m, pn_gguf_tensor_at(file, i), &place, err);
    }
    if (status != PN_OK) {
        pn_hf_model_done(&m);
        return status;
    }
    *out = m;
    return PN_OK;
}

void pn_hf_model_done(pn_hf_model *m) {
    pn_tokenizer_free(m->tokenizer);
    *m = (pn_hf_model){0};
}
