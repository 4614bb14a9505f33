/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids to logits: one decoder for all architectures, shaped by their traits. */
#ifndef PN_MODEL_DECODER_H
#define PN_MODEL_DECODER_H

#include "model/arch.h"

#include <stdatomic.h>

typedef struct pn_layer {
    pn_layer_kind kind;
    const float *attn_norm;                           /* [n_embd] */
    pn_weight q, k, v;                                /* n_embd -> n_head * head_dim, n_head_kv * head_dim */
    const float *q_bias, *k_bias, *v_bias, *out_bias; /* or NULL */
    const float *q_norm, *k_norm;                     /* [head_dim] or NULL */
    pn_weight out;                                    /* n_head * head_dim -> n_embd */
    const float *attn_post_norm;                      /* [n_embd] or NULL */
    const float *ffn_norm;                            /* [n_embd] */
    pn_weight gate, up, down;                         /* n_embd -> n_ff, n_ff -> n_embd */
    const float *ffn_post_norm;                       /* [n_embd] or NULL */
} pn_layer;

typedef struct pn_decoder {
    pn_hparams h;
    int n_vocab;
    pn_weight embedding;         /* [n_vocab, n_embd] */
    pn_weight head;              /* the embedding itself when tied */
    const float *output_norm;    /* [n_embd] */
    pn_layer *layers;            /* [n_layer] */
    float *rope_frequencies;     /* [PN_LAYER_KIND_COUNT, rope_dim / 2] */
    pn_weights *weights;         /* owned; everything above points into it */
    const pn_kv_type *kv_floors; /* pn_kv_shape's; NULL: none */
} pn_decoder;

/* Binds every tensor of the file to its place, checking shapes, refuses tensors it does not know, and packs
   the matrices by the workers of the pool. Takes `weights` on success only. */
pn_status pn_decoder_create(pn_weights *weights, pn_pool *pool, pn_decoder **out, pn_error *err);
/* The same without packing: matrices have to be loaded (pn_weights_load) before they are used. */
pn_status pn_decoder_bind(pn_weights *weights, pn_decoder **out, pn_error *err);
void pn_decoder_free(pn_decoder *decoder);

pn_kv_shape pn_decoder_kv_shape(const pn_decoder *decoder, pn_kv_type type);
/* Weight bytes that computing one token reads: all matrices once, and one row of the embedding unless it is
 * the head. */
uint64_t pn_decoder_bytes_per_token(const pn_decoder *decoder);

/* Bytes of keys and values that attention reads for one token after `depth` others: windowed layers stop
 * growing. */
uint64_t pn_decoder_kv_bytes_read(const pn_decoder *decoder, pn_kv_type type, uint64_t depth);

/* Multiply-adds of matrices and attention for n_tok tokens after `depth` others, with the logits of the last.
 */
uint64_t pn_decoder_macs(const pn_decoder *decoder, uint64_t depth, uint64_t n_tok);
/* Those of one layer's attention. */
uint64_t pn_layer_attention_macs(const pn_hparams *h, pn_layer_kind kind, uint64_t depth, uint64_t n_tok);
/* Bytes of one layer's keys and values that n_tok tokens after `depth` others see. */
uint64_t pn_layer_kv_bytes(const pn_decoder *decoder, int layer, pn_kv_type type, uint64_t depth,
                           uint64_t n_tok);

/* Activations of a batch of up to n_chunk tokens, and what the workers of a pool need. */
typedef struct pn_scratch {
    size_t n_chunk;
    float *x;         /* [n_chunk, n_embd] the residual stream */
    float *part;      /* [n_chunk, n_embd] what a part of a layer adds; else rows that were normed in float */
    float *q, *k, *v; /* [n_chunk, n_head * head_dim], [n_chunk, n_head_kv * head_dim] */
    float *attended;  /* [n_chunk, n_head * head_dim] */
    float *gate, *up; /* [n_chunk, n_ff] */
    float *cos_sin;   /* [PN_LAYER_KIND_COUNT, n_chunk, rope_dim] */
    float *worker;    /* [threads of the pool, worker_stride] */
    size_t worker_stride;
    float *partials;  /* of attention */
    pn_inputs inputs; /* quantised inputs of the matmul at hand; n_plane 0: in float */
    pn_head_record head;
    float *memory; /* the one allocation behind all of them */
} pn_scratch;

/* Bytes that pn_scratch_init will allocate; false on overflow. */
bool pn_scratch_plan(const pn_decoder *decoder, pn_precision precision, size_t n_chunk, int n_threads,
                     uint64_t *bytes);
pn_status pn_scratch_init(pn_scratch *scratch, const pn_decoder *decoder, pn_precision precision,
                          size_t n_chunk, int n_threads, pn_error *err);
void pn_scratch_done(pn_scratch *scratch);

/* Sees the residual stream x [n_tok, n_embd]: layer -1 is the embedding, then each layer's output. For
   calibration and for the comparison with a reference implementation, layer by layer. */
typedef struct pn_observer {
    void (*fn)(void *user, int layer, const float *x, size_t n_tok, size_t n_embd);
    void *user;
} pn_observer;

/* Workers of the pool for a pass, 0 for all: over many tokens, which is arithmetic, and over at most
   PN_FEW_TOKENS, which waits for memory. */
typedef struct pn_thread_counts {
    int prefill, decode;
} pn_thread_counts;

typedef struct pn_forward {
    const pn_decoder *decoder;
    const pn_kernels *kernels;
    pn_pool *pool;
    pn_thread_counts threads;
    pn_scratch *scratch;
    pn_kv *kv;
    const pn_observer *observer; /* may be NULL */
    pn_profile *profile;         /* may be NULL */
    const pn_watch *watch;       /* may be NULL */
    const atomic_bool *cancel;   /* may be NULL; looked at before each layer */
} pn_forward;

/* Which logits a pass is to give: those after each of its last n tokens, 0 for none. */
typedef struct pn_logits {
    float *logits; /* [n, n_vocab] */
    size_t n;
    pn_top top;   /* with n == 1: only these are wanted (pn_ops_head) */
    bool partial; /* filled in: the others are only near their values */
} pn_logits;

/* Computes n_tok <= n_chunk tokens that follow the kv->n_tokens positions already in the cache; room for them
   must be reserved. Ids must be in [0, n_vocab). Writes their keys and values, moves kv->n_tokens, and gives
   the logits that are wanted. Does not allocate. False when *cancel became true: the batch is then forgotten,
   as if it had not begun. */
bool pn_decoder_forward(const pn_forward *f, const int32_t *tokens, size_t n_tok, pn_logits *wanted);
/* The logits [n, n_vocab] after tokens first .. first + n of the last pass, which it did not forget. */
void pn_decoder_logits(const pn_forward *f, size_t first, size_t n, float *logits);
/* Part by part, for who goes through a model that way: the embedding of n_tok <= n_chunk tokens to scratch->x
   [n_tok, n_embd]; and one half of a layer over what is there, at the positions after the kv->n_tokens that
   are in the cache, with keys and values written to layer `index` of it. kv->n_tokens is the caller's to
   move. Where the watch wants no more the part ends, and scratch->x is of no use. */
void pn_decoder_embed(const pn_forward *f, const int32_t *tokens, size_t n_tok);
void pn_decoder_attention(const pn_forward *f, const pn_layer *layer, int index, size_t n_tok);
void pn_decoder_feed_forward(const pn_forward *f, const pn_layer *layer, size_t n_tok);
/* All logits [n_vocab] after the last token of the last pass, which gave partial ones. */
void pn_decoder_complete(const pn_forward *f, float *logits);

#endif
