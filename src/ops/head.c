/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

#include "quant/split.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* A row that may be among the greatest, by the high part alone. */
struct candidate {
    float logit;
    size_t row;
};

struct head {
    const pn_ops *ops;
    const pn_weight *weight;
    float *logits;
    pn_inputs inputs;
    float unit_error; /* what is allowed for, per length of residual */
    pn_top top;
    struct candidate best[PN_HEAD_TOP_MAX]; /* least first; computed in full first */
    float threshold;                        /* no logit below it can be among the greatest */
    size_t max_panels;
    atomic_size_t n_panels; /* computed in full */
    atomic_bool failed;     /* too many, or one of them was too far off */
};

static size_t panel_rows(const pn_weight *weight, size_t panel) {
    size_t left = weight->n_row - panel * PN_PANEL_ROWS;
    return left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
}

/* ---- the greatest that a worker has seen: the least of them first ---- */

/* Of two that are equal the first row, so that it does not matter who saw which. */
static bool is_less(struct candidate a, struct candidate b) {
    return a.logit < b.logit || (a.logit == b.logit && a.row > b.row);
}

static void keep_greatest(struct candidate *least_first, size_t n, struct candidate c) {
    if (!is_less(least_first[0], c)) return;
    size_t i = 1;
    for (; i < n && is_less(least_first[i], c); i++)
        least_first[i - 1] = least_first[i];
    least_first[i - 1] = c;
}

static void keep_none(struct candidate *least_first, size_t n) {
    for (size_t i = 0; i < n; i++)
        least_first[i] = (struct candidate){-INFINITY, SIZE_MAX};
}

static struct candidate *seen_by(const struct head *h, int worker) {
    return (struct candidate *)(void *)(h->ops->scratch + (size_t)worker * h->ops->scratch_stride);
}

/* ---- first pass: the high part of all rows ---- */

static void take_panel(const struct head *h, size_t panel, const float *sixteenths, struct candidate *seen) {
    size_t row = panel * PN_PANEL_ROWS;
    for (size_t r = 0; r < panel_rows(h->weight, panel); r++) {
        float logit = 16 * sixteenths[r];
        h->logits[row + r] = logit;
        keep_greatest(seen, h->top.n, (struct candidate){logit, row + r});
    }
}

static void first_pass(void *arg, size_t begin, size_t end, int worker) {
    const struct head *h = arg;
    size_t n = end - begin, longest = (n + PN_FEW_PANELS - 1) / PN_FEW_PANELS;
    for (size_t i = 0; i < longest; i++) { /* as many long runs side by side */
        const uint8_t *data[PN_FEW_PANELS] = {0};
        size_t panels[PN_FEW_PANELS], n_panel = 0;
        float out[PN_FEW_PANELS * PN_PANEL_ROWS];
        for (size_t s = 0; s < PN_FEW_PANELS; s++) {
            size_t panel = begin + n * s / PN_FEW_PANELS + i;
            if (panel >= begin + n * (s + 1) / PN_FEW_PANELS) continue;
            panels[n_panel] = panel;
            data[n_panel++] = h->weight->data + panel * h->weight->panel_bytes;
        }
        h->ops->kernels->few[PN_PANEL_Q4_1](data, n_panel, pn_weight_shape(h->weight), &h->inputs, 0, 1, out);
        for (size_t p = 0; p < n_panel; p++)
            take_panel(h, panels[p], out + p * PN_PANEL_ROWS, seen_by(h, worker));
    }
}

/* ---- second pass: in full where it may matter ---- */

static bool may_matter(const struct head *h, size_t panel) {
    const float *logits = h->logits + panel * PN_PANEL_ROWS,
                *residual = h->weight->residual + panel * PN_PANEL_ROWS;
    bool any = false; /* a NaN matters */
    for (size_t r = 0; r < panel_rows(h->weight, panel); r++)
        any |= !(logits[r] + h->unit_error * residual[r] < h->threshold);
    return any;
}

static uint8_t *joined_by(const struct head *h, int worker) {
    return (uint8_t *)seen_by(h, worker);
}

static void compute_panel(struct head *h, size_t panel, uint8_t *joined) {
    const pn_kernels *kernels = h->ops->kernels;
    const pn_weight *w = h->weight;
    const size_t row = panel * PN_PANEL_ROWS;
    float out[PN_PANEL_ROWS];
    const uint8_t *whole = joined;
    kernels->join_split(w->data + panel * w->panel_bytes,
                        w->low + panel * (w->n_col / PN_STEP) * PN_SPLIT_LOW_BYTES, w->n_col, joined);
    kernels->few[PN_PANEL_Q8_0](&whole, 1, pn_weight_shape(w), &h->inputs, 0, 1, out);
    for (size_t r = 0; r < panel_rows(w, panel); r++) {
        float error = fabsf(out[r] - h->logits[row + r]);
        if (!(error <= 0.75f * h->unit_error * w->residual[row + r] + 1e-5f * fabsf(out[r])))
            atomic_store(&h->failed, true);
        h->logits[row + r] = out[r];
    }
    if (atomic_fetch_add(&h->n_panels, 1) >= h->max_panels) atomic_store(&h->failed, true);
}

