/* SPDX-License-Identifier: Apache-2.0 */
/* A model as Hugging Face transformers and vLLM know it: what its class and its tensors are called there, and
   how rows and norms of a GGUF file differ. Source of both: llama.cpp's convert_hf_to_gguf.py, whose changes
   are undone. */
#ifndef PN_EXPORT_HF_MODEL_H
#define PN_EXPORT_HF_MODEL_H

#include "engine/engine.h"

/* Long contexts as in Llama 3.1, of which a GGUF file has only the factor of each frequency. */
typedef struct pn_hf_llama3_rope {
    bool used;
    double factor;
    int original_context;
} pn_hf_llama3_rope;

typedef struct pn_hf_model {
    const pn_gguf *file; /* borrowed */
    pn_hparams h;
    bool is_gemma3;
    bool biased; /* q, k, v and o have biases */
    bool tied;   /* the embedding is the output head */
    size_t n_vocab;
    pn_hf_llama3_rope llama3;
    pn_tokenizer_spec vocab; /* its settings; the arrays are not filled in */
    pn_vocab_roles roles;
    pn_tokenizer *tokenizer;
} pn_hf_model;

/* PN_ERR_UNSUPPORTED names what the model classes have no setting for; else the errors of opening a model. */
pn_status pn_hf_model_read(const pn_gguf *file, pn_hf_model *out, pn_error *err);
void pn_hf_model_done(pn_hf_model *m); /* one that is all zero is fine */

/* A tensor of the file. */
typedef struct pn_hf_place {
    char module[96];  /* "model.layers.0.self_attn.q_proj"; "": the configuration says it instead */
    const char *part; /* "weight" or "bias" */
    size_t n_head; /* rows are those of so many heads, with pairs (2 i, 2 i + 1) instead of halves; 0: no */
    float added;   /* to each value, by the converter */
} pn_hf_place;

/* PN_ERR_UNSUPPORTED: it has no place there; PN_ERR_FORMAT: it has other rows than its heads. */
pn_status pn_hf_place_of(const pn_hf_model *m, const pn_gguf_tensor *tensor, pn_hf_place *out, pn_error *err);

/* Which of the file's rows is row `row` there. */
static inline size_t pn_hf_row(const pn_hf_place *place, size_t n_row, size_t row) {
    if (place->n_head == 0) return row;
    const size_t head_dim = n_row / place->n_head, in_head = row % head_dim, half = head_dim / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
}

#endif
