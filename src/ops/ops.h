/* SPDX-License-Identifier: Apache-2.0 */
/* Threaded operations: kernels plus a pool. None allocates, none can fail, and an output element depends only
   on its own inputs: not on the number of tokens in the call, nor on the number of threads. */
#ifndef PN_OPS_OPS_H
#define PN_OPS_OPS_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "kv/kv.h"
#include "ops/profile.h"
#include "weights/weights.h"

/* How the output head in two parts went lately, at first all zero. */
typedef struct pn_head_record {
    unsigned whole; /* tokens to come for which it is not tried */
    unsigned pause; /* what that was set to last */
} pn_head_record;

/* Sees what matrices are multiplied with: x [n_tok, n_col] in float, before the product. `first` is the first
   of the matrices that share it. False: that was all there is to see, the product is not needed. */
typedef struct pn_watch {
    bool (*fn)(void *user, const pn_weight *first, const float *x, size_t n_col, size_t n_tok);
    void *user;
} pn_watch;

typedef struct pn_ops {
    const pn_kernels *kernels;
    pn_pool *pool;
    int n_threads; /* workers of the pool that take part, 0: all */
    /* Where inputs of matmuls are quantised, its arrays sized by pn_ops_inputs_bytes; NULL: weights are
       turned into floats instead (PN_PRECISION_EXACT). */
    const pn_inputs *inputs;
    /* Scratch of each worker, sized by pn_ops_scratch_floats. */
    float *scratch;
    size_t scratch_stride; /* floats from one worker's to the next */
    float *partials;       /* of attention, merged when all workers are done: pn_ops_partial_floats */
    pn_head_record *head;  /* NULL: always tried */
    pn_profile *profile;   /* may be NULL */
    const pn_watch *watch; /* may be NULL */
} pn_ops;

/* pn_pool_run by the workers that take part. */
static inline void pn_ops_run(const pn_ops *ops, pn_pool_fn fn, void *arg, size_t n_items, size_t grain) {
    pn_pool_run_on(ops->pool, ops->n_threads, fn, arg, n_items, grain);
}

/* Floats of scratch one worker needs for matrices of up to max_col columns and `group` query heads per KV
   head. */
size_t pn_ops_scratch_floats(size_t max_col, size_t group, size_t head_dim);
size_t pn_ops_partial_floats(size_t n_head, size_t head_dim);

/* Integer planes of the precision; 0 for PN_PRECISION_EXACT. */
int pn_ops_planes(pn_precision precision);
/* Bytes of the arrays of pn_inputs for n_tok tokens of up to max_col columns; false on overflow. */
bool pn_ops_inputs_bytes(int n_plane, size_t max_col, size_t n_tok, uint64_t *bytes);
/* Points the arrays into memory of that size, aligned to 64. */
pn_inputs pn_ops_inputs(int n_plane, size_t max_col, size_t n_tok, void *memory);

/* out [n_tok, weight->n_row] = x [n_tok, weight->n_col] times the weight's rows, plus bias [n_row] where
 * there is one. */
typedef struct pn_matmul_job {
    const pn_weight *weight;
    const float *bias;
    float *out;
} pn_matmul_job;

typedef enum pn_activation { PN_ACTIVATION_SILU, PN_ACTIVATION_GELU } pn_activation;

/* The rows that matrices are multiplied with: x, or what is made of it on the way, token by token, so that in
   integers only the integers are written. */
typedef struct pn_matmul_input {
    const float *x;    /* [n_tok, n_col] */
    const float *norm; /* weights [n_col] of an RMS norm of x (Zhang and Sennrich, 2019), or NULL */
    float norm_eps;
    const float *up; /* [n_tok, n_col] of activation(x) * up, the gated unit of Shazeer, "GLU Variants Improve
                        Transformer" (2020), or NULL */
    pn_activation activation;
    float *rows; /* [n_tok, n_col], may be x: what is made goes there if a matrix wants floats */
} pn_matmul_input;

/* Several matrices over the same input: one synchronisation for all, as for Q, K and V or gate and up. False
   when the watch wanted no product. */
bool pn_ops_matmul(const pn_ops *ops, const pn_matmul_job *jobs, size_t n_jobs, const pn_matmul_input *input,
                   size_t n_tok);

/* Which logits are wanted: of the n greatest those that are no further than `margin` below the first; all for
   n == 0. */
typedef struct pn_top {
    size_t n;
    float margin; /* may be infinite */
} pn_top;

/* Logits of one token from an output head, whose matrix may be in two parts. Of such a matrix the high part
   gives every logit and how far off it may be. To rows that may be among those wanted the low part is added
   of the few steps with the greatest inputs, which leaves less to be off by; those that still may be are
   computed in full.
   Then true is returned, the wanted logits are the same bits as pn_ops_matmul's, and every other is less than
   all of these, but only near its own value.

   How far off: the low part of a row is taken to be independent of x, so that the error is a sum of many
   small ones with a standard deviation of |x| * |residual| / sqrt(n_col); PN_HEAD_SIGMAS of them are allowed
   for. That is no proof, so it is watched: when a row computed in full was off by more than three quarters of
   that, or when many rows come into question, the whole product is computed, and false returned as when all
   are wanted. Where that happens again and again the high part is not tried for a while. */
#define PN_HEAD_SIGMAS  8
#define PN_HEAD_TOP_MAX 64
bool pn_ops_head(const pn_ops *ops, const pn_weight *weight, const float *x, pn_top top, float *logits);

/* out [n_tok, n] = RMS norm of x [n_tok, n] (Zhang and Sennrich, 2019); out may be x. */
void pn_ops_rms_norm(const pn_ops *ops, const float *x, const float *weight, float eps, size_t n,
                     size_t n_tok, float *out);

/* x [n_tok, n] += y */
void pn_ops_add(const pn_ops *ops, float *x, const float *y, size_t n, size_t n_tok);

/* Per-head work between the projections and attention, for a batch at `position`: optional RMS norm of each
   head of q and k (weights [head_dim] or NULL), rotary embedding (Su et al., 2021), and storing k and v in
   the cache. */
typedef struct pn_rope_job {
    float *q; /* [n_tok, n_head, head_dim] */
    float *k; /* [n_tok, n_head_kv, head_dim] */
    const float *v;
    const float *q_norm, *k_norm;
    float norm_eps;
    const float *cos_sin; /* [n_tok, rope_dim / 2] pairs */
    int rope_dim;
    bool halves; /* rotate x[i] with x[i + rope_dim/2], rather than x[2i] with x[2i+1] */
    int n_head;
    int layer;
    size_t position, n_tok;
    pn_kv *kv;
} pn_rope_job;
void pn_ops_rope_and_store(const pn_ops *ops, const pn_rope_job *job);

/* Packs what the next n_tok positions of a cache, which this layer has written, fill up. */
void pn_ops_pack_kv(const pn_ops *ops, const pn_kv *kv, int layer, size_t n_tok);

/* out [n_tok, n_head, head_dim]: causal attention of a batch at `position` over the cache, which already
   holds the batch's own keys and values. With a window w > 0 a query sees the w newest positions up to its
   own. Softmax is taken online over blocks of keys (Milakov and Gimelshein, 2018; Dao et al., 2022) and runs
   of blocks, always cut at the cache's own bounds, so that the result does not depend on the batch. */
typedef struct pn_attention_job {
    const float *q; /* [n_tok, n_head, head_dim] */
    float *out;
    int n_head;
    int layer;
    size_t position, n_tok, window;
    float scale;
    const pn_kv *kv;
} pn_attention_job;
void pn_ops_attention(const pn_ops *ops, const pn_attention_job *job);

#endif
