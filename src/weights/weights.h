/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors by name, with their type and shape checked: what the decoder binds to. Matrices are packed into the
   form that the kernels read. */
#ifndef PN_WEIGHTS_WEIGHTS_H
#define PN_WEIGHTS_WEIGHTS_H

#include "base/pool.h"
#include "format/gguf.h"
#include "quant/panel.h"
#include "quant/split.h"

/* A matrix that maps n_col inputs to n_row outputs, in panels of PN_PANEL_ROWS rows. */
typedef struct pn_weight {
    const uint8_t *data; /* [n_panel, panel_bytes]; NULL for an optional tensor that is absent */
    pn_panel_kind kind;
    size_t n_row, n_col;
    size_t group; /* columns that share a scale where that is not a matter of the kind */
    size_t n_panel, panel_bytes;
    /* Of a matrix in two parts: data are its high part then, panel_bytes that part's. */
    pn_split split;
} pn_weight;

static inline pn_panel_shape pn_weight_shape(const pn_weight *weight) {
    return (pn_panel_shape){weight->n_col, weight->group};
}
/* The floats of one row. */
void pn_weight_decode_row(const pn_weight *weight, size_t row, float *dst);
/* Bytes in memory, padding and both parts included. */
uint64_t pn_weight_bytes(const pn_weight *weight);

typedef struct pn_weights pn_weights;

/* Opens the file(s) at path. The object owns the mapping and the packed matrices. */
pn_status pn_weights_open(const char *path, pn_weights **out, pn_error *err);
void pn_weights_close(pn_weights *w);
const pn_gguf *pn_weights_file(const pn_weights *w);

typedef enum pn_presence { PN_REQUIRED, PN_OPTIONAL } pn_presence;

/* The matrix `name` of n_row x n_col, once per name. n_row 0 accepts any number of rows. PN_ERR_FORMAT names
   tensor, expected and found shape; absent and optional: *out is all zero. Its data are there after
   pn_weights_pack. */
pn_status pn_weights_find_matrix(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                                 pn_presence presence, pn_weight *out, pn_error *err);
/* The same for an output head: a large one of 8 bits is taken apart (quant/split.h). */
pn_status pn_weights_find_head(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                               pn_presence presence, pn_weight *out, pn_error *err);
bool pn_weights_has(const pn_weights *w, const char *name);
/* The vector `name` of n values as floats, decoded when stored otherwise; lives as long as w. Absent and
 * optional: NULL. */
pn_status pn_weights_find_vector(pn_weights *w, const char *name, size_t n, pn_presence presence,
                                 const float **out, pn_error *err);

/* Refuses tensors that nobody asked for: a file with a part that is not understood must not run half. */
pn_status pn_weights_check_all_used(const pn_weights *w, pn_error *err);

/* Packs those matrices found so far that the file does not hold packed, in parallel, each giving back its
 * part of the mapping. */
void pn_weights_pack(pn_weights *w, pn_pool *pool);
/* The same for one matrix, where not all are needed at a time; unloading gives its memory back until it is
   loaded again. Of one that the file holds packed both do nothing. */
void pn_weights_load(pn_weights *w, const pn_weight *matrix, pn_pool *pool);
void pn_weights_unload(pn_weights *w, const pn_weight *matrix);

/* Bytes of all tensors in the file, of the packed matrices found, and of those that are packed here rather
   than by the file. */
uint64_t pn_weights_bytes(const pn_weights *w);
uint64_t pn_weights_matrix_bytes(const pn_weights *w);
uint64_t pn_weights_packed_bytes(const pn_weights *w);

#endif
