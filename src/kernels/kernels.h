/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops, chosen once. PN_KERNEL_SLOTS is the one list: from it come the table, the check of every
   variant against scalar (tests/unit/test_kernels*.c) and the bench. Scalar fills the table first and is the
   specification; each instruction set that the feature mask allows then overrides what it does faster.

   Class of a slot:
     EXACT    same bits as scalar, whatever the instruction set (a NaN may have any payload);
     BOUNDED  |difference| <= c * eps * sum |a*b| (or of the output's own size where nothing is summed).
   Within one table every slot is deterministic: an output element depends only on its own inputs, never on
   how many rows, tokens, heads or keys the same call handles. That is what makes chunked, cached and threaded
   runs bit-equal. A variant keeps this by one order of adding for all its tiles: each slot says which.

   Weights come packed in panels of 16 rows (quant/panel.h). There are two ways to multiply them:
     in integers: the input is quantised per token and step of 32 columns (quantise), the products of a
   scale's group are added exactly, and the groups in one order in float. `few` reads the packed bytes for 1
   to 4 tokens; for more, `expand` unpacks a panel once and matmul_codes multiplies it with all of them; in
   float: expand and codes_to_f32 (or f16_to_f32, bf16_to_f32) make a panel of floats, matmul_f32 multiplies
   it.

   No slot reads or writes outside its operands; no operand needs to be aligned unless it says so; n, n_row,
   n_tok, n_key, k and dim may be 0 except where it is said. NaN in, NaN out. */
#ifndef PN_KERNELS_KERNELS_H
#define PN_KERNELS_KERNELS_H

#include "quant/integer.h"
#include "quant/kv_run.h"
#include "quant/panel.h"

#include <stddef.h>
#include <stdint.h>

#define PN_FEW_TOKENS 4
#define PN_FEW_PANELS 4
#define PN_ATTN_KEYS  64
#define PN_ATTN_SLACK 8.0f  /* powers of two by which a weight of softmax may pass 1 */
#define PN_PEAK_ROUND 98304 /* 12 accumulators share it in any of our registers */

/* The quantised inputs of a matmul: x = scale * (low + 256 * high). Sums are over the integers of a step or
   of half a step, times -128: what an unsigned code of weight + 128 leaves to add. */
typedef struct pn_inputs {
    int n_plane;   /* 1: 8 bits, low alone; 2: 16 bits */
    size_t n_step; /* steps of 32 columns per token */
    int8_t *codes; /* [n_tok, n_plane, n_step * 32], the low plane first */
    float *scale;  /* [n_tok, n_step] */
    float *sum;    /* [n_tok, n_step] scale times the sum of the step's integers */
    int32_t *bias; /* [n_tok, n_step] */
    int32_t *half; /* [n_tok, n_step, 2] the same of columns 0 to 15 and 16 to 31 */
} pn_inputs;

/* An unpacked panel: weight = scale * code + offset, one scale per `group` columns. */
typedef struct pn_codes {
    int8_t *codes; /* [n_step * 8][16 rows][4 columns], aligned to 64 */
    float *scale;  /* [n_step * 32 / group][16], aligned to 64 */
    float *offset; /* the same, or NULL */
    size_t n_step;
    int group; /* 16 or 32 */
    int least; /* no code is below -least */
    int bits;  /* code + least is below 1 << bits; at most 8 */
} pn_codes;

/* X(slot, class, return type, parameters) */
#define PN_KERNEL_SLOTS(X)                                                                                   \
    /* Quantises x [n_tok, n_step * 32] into inputs from token `first` on. Per step: a = max |x|; the        \
       largest integer is L = 127 with one plane, 32639 with two; scale = a / L, integers are x * (L / a)    \
       rounded to nearest even. All zero when a < 1e-30; with an infinity or NaN in the step scale and sum   \
       are NaN and the integers 0. The low plane holds the integer's low byte as int8, the high one what is  \
       left over. */                                                                                         \
    X(quantise, EXACT, void, (const float *x, size_t first, size_t n_tok, const pn_inputs *inputs))          \
    /* out[t * out_stride + r] for r < n_row <= 16 and tokens first .. first + n_tok: from 0, per group in   \
       order, fma((float)i, scale_w * scale_x, out), where i is the sum of code * integer of the group;      \
       then, with offsets, fma(offset, s, out), where s is inputs->sum, or scale_x * the half's sum for a    \
       group of 16. */                                                                                       \
    X(matmul_codes, EXACT, void,                                                                             \
      (const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first, size_t n_tok, float *out,     \
       size_t out_stride))                                                                                   \
    /* The floats of columns 32 * step .. + 32 * n_step of an unpacked panel: out [columns][16]. */          \
    X(codes_to_f32, EXACT, void, (const pn_codes *w, size_t step, size_t n_step, float *out))                \
    /* The codes of n_step steps of 8 bits, put together from the two parts of quant/split.h. Each may be    \
       followed by scale_bytes, 0 or 32: the first half of what follows the step's codes in high. */         \
    X(join_split, EXACT, void,                                                                               \
      (const uint8_t *high, const uint8_t *low, size_t n_step, size_t scale_bytes, uint8_t *panel))          \
    X(f16_to_f32, EXACT, void, (const uint16_t *x, float *out, size_t n))                                    \
    X(bf16_to_f32, EXACT, void, (const uint16_t *x, float *out, size_t n))                                   \
    /* out[t * out_stride + r] += sum over c < k of w[c * 16 + r] * x[t * x_stride + c], in order of c, for  \
       r < n_row <= 16; w [k, 16] aligned to 64. Splitting k over several calls gives the same bits. */      \
    X(matmul_f32, BOUNDED, void,                                                                             \
      (const float *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok, size_t k, float *out,    \
       size_t out_stride))                                                                                   \
    /* Attention (Vaswani et al., 2017) over one block of PN_ATTN_KEYS keys of a KV head, for n_row queries: \
       the heads that share it, of one token or several. Keys lie transposed, so that both products are of   \
       one shape and a lane of a vector is a key, or an element of a value. `ahead`, where it is not NULL,   \
       is what a coming call reads, as many bytes as this one's keys or values: a hint to prefetch it.       \
       scores[r * PN_ATTN_KEYS + j] = sum over d in order of q[r * dim + d] * keys[d * PN_ATTN_KEYS + j]. */ \
    X(attn_scores_f16, BOUNDED, void,                                                                        \
      (const float *q, size_t n_row, const uint16_t *keys, size_t dim, float *scores, const void *ahead))    \
    X(attn_scores_f32, BOUNDED, void,                                                                        \
      (const float *q, size_t n_row, const float *keys, size_t dim, float *scores, const void *ahead))       \
    /* Running softmax in base 2 over the keys begin <= j < end (begin < end <= PN_ATTN_KEYS), per row: m is \
       the greatest of the scores, or max[r] unless that is passed by more than PN_ATTN_SLACK, so that what  \
       was summed so far rarely has to shrink; shrink[r] = 2^(max[r] - m), 0 from -infinity; each score      \
       becomes 2^(score - m), or 0 where that is below 2^-126; sum[r] = sum[r] * shrink[r] + their sum;      \
       max[r] = m. The other scores stay. */                                                                 \
    X(attn_softmax, BOUNDED, void,                                                                           \
      (float *scores, size_t n_row, size_t begin, size_t end, float *max, float *sum, float *shrink))        \
    /* acc[r * dim + d] += p[r * PN_ATTN_KEYS + j] * values[j * dim + d] for j < n_key <= PN_ATTN_KEYS in    \
       order, so that splitting the keys over several calls gives the same bits. */                          \
    X(attn_mix_f16, BOUNDED, void,                                                                           \
      (const float *p, size_t n_row, const uint16_t *values, size_t n_key, size_t dim, float *acc,           \
       const void *ahead))                                                                                   \
    X(attn_mix_f32, BOUNDED, void,                                                                           \
      (const float *p, size_t n_row, const float *values, size_t n_key, size_t dim, float *acc,              \
       const void *ahead))                                                                                   \
    /* The same over runs of codes of 8 or 4 bits (quant/kv_run.h), of keys [dim] rows and of values [dim /  \
       group] rows per key; dim has a group. Of values the keys begin <= j < begin + n_key take part, with   \
       the weights p[r * PN_ATTN_KEYS + j]. A row's result does not depend on how many rows there are. */    \
    X(attn_scores_coded, BOUNDED, void,                                                                      \
      (const float *q, size_t n_row, const void *run, int bits, size_t dim, float *scores,                   \
       const void *ahead))                                                                                   \
    X(attn_mix_coded, BOUNDED, void,                                                                         \
      (const float *p, size_t n_row, const void *run, int bits, size_t begin, size_t n_key, size_t dim,      \
       float *acc, const void *ahead))                                                                       \
    X(kv_pack, EXACT, void, (const uint16_t *x, pn_kv_run_shape shape, void *run)) /* pn_kv_run_pack */      \
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
    /* Rounding weights to integers, for compression: quant/integer.h, whose functions of these names they   \
       are. What round_codes returns is BOUNDED, as sums are; codes are EXACT. */                            \
    X(find_range, EXACT, void, (const float *x, size_t n, float range[2]))                                   \
    X(round_codes, BOUNDED, float,                                                                           \
      (pn_panel_kind kind, pn_integer_scale scale, const float *x, size_t n, uint8_t *codes))                \
    /* Reads n_stream >= 1 linear streams side by side, to measure bandwidth. Stream s is the s-th part of   \
       bytes / n_stream bytes, rounded down to whole units of 256; the few bytes after the last part are not \
       read. The result, the xor of all 8-byte words read, only keeps the compiler honest. */                \
    X(read_streams, EXACT, uint64_t, (const void *data, size_t bytes, int n_stream))                         \
    /* What the arithmetic of matmul_codes and few, or of matmul_f32, can do at best: n <= 4096 rounds of    \
       PN_PEAK_ROUND multiply-adds out of registers alone. Ones are multiplied, so that the sum returned is  \
       their number. */                                                                                      \
    X(peak_codes, EXACT, uint64_t, (size_t n))                                                               \
    X(peak_f32, EXACT, uint64_t, (size_t n))

/* Multiplies n_panel <= PN_FEW_PANELS packed panels with tokens first .. first + n_tok, n_tok <=
   PN_FEW_TOKENS: out [n_panel][n_tok][16], computed as matmul_codes does. EXACT. The panels are read in step,
   so that memory sees that many linear streams. */
typedef void (*pn_few_fn)(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,
                          const pn_inputs *inputs, size_t first, size_t n_tok, float *out);
/* Unpacks a panel into w, whose arrays are large enough; sets all other members. A scale that more than a
   step shares is repeated for every step. EXACT. */
typedef void (*pn_expand_fn)(const uint8_t *panel, pn_panel_shape shape, pn_codes *w);

typedef struct pn_kernels {
#define PN_KERNEL_FIELD(slot, class, ret, params) ret(*slot) params;
    PN_KERNEL_SLOTS(PN_KERNEL_FIELD)
#undef PN_KERNEL_FIELD
    pn_few_fn few[PN_PANEL_CODED_COUNT];
    pn_expand_fn expand[PN_PANEL_CODED_COUNT];
} pn_kernels;

/* Fills the table for a feature mask (pn_cpu_feature bits). Pure: the same mask gives the same table. */
void pn_kernels_init(pn_kernels *table, uint32_t features);
/* The least of these features with which every BOUNDED slot is the same, and so every bit that is computed: a
   name as pn_cpu_feature_name gives it. */
const char *pn_kernels_arithmetic(uint32_t features);
/* The table for this CPU and PN_CPU; built once. */
const pn_kernels *pn_kernels_host(void);
#endif
