/* SPDX-License-Identifier: Apache-2.0 */
/* One matrix of float weights rounded to integers, panel by panel, by all workers. */
#ifndef PN_COMPRESS_MATRIX_H
#define PN_COMPRESS_MATRIX_H

#include "compress/gram.h"
#include "format/gguf.h"
#include "quant/panel.h"

typedef struct pn_rounder pn_rounder;

/* Working memory for matrices of up to max_col columns; the pool is borrowed. */
pn_status pn_rounder_create(pn_pool *pool, size_t max_col, pn_rounder **out, pn_error *err);
void pn_rounder_free(pn_rounder *rounder); /* NULL is fine */

/* What rounding loses. */
typedef struct pn_rounding_error {
    double weights; /* the squared length of what was lost over that of the matrix; 0 for zeros */
    double outputs; /* the same of what the matrix makes of its inputs, where they are known */
} pn_rounding_error;

/* Rounds a matrix of floats to kind, with a scale per `group` columns (0: per row): each weight to the
   nearest code, or, with the factors of its inputs (else NULL), by compress/feedback.h. packed, of
   pn_qtype_bytes of the packed type, gets the panels; NULL: only the error is wanted. PN_ERR_NUMERIC names
   the tensor and row of a weight that is no number, or too large for the scales. */
pn_status pn_round_matrix(pn_rounder *rounder, const pn_gguf_tensor *tensor, pn_panel_kind kind, size_t group,
                          const pn_gram *inputs, uint8_t *packed, pn_rounding_error *error, pn_error *err);

#endif
