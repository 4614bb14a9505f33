/* SPDX-License-Identifier: Apache-2.0 */
/* What distinguishes one decoder-only transformer from another, as data: hyper-parameters and traits of one
   decoder. An architecture is one file arch_NAME.c that reads them from the file's keys, and one line in
   arches.inc. */
#ifndef PN_MODEL_ARCH_H
#define PN_MODEL_ARCH_H

#include "format/gguf.h"
#include "ops/ops.h"

typedef enum pn_layer_kind { PN_LAYER_GLOBAL, PN_LAYER_LOCAL, PN_LAYER_KIND_COUNT } pn_layer_kind;

typedef struct pn_rope {
    double base;  /* theta */
    double scale; /* positions are divided by it (linear scaling, Chen et al., 2023); 1: none */
} pn_rope;

typedef struct pn_hparams {
    int n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, n_ctx_train;
    float norm_eps;
    float embedding_scale; /* the embedding is multiplied by it */
    float attention_scale; /* the scores are */
    pn_activation activation;
    int rope_dim;     /* how many of a head's values are rotated */
    bool rope_halves; /* pairs (i, i + rope_dim/2) rather than (2i, 2i+1) */
    pn_rope rope[PN_LAYER_KIND_COUNT];
    bool qk_norm;       /* RMS norm on each head of q and k */
    bool post_norm;     /* RMS norm on the output of attention and of the feed-forward part */
    int window;         /* of local layers, in tokens; 0: every layer is global */
    int window_pattern; /* layers i with (i + 1) % window_pattern == 0 are global, the others local */
} pn_hparams;

static inline pn_layer_kind pn_layer_kind_of(const pn_hparams *h, int layer) {
    return h->window > 0 && (layer + 1) % h->window_pattern != 0 ? PN_LAYER_LOCAL : PN_LAYER_GLOBAL;
}

typedef struct pn_arch {
    const char *name; /* general.architecture */
    pn_status (*read_hparams)(const pn_gguf *file, pn_hparams *out, pn_error *err);
} pn_arch;

/* Hyper-parameters of a file whose architecture is known; PN_ERR_UNSUPPORTED lists the known ones otherwise.
   Every value is range-checked, so that sizes derived from them fit in 32 bits. */
pn_status pn_arch_read(const pn_gguf *file, pn_hparams *out, pn_error *err);
bool pn_arch_supported(pn_str name);

/* For arch_NAME.c: the keys that all decoder architectures share, under "NAME.". Fills the counts, eps,
   head_dim, rope_dim and rope[PN_LAYER_GLOBAL]; the traits are left at those of a plain Llama. */
pn_status pn_arch_read_common(const pn_gguf *file, const char *arch, pn_hparams *out, pn_error *err);
/* "ARCH.SUFFIX" in a static-size buffer. */
typedef struct pn_arch_key {
    char text[128];
} pn_arch_key;
pn_arch_key pn_arch_key_of(const char *arch, const char *suffix);
/* PN_ERR_UNSUPPORTED when the key exists with a value other than zero: it changes the model in a way not
 * built here. */
pn_status pn_arch_refuse_key(const pn_gguf *file, const char *arch, const char *suffix, pn_error *err);

#endif
