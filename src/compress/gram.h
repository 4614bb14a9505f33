/* SPDX-License-Identifier: Apache-2.0 */
/* The second moment of a matrix's inputs, H = sum of x x^T over calibration tokens, which weighs the errors
   of its weights: a change e of a row changes its outputs by e^T H e, squared and summed. And its factors,
   which rounding with feedback of errors takes (compress/feedback.h). */
#ifndef PN_COMPRESS_GRAM_H
#define PN_COMPRESS_GRAM_H

#include "base/pool.h"
#include "kernels/kernels.h"

#include "base/status.h"

typedef struct pn_gram {
    size_t n;      /* columns of the matrix */
    size_t stride; /* floats from row to row of h: n in whole panels of 16 */
    size_t max_n;  /* columns that there is room for */
    float *h;      /* [stride, stride]; the lower triangle counts */
    float *turned; /* [stride, PN_GRAM_TOKENS] room to turn inputs in */
    float *d;      /* [n] once factored: D */
} pn_gram;

#define PN_GRAM_TOKENS 256

/* Room for matrices of up to max_n columns. */
pn_status pn_gram_create(size_t max_n, pn_gram *out, pn_error *err);
uint64_t pn_gram_bytes(size_t max_n);
void pn_gram_free(pn_gram *gram);
/* All zero, for n <= max_n columns. */
void pn_gram_begin(pn_gram *gram, size_t n);

/* Adds the inputs x [n_tok, n] of more tokens. The bits do not depend on the number of threads. */
void pn_gram_add(pn_gram *gram, const pn_kernels *kernels, pn_pool *pool, const float *x, size_t n_tok);

/* Replaces H by its factors: H + damping * mean of the diagonal = U D U^T, U having ones on its diagonal and
   zeros below. h[k][i], i < k, becomes U[i][k], and D goes to d. Inputs that were always zero are
   independent of all others. PN_ERR_NUMERIC when H is not positive even so. */
pn_status pn_gram_factor(pn_gram *gram, const pn_kernels *kernels, pn_pool *pool, double damping,
                         pn_error *err);

#endif
