/* SPDX-License-Identifier: Apache-2.0 */
/* A matmul goes over panels of weights. For a few tokens the packed bytes are read as they are, several
   panels at a time so that memory sees several linear streams; for more, each panel is unpacked once and
   meets every token of the batch while it is in cache. The streams run through the whole matrix: panels are
   dealt in an order that takes one from each in turn, so that they go on from one range to the next. */
#include "ops/matmul.h"

#include "quant/split.h"

#include <string.h>

struct matmul {
    const pn_ops *ops;
    const pn_matmul_job *jobs;
    size_t n_jobs, n_tok;
    const float *x;   /* of meaning where some matrix is multiplied in float */
    pn_inputs inputs; /* where some is in integers */
};

static size_t panel_rows(const pn_weight *weight, size_t panel) {
    size_t left = weight->n_row - panel * PN_PANEL_ROWS;
    return left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
}

/* The panel that is dealt as the i-th. */
static size_t panel_dealt(const struct matmul *m, const pn_weight *weight, size_t i) {
    if (m->n_tok > PN_FEW_TOKENS) return i;
    size_t stream = i % PN_FEW_PANELS, longer = weight->n_panel % PN_FEW_PANELS;
    return stream * (weight->n_panel / PN_FEW_PANELS) + (stream < longer ? stream : longer) +
           i / PN_FEW_PANELS;
}

/* ---- where a panel's bytes are ---- */

/* Room in a worker's scratch for an unpacked panel, for FLOAT_COLUMNS columns of it as floats, and for one
   that had to be put together, with the scales of a step after each or those of a row at its end: each in
   floats for a matrix of n columns. */
#define FLOAT_COLUMNS      256
#define ROUNDED(n)         (((n) + 15) / 16 * 16)
#define UNPACKED_FLOATS(n) ROUNDED(6 * (n)) /* codes 4, scales and offsets 1 each at most */
#define JOINED_FLOATS(n)   ROUNDED((n) / PN_STEP * (544 / sizeof(float)) + 12)

size_t pn_matmul_scratch_floats(size_t max_col) {
    return UNPACKED_FLOATS(max_col) + FLOAT_COLUMNS * PN_PANEL_ROWS + JOINED_FLOATS(max_col);
}

const uint8_t *pn_matmul_join(const pn_kernels *kernels, const pn_weight *weight, size_t panel,
                              uint8_t *joined) {
    const size_t n_col = weight->n_col, n_step = n_col / PN_STEP;
    const uint8_t *high = weight->data + panel * weight->panel_bytes;
    const uint8_t *low = pn_split_low(&weight->split, panel, n_col);
    const bool apart = pn_panel_formats[weight->kind].apart;
    kernels->join_split(high, low, n_step, apart ? 0 : 2 * PN_PANEL_ROWS, joined);
    if (apart)
        pn_split_scales(weight->kind, &weight->split, high, panel, n_col,
                        joined + n_step * 2 * PN_SPLIT_CODES);
    return joined;
}

static const uint8_t *panel_data(const struct matmul *m, const pn_weight *weight, size_t panel,
                                 float *scratch) {
    const uint8_t *data = weight->data + panel * weight->panel_bytes;
    if (!weight->split.low) return data;
    scratch += UNPACKED_FLOATS(weight->n_col) + FLOAT_COLUMNS * PN_PANEL_ROWS;
    return pn_matmul_join(m->ops->kernels, weight, panel, (uint8_t *)scratch);
}

/* ---- a few tokens ---- */

static void few_panels(const struct matmul *m, const pn_matmul_job *job, const size_t *panels, size_t n_panel,
                       float *scratch) {
    const pn_weight *weight = job->weight;
    const uint8_t *data[PN_FEW_PANELS] = {0};
    float out[PN_FEW_PANELS * PN_FEW_TOKENS * PN_PANEL_ROWS];
    for (size_t p = 0; p < n_panel; p++)
        data[p] = panel_data(m, weight, panels[p], scratch);
    m->ops->kernels->few[weight->kind](data, n_panel, pn_weight_shape(weight), &m->inputs, 0, m->n_tok, out);
    for (size_t p = 0; p < n_panel; p++)
        for (size_t t = 0; t < m->n_tok; t++)
            memcpy(job->out + t * weight->n_row + panels[p] * PN_PANEL_ROWS,
                   out + (p * m->n_tok + t) * PN_PANEL_ROWS, panel_rows(weight, panels[p]) * sizeof *out);
}