/* Whether a candidate from the i-th on stands in the panel. */
static bool is_best(const struct head *h, size_t i, size_t panel) {
    for (; i < h->top.n; i++)
        if (h->best[i].row / PN_PANEL_ROWS == panel) return true;
    return false;
}

static void best_panels(void *arg, size_t begin, size_t end, int worker) {
    struct head *h = arg;
    for (size_t i = begin; i < end; i++) {
        size_t panel = h->best[i].row / PN_PANEL_ROWS;
        if (panel < h->weight->n_panel && !is_best(h, i + 1, panel) && may_matter(h, panel))
            compute_panel(h, panel, joined_by(h, worker));
    }
}

static void other_panels(void *arg, size_t begin, size_t end, int worker) {
    struct head *h = arg;
    for (size_t panel = begin; panel < end; panel++) {
        if (atomic_load_explicit(&h->failed, memory_order_relaxed)) return;
        if (may_matter(h, panel) && !is_best(h, 0, panel)) compute_panel(h, panel, joined_by(h, worker));
    }
}

/* ---- all ---- */

static float length_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)sqrt(sum);
}

static void forget_seen(const struct head *h) {
    for (int worker = 0; worker < pn_pool_threads(h->ops->pool); worker++)
        keep_none(seen_by(h, worker), h->top.n);
}

static void gather_seen(struct head *h) {
    keep_none(h->best, h->top.n);
    for (int worker = 0; worker < pn_pool_threads(h->ops->pool); worker++)
        for (size_t i = 0; i < h->top.n; i++)
            keep_greatest(h->best, h->top.n, seen_by(h, worker)[i]);
}

/* The best candidates in full give bounds that their high parts could not: first the greatest of them, then
   as many as are wanted, where one that was left out is below the bound already. */
static void raise_threshold(struct head *h) {
    const size_t n = h->top.n;
    float greatest = -INFINITY, least = INFINITY;
    if (h->best[n - 1].row >= h->weight->n_row) return; /* no number among them */
    compute_panel(h, h->best[n - 1].row / PN_PANEL_ROWS, joined_by(h, 0));
    h->threshold = h->logits[h->best[n - 1].row] - h->top.margin;
    pn_ops_run(h->ops, best_panels, h, n - 1, 1);
    for (size_t i = 0; i < n; i++) {
        float logit = h->best[i].row < h->weight->n_row ? h->logits[h->best[i].row] : -INFINITY;
        greatest = fmaxf(greatest, logit);
        least = fminf(least, logit);
    }
    h->threshold = fmaxf(h->threshold, fmaxf(greatest - h->top.margin, least));
}

static bool in_two_parts(const pn_ops *ops, const pn_weight *weight, const float *x, pn_top top,
                         float *logits) {
    const size_t n = weight->n_col;
    struct head h = {.ops = ops,
                     .weight = weight,
                     .logits = logits,
                     .inputs = *ops->inputs,
                     .top = top,
                     .threshold = -INFINITY};
    h.inputs.n_step = n / PN_STEP;
    h.unit_error = PN_HEAD_SIGMAS * length_of(x, n) / sqrtf((float)n);
    h.max_panels = weight->n_panel / 8;
    ops->kernels->quantise(x, 0, 1, &h.inputs);
    forget_seen(&h);
    pn_ops_run(ops, first_pass, &h, weight->n_panel, 1);
    gather_seen(&h);
    raise_threshold(&h);
    pn_ops_run(ops, other_panels, &h, weight->n_panel, 1);
    return !atomic_load(&h.failed);
}

/* ---- whether to try ---- */

enum { FIRST_PAUSE = 4, LONGEST_PAUSE = 64 };

static bool is_paused(pn_head_record *record) {
    if (!record || record->whole == 0) return false;
    record->whole--;
    return true;
}

static void note_outcome(pn_head_record *record, bool paid) {
    if (!record) return;
    if (paid)
        record->pause = 0;
    else if (record->pause < LONGEST_PAUSE)
        record->pause = record->pause ? 2 * record->pause : FIRST_PAUSE;
    record->whole = record->pause;
}

bool pn_ops_head(const pn_ops *ops, const pn_weight *weight, const float *x, pn_top top, float *logits) {
    bool possible = top.n > 0 && top.n <= PN_HEAD_TOP_MAX && weight->low && ops->inputs;
    if (possible && !is_paused(ops->head)) {
        bool paid = in_two_parts(ops, weight, x, top, logits);
        note_outcome(ops->head, paid);
        if (paid) return true;
    }
    pn_matmul_job job = {weight, NULL, logits};
    const pn_matmul_input input = {.x = x};
    pn_ops_matmul(ops, &job, 1, &input, 1);
    return false;
}
