/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops, chosen once. PN_KERNEL_SLOTS is the one list: from it come the table, the check of every
   variant against scalar (tests/unit/test_kernels.c) and later the bench. Scalar fills the table first and is
   the specification; each instruction set that the feature mask allows then overrides what it does faster.

   Class of a slot:
     EXACT    same bits as scalar, whatever the instruction set (a NaN may have any payload);
     BOUNDED  |difference| <= c * eps * sum |a*b| (or of the output's own size where nothing is summed).
   Within one table every slot is deterministic: an output element depends only on its own inputs, never on
   how many rows, tokens, heads or keys the same call handles. That is what makes chunked, cached and threaded
   runs bit-equal. A variant keeps this by one order of adding for all its tiles: product k goes to partial
   sum k mod 8 (mod 16 with vectors of 16), in order of k, and these are added in pairs.

   No slot reads or writes outside its operands; no operand needs to be aligned; n, n_row, n_tok, n_head,
   n_key, k and dim may be 0 except where it is said. NaN in, NaN out. */
#ifndef PN_KERNELS_KERNELS_H
#define PN_KERNELS_KERNELS_H

#include "quant/qtype.h"

#include <stddef.h>
#include <stdint.h>

#define PN_KERNEL_MAX_TYPES 32

/* X(slot, class, return type, parameters) */
#define PN_KERNEL_SLOTS(X)                                                                                   \
    /* out[t * out_stride + r] = sum over k of w[r * w_stride + k] * x[t * x_stride + k];                    \
       w [n_row, k], x [n_tok, k]; any k. */                                                                 \
    X(matmul_f32, BOUNDED, void,                                                                             \
      (const float *w, size_t w_stride, size_t n_row, const float *x, size_t x_stride, size_t n_tok,         \
       size_t k, float *out, size_t out_stride))                                                             \
    /* scores[h * scores_stride + j] = scale * sum over d of q[h * dim + d] * keys[j * dim + d];             \
       q [n_head, dim], keys [n_key, dim] of half or float. */                                               \
    X(attn_scores_f16, BOUNDED, void,                                                                        \
      (const float *q, size_t n_head, const uint16_t *keys, size_t n_key, size_t dim, float scale,           \
       float *scores, size_t scores_stride))                                                                 \
    X(attn_scores_f32, BOUNDED, void,                                                                        \
      (const float *q, size_t n_head, const float *keys, size_t n_key, size_t dim, float scale,              \
       float *scores, size_t scores_stride))                                                                 \
    /* acc[h * dim + d] += p[h * p_stride + j] * values[j * dim + d] for each j in order, so that            \
       splitting the keys over several calls gives the same bits. */                                         \
    X(attn_mix_f16, BOUNDED, void,                                                                           \
      (const float *p, size_t p_stride, size_t n_head, const uint16_t *values, size_t n_key, size_t dim,     \
       float *acc))                                                                                          \
    X(attn_mix_f32, BOUNDED, void,                                                                           \
      (const float *p, size_t p_stride, size_t n_head, const float *values, size_t n_key, size_t dim,        \
       float *acc))                                                                                          \
    X(max_f32, EXACT, float, (const float *x, size_t n)) /* n >= 1; a zero is +0; with NaN unspecified */    \
    /* x[i] = exp(x[i] - shift), 0 for -infinity; returns their sum. */                                      \
    X(exp_sum_f32, BOUNDED, float, (float *x, size_t n, float shift))                                        \
    /* out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; n >= 1; out may be x. */                           \
    X(rms_norm_f32, BOUNDED, void, (const float *x, const float *weight, float eps, size_t n, float *out))   \
    /* Rotates pairs in place by angle i: (x[2i], x[2i+1]), or (x[i], x[i + n/2]) for halves;                \
       n even; cos_sin [n/2] pairs of (cos, sin). */                                                         \
    X(rope_pairs_f32, BOUNDED, void, (float *x, const float *cos_sin, size_t n))                             \
    X(rope_halves_f32, BOUNDED, void, (float *x, const float *cos_sin, size_t n))                            \
    /* out[i] = silu(gate[i]) * up[i], and with the tanh form of GELU; for any finite gate;                  \
       out may be gate. */                                                                                   \
    X(silu_mul_f32, BOUNDED, void, (const float *gate, const float *up, size_t n, float *out))               \
    X(gelu_mul_f32, BOUNDED, void, (const float *gate, const float *up, size_t n, float *out))               \
    X(add_f32, EXACT, void, (float *x, const float *y, size_t n)) /* x += y */                               \
    X(scale_f32, EXACT, void, (float *x, float factor, size_t n)) /* x *= factor */                          \
    X(f32_to_f16, EXACT, void, (const float *x, uint16_t *out, size_t n))                                    \
    /* Reads n_stream >= 1 linear streams side by side, to measure bandwidth. Stream s is the s-th part of   \
       bytes / n_stream bytes, rounded down to whole units of 256; the few bytes after the last part are not \
       read. The result, the xor of all 8-byte words read, only keeps the compiler honest. */                \
    X(read_streams, EXACT, uint64_t, (const void *data, size_t bytes, int n_stream))

/* Turns n weights (a multiple of the type's block) into floats; src need not be aligned. */
typedef void (*pn_kernels_decode_fn)(const void *src, float *dst, size_t n);

typedef struct pn_kernels {
#define PN_KERNEL_FIELD(slot, class, ret, params) ret(*slot) params;
    PN_KERNEL_SLOTS(PN_KERNEL_FIELD)
#undef PN_KERNEL_FIELD
    /* decode[i] is for type pn_qtype_at(i); EXACT: the same bits as the type's own decode. */
    pn_kernels_decode_fn decode[PN_KERNEL_MAX_TYPES];
} pn_kernels;

/* Fills the table for a feature mask (pn_cpu_feature bits). Pure: the same mask gives the same table. */
void pn_kernels_init(pn_kernels *table, uint32_t features);
/* The table for this CPU and PN_CPU; built once. */
const pn_kernels *pn_kernels_host(void);
/* The decode slot of a type that pn_qtype_find or pn_qtype_at gave. */
pn_kernels_decode_fn pn_kernels_decoder(const pn_kernels *table, const pn_qtype *type);

#endif
