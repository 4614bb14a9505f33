/* SPDX-License-Identifier: Apache-2.0 */
/* When a timeline has to do with less memory than its text takes: its full blocks are packed again, to fewer
 * bits. */
#ifndef PN_KV_STEP_DOWN_H
#define PN_KV_STEP_DOWN_H

#include "kv/kv.h"

/* The next type of fewer bits: F16, Q8, Q4; the same where there is none. */
pn_kv_type pn_kv_next_type(pn_kv_type type, size_t head_dim);
/* Bytes that the timeline will hold once there is room for n tokens. */
uint64_t pn_kv_bytes_for(const pn_kv *kv, size_t n);
/* Packs the full blocks to the next type, which those to come will have as well. They are this timeline's
   alone then: no other takes them over. False when there is no such type, or no memory for the first block;
   *n_tokens is what lies in blocks that were packed. */
bool pn_kv_step_down(pn_kv *kv, const pn_kernels *kernels, size_t *n_tokens);

#endif
