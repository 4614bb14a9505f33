/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors by name, with their type and shape checked: what the decoder binds to. The bytes stay mapped. */
#ifndef PN_WEIGHTS_WEIGHTS_H
#define PN_WEIGHTS_WEIGHTS_H

#include "format/gguf.h"
#include "quant/qtype.h"

/* A matrix that maps n_col inputs to n_row outputs: row r holds n_col weights of one type. */
typedef struct pn_weight {
    const uint8_t *data; /* [n_row, row_bytes], mapped; NULL for an optional tensor that is absent */
    const pn_qtype *type;
    size_t n_row, n_col, row_bytes;
} pn_weight;

typedef struct pn_weights pn_weights;

/* Opens the file(s) at path. The object owns the mapping. */
pn_status pn_weights_open(const char *path, pn_weights **out, pn_error *err);
void pn_weights_close(pn_weights *w);
const pn_gguf *pn_weights_file(const pn_weights *w);

typedef enum pn_presence { PN_REQUIRED, PN_OPTIONAL } pn_presence;

/* The matrix `name` of n_row x n_col. n_row 0 accepts any number of rows. PN_ERR_FORMAT names tensor,
   expected and found shape; absent and optional: *out is all zero. */
pn_status pn_weights_find_matrix(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                                 pn_presence presence, pn_weight *out, pn_error *err);
/* The vector `name` of n values as floats, decoded when stored otherwise; lives as long as w. Absent and
 * optional: NULL. */
pn_status pn_weights_find_vector(pn_weights *w, const char *name, size_t n, pn_presence presence,
                                 const float **out, pn_error *err);

/* Refuses tensors that nobody asked for: a file with a part that is not understood must not run half. */
pn_status pn_weights_check_all_used(const pn_weights *w, pn_error *err);

/* Bytes of all tensors in the file. */
uint64_t pn_weights_bytes(const pn_weights *w);

#endif
