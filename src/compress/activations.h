/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the inputs of the matrices that share them: how they go together, for those who round; and
   some rows as they are, by which what was rounded is judged, and which rounding has not seen. */
#ifndef PN_COMPRESS_ACTIVATIONS_H
#define PN_COMPRESS_ACTIVATIONS_H

#include "compress/gram.h"

typedef struct pn_activations {
    pn_gram gram;
    float *mean_square; /* [n] of each column */
    size_t n_tok;       /* summed */
    float *heldout;     /* [n_heldout, n] */
    size_t n_heldout, max_heldout;
} pn_activations;

/* Room for up to max_n columns and max_heldout rows to judge by. */
pn_status pn_activations_create(size_t max_n, size_t max_heldout, pn_activations *out, pn_error *err);
uint64_t pn_activations_bytes(size_t max_n, size_t max_heldout);
void pn_activations_free(pn_activations *a); /* all zero is fine */

/* None yet, of n columns. */
void pn_activations_begin(pn_activations *a, size_t n);
/* Adds x [n_tok, n] to what is summed; or keeps it to judge by, as far as there is room. */
void pn_activations_add(pn_activations *a, const pn_kernels *kernels, pn_pool *pool, const float *x,
                        size_t n_tok);
void pn_activations_keep(pn_activations *a, const float *x, size_t n_tok);
/* After the last: mean squares and the factors of the moments. The errors of pn_gram_factor. */
pn_status pn_activations_finish(pn_activations *a, const pn_kernels *kernels, pn_pool *pool, pn_error *err);

#endif
