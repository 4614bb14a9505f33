/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding with feedback: what rounding a column loses is made up for in the columns that follow, as far as
   the inputs of both go together. The order of columns is the matrix's own. GPTQ (Frantar et al., 2023) in
   the form of LDLQ (Chee et al., "QuIP", 2023), which takes one factoring and no inverse. */
#ifndef PN_COMPRESS_FEEDBACK_H
#define PN_COMPRESS_FEEDBACK_H

#include "compress/gram.h"
#include "quant/integer.h"

/* Room for one panel of 16 rows; codes and scales are results. */
typedef struct pn_feedback_room {
    float *weights;           /* [n_col][16] */
    float *errors;            /* [n_col][16] */
    float *wanted;            /* [n_col][16] */
    uint8_t *codes;           /* [16][n_col] */
    pn_integer_scale *scales; /* [16][n_col / group] */
} pn_feedback_room;

/* Bytes of all parts for matrices of up to max_col columns; and laying them out in memory aligned to 64. */
size_t pn_feedback_room_bytes(size_t max_col);
pn_feedback_room pn_feedback_room_in(void *memory, size_t max_col);

/* Rounds room->weights, whose inputs have the factors `gram` (pn_gram_factor), into room->codes and scales.
   All weights are finite. Returns the sum over the rows of e^T H e, H with its damping. */
double pn_feedback_round(const pn_gram *gram, const pn_kernels *kernels, pn_panel_kind kind,
                         pn_panel_shape shape, const pn_feedback_room *room);

/* The sum over the rows of w^T H w for room->weights. */
double pn_feedback_energy(const pn_gram *gram, const pn_kernels *kernels, const pn_feedback_room *room);

#endif
