/* SPDX-License-Identifier: Apache-2.0 */
#include "model/arch.h"

#include <math.h>
#include <stdio.h>

#define PN_ARCH(name) extern const pn_arch pn_arch_##name;
#include "model/arches.inc"
#undef PN_ARCH

static const pn_arch *const arches[] = {
#define PN_ARCH(name) &pn_arch_##name,
#include "model/arches.inc"
#undef PN_ARCH
};

#define N_ARCHES (sizeof arches / sizeof arches[0])

/* Far beyond any model for such devices, and small enough that products of two fit 64 bits many times over.
 */
#define MAX_DIM   (1u << 24)
#define MAX_LAYER 4096u

static const pn_arch *find_arch(pn_str name) {
    for (size_t i = 0; i < N_ARCHES; i++)
        if (pn_str_equal(name, pn_str_from(arches[i]->name))) return arches[i];
    return NULL;
}

bool pn_arch_supported(pn_str name) {
    return find_arch(name) != NULL;
}

pn_arch_key pn_arch_key_of(const char *arch, const char *suffix) {
    pn_arch_key key;
    snprintf(key.text, sizeof key.text, "%s.%s", arch, suffix);
    return key;
}

pn_status pn_arch_refuse_key(const pn_gguf *file, const char *arch, const char *suffix, pn_error *err) {
    pn_arch_key key = pn_arch_key_of(arch, suffix);
    const pn_gguf_value *value = pn_gguf_find_key(file, key.text);
    if (!value) return PN_OK;
    double number = 1;
    if (value->type != PN_GGUF_STRING && value->type != PN_GGUF_ARRAY)
        PN_TRY(pn_gguf_get_f64_or(file, key.text, 0, &number, err));
    if (number == 0) return PN_OK;
    return pn_fail_at(err, PN_ERR_UNSUPPORTED, value->position,
                      "%s is set: postern does not build this variant of %s", key.text, arch);
}

static pn_status get_int(const pn_gguf *file, const char *arch, const char *suffix, uint64_t max, int *out,
                         pn_error *err) {
    uint64_t value;
    PN_TRY(pn_gguf_get_u64(file, pn_arch_key_of(arch, suffix).text, 1, max, &value, err));
    *out = (int)value;
    return PN_OK;
}

static pn_status get_int_or(const pn_gguf *file, const char *arch, const char *suffix, int fallback, int *out,
                            pn_error *err) {
    uint64_t value;
    PN_TRY(pn_gguf_get_u64_or(file, pn_arch_key_of(arch, suffix).text, 1, MAX_DIM, (uint64_t)fallback, &value,
                              err));
    *out = (int)value;
    return PN_OK;
}

static pn_status read_head_dim(const pn_gguf *file, const char *arch, pn_hparams *h, pn_error *err) {
    int value_dim;
    PN_TRY(get_int_or(file, arch, "attention.key_length", h->n_embd / h->n_head, &h->head_dim, err));
    PN_TRY(get_int_or(file, arch, "attention.value_length", h->head_dim, &value_dim, err));
    if (h->head_dim == 0)
        return pn_fail(err, PN_ERR_FORMAT, "an embedding of %d cannot be divided among %d heads", h->n_embd,
                       h->n_head);
    if (value_dim != h->head_dim)
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "keys of %d and values of %d per head: they must be of one size", h->head_dim,
                       value_dim);
    if (h->n_head % h->n_head_kv != 0)
        return pn_fail(err, PN_ERR_FORMAT, "%d query heads cannot share %d key-value heads evenly", h->n_head,
                       h->n_head_kv);
    if ((uint64_t)h->n_head * (uint64_t)h->head_dim > MAX_DIM)
        return pn_fail(err, PN_ERR_FORMAT, "%d heads of %d values are more than any real model has",
                       h->n_head, h->head_dim);
    PN_TRY(get_int_or(file, arch, "rope.dimension_count", h->head_dim, &h->rope_dim, err));
    if (h->rope_dim > h->head_dim || h->rope_dim % 2 != 0)
        return pn_fail(err, PN_ERR_FORMAT,
                       "%s.rope.dimension_count is %d: expected an even number up to the head size %d", arch,
                       h->rope_dim, h->head_dim);
    return PN_OK;
}

