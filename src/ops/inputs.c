/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/matmul.h"

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

/* ---- making ---- */

#define STAGED_FLOATS 4096 /* made at a time where they are not kept: as much as stays in L1 */

struct making {
    const pn_ops *ops;
    const pn_matmul_input *input;
    size_t n_col;
    const pn_inputs *integers;
    bool floats;
};

static bool is_made(const pn_matmul_input *input) {
    return input->norm || input->up;
}

static void make_row(const struct making *m, size_t token, float *row) {
    const pn_kernels *kernels = m->ops->kernels;
    const pn_matmul_input *input = m->input;
    const float *x = input->x + token * m->n_col;
    if (input->norm)
        kernels->rms_norm_f32(x, input->norm, input->norm_eps, m->n_col, row);
    else if (input->activation == PN_ACTIVATION_SILU)
        kernels->silu_mul_f32(x, input->up + token * m->n_col, m->n_col, row);
    else
        kernels->gelu_mul_f32(x, input->up + token * m->n_col, m->n_col, row);
}

static void make_rows(void *arg, size_t begin, size_t end, int worker) {
    const struct making *m = arg;
    float *staged = m->ops->scratch + (size_t)worker * m->ops->scratch_stride;
    size_t most = m->n_col < STAGED_FLOATS ? STAGED_FLOATS / m->n_col : 1;
    for (size_t t = begin, n; t < end; t += n) {
        n = end - t < most ? end - t : most;
        const float *rows = m->input->x + t * m->n_col;
        if (is_made(m->input)) {
            float *made = m->floats ? m->input->rows + t * m->n_col : staged;
            for (size_t i = 0; i < n; i++)
                make_row(m, t + i, made + i * m->n_col);
            rows = made;
        }
        if (m->integers) m->ops->kernels->quantise(rows, t, n, m->integers);
    }
}

const float *pn_matmul_make_rows(const pn_ops *ops, const pn_matmul_input *input, size_t n_col, size_t n_tok,
                                 const pn_inputs *integers, bool floats) {
    struct making m = {.ops = ops, .input = input, .n_col = n_col, .integers = integers, .floats = floats};
    if (is_made(input) || integers) pn_ops_run(ops, make_rows, &m, n_tok, PN_FEW_TOKENS);
    return is_made(input) ? input->rows : input->x;
}