/* Those that have to be put together come one by one: there is scratch for one. */
static void few_tokens(const struct matmul *m, const pn_matmul_job *job, size_t from, size_t to,
                       float *scratch) {
    const size_t most = job->weight->split.low ? 1 : PN_FEW_PANELS;
    for (size_t i = from, n; i < to; i += n) {
        size_t panels[PN_FEW_PANELS];
        for (n = 0; n < most && i + n < to; n++)
            panels[n] = panel_dealt(m, job->weight, i + n);
        few_panels(m, job, panels, n, scratch);
    }
}

/* ---- many tokens ---- */

static pn_codes expand(const struct matmul *m, const pn_weight *weight, size_t panel, float *scratch) {
    pn_codes codes = {.scale = scratch,
                      .offset = scratch + weight->n_col,
                      .codes = (int8_t *)(void *)(scratch + 2 * weight->n_col)};
    m->ops->kernels->expand[weight->kind](panel_data(m, weight, panel, scratch), pn_weight_shape(weight),
                                          &codes);
    return codes;
}

static void integer_panel(const struct matmul *m, const pn_matmul_job *job, size_t panel, size_t first,
                          size_t n_tok, float *scratch) {
    const size_t n_row = job->weight->n_row;
    pn_codes codes = expand(m, job->weight, panel, scratch);
    m->ops->kernels->matmul_codes(&codes, panel_rows(job->weight, panel), &m->inputs, first, n_tok,
                                  job->out + first * n_row + panel * PN_PANEL_ROWS, n_row);
}

/* Tokens whose integers stay in cache while panel after panel meets them; to unpack a panel again for the
   next ones costs little beside so many products. */
#define BLOCK_BYTES  ((size_t)512 << 10)
#define LEAST_TOKENS 32

static size_t tokens_of_block(const struct matmul *m) {
    size_t n = BLOCK_BYTES / (m->inputs.n_step * PN_STEP * (size_t)m->inputs.n_plane);
    return n < LEAST_TOKENS ? LEAST_TOKENS : n / LEAST_TOKENS * LEAST_TOKENS;
}

static void many_tokens(const struct matmul *m, const pn_matmul_job *job, size_t from, size_t to,
                        float *scratch) {
    const size_t block = tokens_of_block(m);
    for (size_t t = 0; t < m->n_tok; t += block)
        for (size_t panel = from; panel < to; panel++)
            integer_panel(m, job, panel, t, m->n_tok - t < block ? m->n_tok - t : block, scratch);
}

/* n columns from `column` on as floats: [n][16], in scratch or where they lie. */
static const float *float_columns(const struct matmul *m, const pn_weight *weight, size_t panel,
                                  const pn_codes *codes, size_t column, size_t n, float *scratch) {
    const pn_kernels *kernels = m->ops->kernels;
    const uint8_t *data = weight->data + panel * weight->panel_bytes;
    size_t at = column * PN_PANEL_ROWS;
    const uint16_t *halves = (const uint16_t *)(const void *)data + at;
    switch (weight->kind) {
    case PN_PANEL_F32:
        return (const float *)(const void *)data + at;
    case PN_PANEL_F16:
        kernels->f16_to_f32(halves, scratch, n * PN_PANEL_ROWS);
        break;
    case PN_PANEL_BF16:
        kernels->bf16_to_f32(halves, scratch, n * PN_PANEL_ROWS);
        break;
    default:
        kernels->codes_to_f32(codes, column / PN_STEP, n / PN_STEP, scratch);
        break;
    }
    return scratch;
}

static void float_panel(const struct matmul *m, const pn_matmul_job *job, size_t panel, float *scratch) {
    const pn_weight *weight = job->weight;
    size_t n_row = panel_rows(weight, panel), n_col = weight->n_col;
    float *out = job->out + panel * PN_PANEL_ROWS;
    pn_codes codes = {0};
    if (weight->kind < PN_PANEL_CODED_COUNT) codes = expand(m, weight, panel, scratch);
    for (size_t t = 0; t < m->n_tok; t++)
        memset(out + t * weight->n_row, 0, n_row * sizeof *out);
    for (size_t c = 0; c < n_col; c += FLOAT_COLUMNS) {
        size_t n = n_col - c < FLOAT_COLUMNS ? n_col - c : FLOAT_COLUMNS;
        const float *w = float_columns(m, weight, panel, &codes, c, n, scratch + UNPACKED_FLOATS(n_col));
        m->ops->kernels->matmul_f32(w, n_row, m->x + c, n_col, m->n_tok, n, out, weight->n_row);
    }
}

