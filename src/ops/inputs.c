/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

#include "base/mem.h"

int pn_ops_planes(pn_precision precision) {
    switch (precision) {
    case PN_PRECISION_EXACT:
        return 0;
    case PN_PRECISION_FAST:
        return 1;
    default:
        return 2;
    }
}

/* Bytes per step of 32 columns: the codes, and five numbers of four bytes. */
static size_t step_bytes(int n_plane) {
    return (size_t)n_plane * PN_STEP + 5 * sizeof(float);
}

bool pn_ops_inputs_bytes(int n_plane, size_t max_col, size_t n_tok, uint64_t *bytes) {
    if (n_plane == 0) {
        *bytes = 0;
        return true;
    }
    uint64_t steps = max_col / PN_STEP + (max_col % PN_STEP != 0);
    return pn_mul_u64(steps, n_tok, &steps) && pn_mul_u64(steps, step_bytes(n_plane), bytes);
}

pn_inputs pn_ops_inputs(int n_plane, size_t max_col, size_t n_tok, void *memory) {
    size_t steps = (max_col + PN_STEP - 1) / PN_STEP * n_tok;
    int8_t *codes = memory;
    float *numbers = (float *)(void *)(codes + (size_t)n_plane * PN_STEP * steps);
    return (pn_inputs){.n_plane = n_plane,
                       .codes = codes,
                       .scale = numbers,
                       .sum = numbers + steps,
                       .bias = (int32_t *)(void *)(numbers + 2 * steps),
                       .half = (int32_t *)(void *)(numbers + 3 * steps)};
}