/* There is no safe default: models were trained with 1e-5 or with 1e-6. */
static pn_status read_norm_eps(const pn_gguf *file, const char *arch, float *out, pn_error *err) {
    pn_arch_key key = pn_arch_key_of(arch, "attention.layer_norm_rms_epsilon");
    double eps = 0;
    if (!pn_gguf_find_key(file, key.text)) return pn_fail(err, PN_ERR_FORMAT, "key %s is missing", key.text);
    PN_TRY(pn_gguf_get_f64_or(file, key.text, 0, &eps, err));
    if (!(eps >= 0 && eps < 1))
        return pn_fail(err, PN_ERR_FORMAT, "%s is %g: expected [0, 1)", key.text, eps);
    *out = (float)eps;
    return PN_OK;
}

/* A file that gives a factor without a type, or by the older key rope.scale_linear, means linear scaling. */
static pn_status read_rope(const pn_gguf *file, const char *arch, pn_rope *rope, pn_error *err) {
    pn_str scaling;
    PN_TRY(pn_gguf_get_str_or(file, pn_arch_key_of(arch, "rope.scaling.type").text, "linear", &scaling, err));
    PN_TRY(pn_gguf_get_f64_or(file, pn_arch_key_of(arch, "rope.freq_base").text, 10000.0, &rope->base, err));
    PN_TRY(pn_gguf_get_f64_or(file, pn_arch_key_of(arch, "rope.scale_linear").text, 1.0, &rope->scale, err));
    PN_TRY(pn_gguf_get_f64_or(file, pn_arch_key_of(arch, "rope.scaling.factor").text, rope->scale,
                              &rope->scale, err));
    if (pn_str_equal(scaling, PN_STR("none")) || rope->scale == 0) /* some converters write 0 for none */
        rope->scale = 1.0;
    else if (!pn_str_equal(scaling, PN_STR("linear")))
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "%s.rope.scaling.type is \"%.*s\": postern knows none and linear", arch,
                       scaling.len < 40 ? (int)scaling.len : 40, scaling.data);
    if (!(rope->base > 0 && isfinite(rope->base) && rope->scale > 0 && isfinite(rope->scale)))
        return pn_fail(err, PN_ERR_FORMAT, "%s: RoPE base %g and scale %g must be positive", arch, rope->base,
                       rope->scale);
    return PN_OK;
}

pn_status pn_arch_read_common(const pn_gguf *file, const char *arch, pn_hparams *out, pn_error *err) {
    pn_hparams h = {.embedding_scale = 1.0f, .activation = PN_ACTIVATION_SILU};
    PN_TRY(get_int(file, arch, "block_count", MAX_LAYER, &h.n_layer, err));
    PN_TRY(get_int(file, arch, "embedding_length", MAX_DIM, &h.n_embd, err));
    PN_TRY(get_int(file, arch, "feed_forward_length", MAX_DIM, &h.n_ff, err));
    PN_TRY(get_int(file, arch, "attention.head_count", MAX_DIM, &h.n_head, err));
    PN_TRY(get_int(file, arch, "context_length", INT32_MAX, &h.n_ctx_train, err));
    PN_TRY(get_int_or(file, arch, "attention.head_count_kv", h.n_head, &h.n_head_kv, err));
    PN_TRY(read_norm_eps(file, arch, &h.norm_eps, err));
    PN_TRY(read_head_dim(file, arch, &h, err));
    PN_TRY(read_rope(file, arch, &h.rope[PN_LAYER_GLOBAL], err));
    h.rope[PN_LAYER_LOCAL] = h.rope[PN_LAYER_GLOBAL];
    h.attention_scale = 1.0f / sqrtf((float)h.head_dim);
    *out = h;
    return PN_OK;
}

pn_status pn_arch_read(const pn_gguf *file, pn_hparams *out, pn_error *err) {
    pn_str name;
    PN_TRY(pn_gguf_get_str_or(file, "general.architecture", "", &name, err));
    const pn_arch *arch = find_arch(name);
    if (arch) return arch->read_hparams(file, out, err);
    char known[256] = "";
    for (size_t i = 0, n = 0; i < N_ARCHES && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", arches[i]->name);
    return pn_fail(err, PN_ERR_UNSUPPORTED, "architecture \"%.*s\" is not known; postern runs: %s",
                   name.len < 60 ? (int)name.len : 60, name.data, known);
}
