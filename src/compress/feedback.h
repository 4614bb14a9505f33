/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding column by column, sixteen rows at a time. With feedback what rounding a column loses is made up
   for in the columns that follow, as far as the inputs of both go together. The order of columns is the
   matrix's own. GPTQ (Frantar et al., 2023) in the form of LDLQ (Chee et al., "QuIP", 2023), which takes one
   factoring and no inverse. */
#ifndef PN_COMPRESS_FEEDBACK_H
#define PN_COMPRESS_FEEDBACK_H

#include "compress/fit.h"
#include "compress/gram.h"

/* Room for one panel of 16 rows; all but the weights are results. */
typedef struct pn_feedback_room {
    float *weights;           /* [n_col][16] */
    float *errors;            /* [n_col][16] the weights less what they were rounded to */
    float *wanted;            /* [n_col][16] */
    float *stretched;         /* [n_col][16] */
    float *counts;            /* [n_col] */
    uint8_t *codes;           /* [16][n_col] */
    pn_integer_scale *scales; /* [16][n_col / group] */
} pn_feedback_room;

/* Bytes of all parts for matrices of up to max_col columns; and laying them out in memory aligned to 64. */
size_t pn_feedback_room_bytes(size_t max_col);
pn_feedback_room pn_feedback_room_in(void *memory, size_t max_col);

typedef struct pn_column_rounding {
    pn_panel_kind kind;
    pn_panel_shape shape;
    pn_fit_search search;
    const pn_gram *gram;  /* factors of the inputs' moments (pn_gram_factor); NULL: no feedback, */
    const float *weight;  /* and then how much errors count, [n_col] */
    const float *stretch; /* [n_col] what columns are multiplied with to be rounded, and their inputs will be
                             divided by; NULL: nothing */
} pn_column_rounding;

/* Rounds room->weights, which are finite. */
void pn_feedback_round(const pn_kernels *kernels, const pn_column_rounding *how,
                       const pn_feedback_room *room);

#endif
