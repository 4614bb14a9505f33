/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PN_OPS_MATMUL_H
#define PN_OPS_MATMUL_H

#include "ops/ops.h"

/* Makes the rows of an input of n_col columns, and quantises them into `integers` (may be NULL), as
   pn_ops_inputs laid it out. Returns them in float, for which `floats` has to be true. */
const float *pn_matmul_make_rows(const pn_ops *ops, const pn_matmul_input *input, size_t n_col, size_t n_tok,
                                 const pn_inputs *integers, bool floats);

/* A panel of a matrix in two parts as one of weight->kind, put together at `joined`. */
const uint8_t *pn_matmul_join(const pn_kernels *kernels, const pn_weight *weight, size_t panel,
                              uint8_t *joined);

/* A worker's scratch for matrices of up to max_col columns. */
size_t pn_matmul_scratch_floats(size_t max_col);

#endif
