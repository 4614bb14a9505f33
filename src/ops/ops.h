/* SPDX-License-Identifier: Apache-2.0 */
/* Threaded operations: kernels plus a pool. None allocates, none can fail, and an output element depends only
   on its own inputs: not on the number of tokens in the call, nor on the number of threads. */
#ifndef PN_OPS_OPS_H
#define PN_OPS_OPS_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "kv/kv.h"
#include "weights/weights.h"

/* Rows of a weight matrix that are decoded to float at a time; they meet every token of the batch while in
 * cache. */
#define PN_PANEL_ROWS 8

typedef struct pn_ops {
    const pn_kernels *kernels;
    pn_pool *pool;
    /* Scratch of each worker, sized by pn_ops_scratch_floats. */
    float *scratch;
    size_t scratch_stride; /* floats from one worker's to the next */
} pn_ops;

/* Floats of scratch one worker needs for matrices of up to max_col columns and up to max_group query heads
 * per KV head. */
size_t pn_ops_scratch_floats(size_t max_col, size_t max_group);

/* out [n_tok, weight->n_row] = x [n_tok, weight->n_col] times the weight's rows, plus bias [n_row] where
 * there is one. */
typedef struct pn_matmul_job {
    const pn_weight *weight;
    const float *bias;
    float *out;
} pn_matmul_job;

/* Several matrices over the same input x: one synchronisation for all, as for Q, K and V or gate and up. */
void pn_ops_matmul(const pn_ops *ops, const pn_matmul_job *jobs, size_t n_jobs, const float *x, size_t n_tok);

/* out [n_tok, n] = RMS norm of x [n_tok, n] (Zhang and Sennrich, 2019); out may be x. */
void pn_ops_rms_norm(const pn_ops *ops, const float *x, const float *weight, float eps, size_t n,
                     size_t n_tok, float *out);

typedef enum pn_activation { PN_ACTIVATION_SILU, PN_ACTIVATION_GELU } pn_activation;

/* gate [n_tok, n] = activation(gate) * up: the gated unit of Shazeer, "GLU Variants Improve Transformer"
 * (2020). */
void pn_ops_gated_unit(const pn_ops *ops, pn_activation activation, float *gate, const float *up, size_t n,
                       size_t n_tok);

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

/* out [n_tok, n_head, head_dim]: causal attention of a batch at `position` over the cache, which already
   holds the batch's own keys and values. With a window w > 0 a query sees the w newest positions up to its
   own. Softmax is taken online over blocks of keys (Milakov and Gimelshein, 2018; Dao et al., 2022), always
   cut at the cache's own block bounds, so that the result does not depend on the batch. */
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
