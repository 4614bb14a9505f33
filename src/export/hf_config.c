/* SPDX-License-Identifier: Apache-2.0 */
#include "export/hf_config.h"

#include "base/utf8.h"

#include <math.h>

/* Adds what `from` has; takes it over. False for lack of memory, also when it is NULL. */
static bool merge(json_t *object, json_t *from) {
    bool ok = object && from && json_object_update(object, from) == 0;
    json_decref(from);
    return ok;
}

static json_t *finished(json_t *object, bool ok) {
    if (ok) return object;
    json_decref(object);
    return NULL;
}

/* A float as people write it: 1e-6, not the double that is nearest to the float. */
static double plain(float x) {
    double scale = pow(10, 6 - floor(log10(fabs((double)x))));
    return x == 0 ? 0 : rint((double)x * scale) / scale;
}

/* ---- sizes ---- */

static json_t *rope_scaling(const pn_hf_model *m) {
    const double linear = m->h.rope[PN_LAYER_GLOBAL].scale;
    if (m->llama3.used)
        return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", m->llama3.factor,
                         "low_freq_factor", 1.0, "high_freq_factor", 4.0, "original_max_position_embeddings",
                         m->llama3.original_context);
    return linear == 1 ? json_null() : json_pack("{s:s, s:f}", "rope_type", "linear", "factor", linear);
}

/* Gemma 3 does not run in half precision: its values grow beyond it. */
static const char *number_type(const pn_hf_model *m) {
    if (m->is_gemma3) return "bfloat16";
    switch (pn_gguf_find_tensor(m->file, "token_embd.weight")->type) {
    case PN_QTYPE_ID_F16:
        return "float16";
    case PN_QTYPE_ID_BF16:
        return "bfloat16";
    default:
        return "float32";
    }
}

static json_t *common(const pn_hf_model *m) {
    const pn_hparams *h = &m->h;
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:b, s:b, s:f, s:o, s:s, s:f, s:b}",
                     "hidden_size", h->n_embd, "intermediate_size", h->n_ff, "num_hidden_layers", h->n_layer,
                     "num_attention_heads", h->n_head, "num_key_value_heads", h->n_head_kv, "head_dim",
                     h->head_dim, "max_position_embeddings", h->n_ctx_train, "rms_norm_eps",
                     plain(h->norm_eps), "vocab_size", (int)m->n_vocab, "tie_word_embeddings", (int)m->tied,
                     "attention_bias", (int)m->biased, "rope_theta", h->rope[PN_LAYER_GLOBAL].base,
                     "rope_scaling", rope_scaling(m), "torch_dtype", number_type(m), "attention_dropout", 0.0,
                     "use_cache", 1);
}

static json_t *llama(const pn_hf_model *m) {
    if (m->h.window > 0)
        return json_pack("{s:[s], s:s, s:s, s:i}", "architectures", "MistralForCausalLM", "model_type",
                         "mistral", "hidden_act", "silu", "sliding_window", m->h.window);
    return json_pack("{s:[s], s:s, s:s, s:b}", "architectures", "LlamaForCausalLM", "model_type", "llama",
                     "hidden_act", "silu", "mlp_bias", 0);
}

static json_t *layer_types(const pn_hparams *h) {
    json_t *types = json_array();
    for (int i = 0; i < h->n_layer; i++)
        if (json_array_append_new(types, json_string(pn_layer_kind_of(h, i) == PN_LAYER_LOCAL
                                                         ? "sliding_attention"
                                                         : "full_attention")) != 0)
            return finished(types, false);
    return types;
}

static json_t *gemma3(const pn_hf_model *m) {
    const pn_hparams *h = &m->h;
    const double inverse = 1 / (double)h->attention_scale;
    return json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:f, s:o, s:n, s:n}", "architectures",
                     "Gemma3ForCausalLM", "model_type", "gemma3_text", "hidden_activation",
                     "gelu_pytorch_tanh", "query_pre_attn_scalar", (int)lround(inverse * inverse),
                     "sliding_window", h->window, "sliding_window_pattern", h->window_pattern,
                     "rope_local_base_freq", h->rope[PN_LAYER_LOCAL].base, "layer_types", layer_types(h),
                     "attn_logit_softcapping", "final_logit_softcapping");
}

/* The ids that the file names. */
static bool add_roles(json_t *object, const pn_vocab_roles *roles) {
    const struct {
        const char *key;
        int32_t id;
    } ids[] = {{"bos_token_id", roles->bos}, {"eos_token_id", roles->eos}, {"pad_token_id", roles->pad}};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (json_object_set_new(object, ids[i].key, ids[i].id < 0 ? json_null() : json_integer(ids[i].id)) !=
            0)
            return false;
    return true;
}

/* ---- what was done ---- */

static json_t *module_name(const pn_hf_model *m, const pn_export_tensor *e) {
    pn_hf_place place;
    if (pn_hf_place_of(m, e->tensor, &place, NULL) != PN_OK) return NULL;
    return json_string(place.module);
}

