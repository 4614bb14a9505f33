/* SPDX-License-Identifier: Apache-2.0 */
/* One matrix of float weights rounded to integers, panel by panel, by all workers. */
#ifndef PN_COMPRESS_MATRIX_H
#define PN_COMPRESS_MATRIX_H

#include "compress/activations.h"
#include "compress/fit.h"
#include "format/gguf.h"

typedef struct pn_rounder pn_rounder;

/* Working memory for matrices of up to max_col columns, judged by up to max_heldout rows of inputs; the pool
   is borrowed. */
pn_status pn_rounder_create(pn_pool *pool, size_t max_col, size_t max_heldout, pn_rounder **out,
                            pn_error *err);
uint64_t pn_rounder_bytes(const pn_pool *pool, size_t max_col, size_t max_heldout);
void pn_rounder_free(pn_rounder *rounder); /* NULL is fine */

/* Something for one worker to do while the others round the next matrix, once, such as writing the last one.
 */
void pn_rounder_meanwhile(pn_rounder *rounder, void (*fn)(void *user), void *user);

/* How a matrix is rounded: all zero but for kind and group, each weight to the nearest code of the scale that
   the range of its group gives. */
typedef struct pn_rounding {
    pn_panel_kind kind;
    size_t group; /* columns that share a scale; 0: all of a row */
    bool split;   /* packed in two parts (quant/split.h) */
    size_t every; /* only one in so many panels, for a loss that is about right; 0: all */
    /* What is known of the inputs, or NULL. */
    const pn_activations *inputs;
    const float *mean_square; /* [n_col] of the inputs: their own, or where nothing else is known */
    /* What that is used for; none without mean_square. */
    bool scales;          /* fitted (compress/fit.h), */
    bool zeros;           /* zero points too; */
    bool feedback;        /* of errors (compress/feedback.h): needs inputs */
    const float *stretch; /* [n_col] of columns, or NULL (compress/feedback.h) */
} pn_rounding;

/* What rounding loses. */
typedef struct pn_rounding_loss {
    double weights, all_weights; /* squared lengths of the error and of the matrix */
    double weighed;              /* that of the error, columns counting by mean_square */
    double outputs;              /* that of the error of what the matrix makes of inputs->heldout, */
    double all_outputs;          /* and of what it makes of it; 0 unless asked for */
} pn_rounding_loss;

/* packed, of pn_qtype_bytes of the packed type, gets the panels; NULL: only the loss is wanted.
   PN_ERR_NUMERIC names the tensor and row of a weight that is no number, or too large for the scales. */
pn_status pn_round_matrix(pn_rounder *rounder, const pn_gguf_tensor *tensor, const pn_rounding *how,
                          bool all_outputs, uint8_t *packed, pn_rounding_loss *loss, pn_error *err);

/* The squared length of part over that of all; 0 where there is nothing. */
static inline double pn_loss_share(double part, double all) {
    return all > 0 ? part / all : 0;
}

#endif
