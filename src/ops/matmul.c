/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

struct matmul {
    const pn_ops *ops;
    const pn_matmul_job *jobs;
    size_t n_jobs, n_tok;
    const float *x;
};

static size_t n_panels(const pn_weight *weight) {
    return (weight->n_row + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS;
}

static size_t panel_rows(const pn_weight *weight, size_t panel) {
    size_t row = panel * PN_PANEL_ROWS, left = weight->n_row > row ? weight->n_row - row : 0;
    return left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
}

static void add_bias(const pn_matmul_job *job, size_t row, size_t n_row, size_t n_tok) {
    for (size_t t = 0; t < n_tok; t++)
        for (size_t r = row; r < row + n_row; r++)
            job->out[t * job->weight->n_row + r] += job->bias[r];
}

/* Asks for the bytes of the next panel while this one is multiplied: a single linear stream with pauses in it
   does not keep the core's own prefetchers ahead. */
static void prefetch_panel(const pn_weight *weight, size_t panel) {
    const uint8_t *src = weight->data + panel * PN_PANEL_ROWS * weight->row_bytes;
    for (size_t i = 0; i < panel_rows(weight, panel) * weight->row_bytes; i += 64)
        __builtin_prefetch(src + i, 0, 2);
}

/* One panel: decode its rows (floats are used where they lie) and multiply them with every token. */
static void do_panel(const struct matmul *m, const pn_matmul_job *job, size_t panel, float *scratch) {
    const pn_kernels *kernels = m->ops->kernels;
    const pn_weight *weight = job->weight;
    size_t row = panel * PN_PANEL_ROWS, n_row = panel_rows(weight, panel), n_col = weight->n_col;
    const uint8_t *src = weight->data + row * weight->row_bytes;
    const float *rows = scratch;
    if (m->n_tok == 1) prefetch_panel(weight, panel + 1);
    if (weight->type->id == PN_QTYPE_F32) {
        rows = (const float *)(const void *)src;
    } else {
        void (*decode)(const void *, float *, size_t) = pn_kernels_decoder(kernels, weight->type);
        for (size_t r = 0; r < n_row; r++)
            decode(src + r * weight->row_bytes, scratch + r * n_col, n_col);
    }
    kernels->matmul_f32(rows, n_col, n_row, m->x, n_col, m->n_tok, n_col, job->out + row, weight->n_row);
    if (job->bias) add_bias(job, row, n_row, m->n_tok);
}

static void do_panels(void *arg, size_t begin, size_t end, int worker) {
    const struct matmul *m = arg;
    float *scratch = m->ops->scratch + (size_t)worker * m->ops->scratch_stride;
    size_t first = 0; /* number of the current job's first panel */
    for (size_t j = 0; j < m->n_jobs && first < end; j++) {
        size_t n = n_panels(m->jobs[j].weight);
        size_t from = begin > first ? begin - first : 0, to = end - first < n ? end - first : n;
        for (size_t panel = from; panel < to; panel++)
            do_panel(m, &m->jobs[j], panel, scratch);
        first += n;
    }
}

void pn_ops_matmul(const pn_ops *ops, const pn_matmul_job *jobs, size_t n_jobs, const float *x,
                   size_t n_tok) {
    struct matmul m = {.ops = ops, .jobs = jobs, .n_jobs = n_jobs, .n_tok = n_tok, .x = x};
    size_t total = 0;
    for (size_t j = 0; j < n_jobs; j++)
        total += n_panels(jobs[j].weight);
    pn_pool_run(ops->pool, do_panels, &m, total, 1);
}
