/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PN_OPS_MATMUL_H
#define PN_OPS_MATMUL_H

#include "ops/ops.h"

/* A worker's scratch for matrices of up to max_col columns. */
size_t pn_matmul_scratch_floats(size_t max_col);

#endif