/* ---- dealing ---- */

static bool in_integers(const struct matmul *m, const pn_weight *weight) {
    return m->ops->inputs && weight->kind < PN_PANEL_CODED_COUNT;
}

static void add_bias(const struct matmul *m, const pn_matmul_job *job, size_t panel) {
    size_t row = panel * PN_PANEL_ROWS, n = panel_rows(job->weight, panel);
    for (size_t t = 0; t < m->n_tok; t++)
        m->ops->kernels->add_f32(job->out + t * job->weight->n_row + row, job->bias + row, n);
}

static void do_job(const struct matmul *m, const pn_matmul_job *job, size_t from, size_t to, float *scratch) {
    const pn_weight *weight = job->weight;
    if (in_integers(m, weight) && m->n_tok <= PN_FEW_TOKENS)
        few_tokens(m, job, from, to, scratch);
    else if (in_integers(m, weight))
        many_tokens(m, job, from, to, scratch);
    else
        for (size_t i = from; i < to; i++)
            float_panel(m, job, panel_dealt(m, weight, i), scratch);
    for (size_t i = from; job->bias && i < to; i++)
        add_bias(m, job, panel_dealt(m, weight, i));
}

/* The unit of dealing is a cache line of weights; panels that are read side by side belong to whom the first
   line is dealt. */
static size_t panel_lines(const pn_weight *weight) {
    return (weight->panel_bytes + 63) / 64;
}

static size_t panels_before(const struct matmul *m, const pn_weight *weight, size_t first, size_t line) {
    if (line <= first) return 0;
    size_t side_by_side = m->n_tok <= PN_FEW_TOKENS ? PN_FEW_PANELS : 1,
           lines = side_by_side * panel_lines(weight);
    size_t n = (line - first + lines - 1) / lines * side_by_side;
    return n < weight->n_panel ? n : weight->n_panel;
}

/* Lines that are worth handing to another worker: most of a microsecond for one token. */
#define GRAIN 256

static void do_lines(void *arg, size_t begin, size_t end, int worker) {
    const struct matmul *m = arg;
    float *scratch = m->ops->scratch + (size_t)worker * m->ops->scratch_stride;
    size_t first = 0; /* the current job's first line */
    for (size_t j = 0; j < m->n_jobs; j++) {
        const pn_weight *weight = m->jobs[j].weight;
        do_job(m, &m->jobs[j], panels_before(m, weight, first, begin), panels_before(m, weight, first, end),
               scratch);
        first += weight->n_panel * panel_lines(weight);
    }
}

/* What making the input is charged to. */
static pn_op op_of(const pn_matmul_input *input) {
    if (input->norm) return PN_OP_NORM;
    return input->up ? PN_OP_ACTIVATION : PN_OP_QUANTISE;
}

bool pn_ops_matmul(const pn_ops *ops, const pn_matmul_job *jobs, size_t n_jobs, const pn_matmul_input *input,
                   size_t n_tok) {
    struct matmul m = {.ops = ops, .jobs = jobs, .n_jobs = n_jobs, .n_tok = n_tok};
    size_t lines = 0, n_col = jobs[0].weight->n_col;
    bool integers = false, floats = false;
    for (size_t j = 0; j < n_jobs; j++) {
        integers = integers || in_integers(&m, jobs[j].weight);
        floats = floats || !in_integers(&m, jobs[j].weight);
        lines += jobs[j].weight->n_panel * panel_lines(jobs[j].weight);
    }
    if (integers) {
        m.inputs = *ops->inputs;
        m.inputs.n_step = n_col / PN_STEP;
    }
    floats = floats || ops->watch;
    m.x = pn_matmul_make_rows(ops, input, n_col, n_tok, integers ? &m.inputs : NULL, floats);
    if (ops->watch && !ops->watch->fn(ops->watch->user, jobs[0].weight, m.x, n_col, n_tok)) return false;
    if (integers || input->norm || input->up) pn_profile_lap(ops->profile, op_of(input));
    pn_ops_run(ops, do_lines, &m, lines, n_tok <= PN_FEW_TOKENS ? GRAIN : 1);
    return true;
}