/* The matrices of one kind and group. */
static json_t *config_group(const pn_hf_model *m, const pn_export_tensors *tensors,
                            const pn_export_tensor *like) {
    const pn_panel_format format = pn_panel_formats[like->kind];
    json_t *targets = json_array();
    for (size_t i = 0; i < tensors->n; i++) {
        const pn_export_tensor *e = &tensors->items[i];
        if (!e->compressed || e->kind != like->kind || e->group != like->group) continue;
        if (json_array_append_new(targets, module_name(m, e)) != 0) return finished(targets, false);
    }
    return json_pack("{s:o, s:{s:i, s:s, s:b, s:s, s:o, s:b, s:n}, s:n, s:n}", "targets", targets, "weights",
                     "num_bits", (int)format.bits, "type", "int", "symmetric", (int)!format.min, "strategy",
                     like->group > 0 ? "group" : "channel", "group_size",
                     like->group > 0 ? json_integer((json_int_t)like->group) : json_null(), "dynamic", 0,
                     "actorder", "input_activations", "output_activations");
}

/* A matrix, other than the embedding, from which rows are taken. */
static bool is_linear(const pn_gguf_tensor *t) {
    return t->n_dims == 2 && !pn_str_equal(t->name, PN_STR("token_embd.weight"));
}

static bool is_first_of_its_kind(const pn_export_tensors *tensors, size_t i) {
    const pn_export_tensor *e = &tensors->items[i];
    for (size_t j = 0; j < i; j++) {
        const pn_export_tensor *other = &tensors->items[j];
        if (other->compressed && other->kind == e->kind && other->group == e->group) return false;
    }
    return true;
}

static json_t *quantization(const pn_hf_model *m, const pn_export_tensors *tensors) {
    json_t *groups = json_object(), *ignore = json_array();
    bool ok = groups && ignore;
    char name[32];
    size_t n = 0;
    for (size_t i = 0; ok && i < tensors->n; i++) {
        const pn_export_tensor *e = &tensors->items[i];
        if (!e->compressed && is_linear(e->tensor))
            ok = json_array_append_new(ignore, module_name(m, e)) == 0;
        if (!e->compressed || !is_first_of_its_kind(tensors, i)) continue;
        snprintf(name, sizeof name, "group_%zu", n++);
        ok = json_object_set_new(groups, name, config_group(m, tensors, e)) == 0;
    }
    if (ok && m->tied) ok = json_array_append_new(ignore, json_string("lm_head")) == 0;
    json_t *object = ok ? json_pack("{s:s, s:s, s:s, s:O, s:O, s:n}", "quant_method", "compressed-tensors",
                                    "format", "pack-quantized", "quantization_status", "compressed",
                                    "config_groups", groups, "ignore", ignore, "kv_cache_scheme")
                        : NULL;
    json_decref(groups);
    json_decref(ignore);
    return object;
}

/* ---- the files ---- */

json_t *pn_hf_config(const pn_hf_model *m, const pn_export_tensors *tensors) {
    json_t *config = json_object();
    bool ok = merge(config, m->is_gemma3 ? gemma3(m) : llama(m)) && merge(config, common(m)) &&
              add_roles(config, &m->roles) &&
              json_object_set_new(config, "quantization_config", quantization(m, tensors)) == 0;
    return finished(config, ok);
}

json_t *pn_hf_generation_config(const pn_hf_model *m) {
    json_t *config = json_object(), *ends = json_array();
    bool ok = ends && add_roles(config, &m->roles);
    for (size_t id = 0; ok && id < m->n_vocab; id++)
        if (pn_tokenizer_is_end(m->tokenizer, (int32_t)id))
            ok = json_array_append_new(ends, json_integer((json_int_t)id)) == 0;
    ok = ok && (json_array_size(ends) == 0 || json_object_set(config, "eos_token_id", ends) == 0);
    json_decref(ends);
    return finished(config, ok);
}

static bool add_piece(json_t *object, const char *key, const pn_hf_model *m, int32_t id) {
    if (id < 0) return true;
    pn_str piece = pn_tokenizer_piece(m->tokenizer, id);
    return json_object_set_new(object, key, json_stringn(piece.data, piece.len)) == 0;
}

json_t *pn_hf_tokenizer_config(const pn_hf_model *m) {
    json_t *config = json_pack("{s:s, s:b, s:b, s:b, s:b, s:i}", "tokenizer_class", "PreTrainedTokenizerFast",
                               "add_bos_token", (int)m->vocab.add_bos, "add_eos_token", 0, "add_prefix_space",
                               (int)m->vocab.add_space_prefix, "clean_up_tokenization_spaces", 0,
                               "model_max_length", m->h.n_ctx_train);
    bool ok = config && add_piece(config, "bos_token", m, m->roles.bos) &&
              add_piece(config, "eos_token", m, m->roles.eos) &&
              add_piece(config, "unk_token", m, m->roles.unk) &&
              add_piece(config, "pad_token", m, m->roles.pad);
    const pn_gguf_value *own = pn_gguf_find_key(m->file, "tokenizer.chat_template");
    if (ok && own && own->type == PN_GGUF_STRING && pn_utf8_valid(own->as.str.data, own->as.str.len))
        ok = json_object_set_new(config, "chat_template", json_stringn(own->as.str.data, own->as.str.len)) ==
             0;
    return finished(config, ok);
}
