/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

#include "quant/split.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

struct head {
    const pn_ops *ops;
    const pn_weight *weight;
    float *logits;
    pn_inputs inputs;
    float unit_error; /* what is allowed for, per length of residual */
    size_t top;
    float threshold; /* no logit below it can be among the greatest */
    size_t max_panels;
    atomic_size_t n_panels; /* computed in full */
    atomic_bool failed;     /* too many, or one of them was too far off */
};

static size_t panel_rows(const pn_weight *weight, size_t panel) {
    size_t left = weight->n_row - panel * PN_PANEL_ROWS;
    return left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
}

/* ---- the greatest lower bounds that a worker has seen: the least of them first ---- */

static void keep_greatest(float *least_first, size_t n, float value) {
    if (!(value > least_first[0])) return;
    size_t i = 1;
    for (; i < n && least_first[i] < value; i++)
        least_first[i - 1] = least_first[i];
    least_first[i - 1] = value;
}

static float *bounds_of(const struct head *h, int worker) {
    return h->ops->scratch + (size_t)worker * h->ops->scratch_stride;
}

/* ---- first pass: the high part of all rows ---- */

static void take_panel(const struct head *h, size_t panel, const float *sixteenths, float *bounds) {
    size_t row = panel * PN_PANEL_ROWS;
    for (size_t r = 0; r < panel_rows(h->weight, panel); r++) {
        float logit = 16 * sixteenths[r];
        h->logits[row + r] = logit;
        keep_greatest(bounds, h->top, logit - h->unit_error * h->weight->residual[row + r]);
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
        h->ops->kernels->few[PN_PANEL_Q4_1](data, n_panel, h->weight->n_col, &h->inputs, 0, 1, out);
        for (size_t p = 0; p < n_panel; p++)
            take_panel(h, panels[p], out + p * PN_PANEL_ROWS, bounds_of(h, worker));
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

static void compute_panel(struct head *h, size_t panel, float *scratch) {
    const pn_kernels *kernels = h->ops->kernels;
    const pn_weight *w = h->weight;
    const size_t row = panel * PN_PANEL_ROWS;
    float out[PN_PANEL_ROWS];
    uint8_t *joined = (uint8_t *)scratch;
    const uint8_t *whole = joined;
    kernels->join_split(w->data + panel * w->panel_bytes,
                        w->low + panel * (w->n_col / PN_STEP) * PN_SPLIT_LOW_BYTES, w->n_col, joined);
    kernels->few[PN_PANEL_Q8_0](&whole, 1, w->n_col, &h->inputs, 0, 1, out);
    for (size_t r = 0; r < panel_rows(w, panel); r++) {
        float error = fabsf(out[r] - h->logits[row + r]);
        if (!(error <= 0.75f * h->unit_error * w->residual[row + r] + 1e-5f * fabsf(out[r])))
            atomic_store(&h->failed, true);
        h->logits[row + r] = out[r];
    }
    if (atomic_fetch_add(&h->n_panels, 1) >= h->max_panels) atomic_store(&h->failed, true);
}

static void second_pass(void *arg, size_t begin, size_t end, int worker) {
    struct head *h = arg;
    for (size_t panel = begin; panel < end; panel++) {
        if (atomic_load_explicit(&h->failed, memory_order_relaxed)) return;
        if (may_matter(h, panel)) compute_panel(h, panel, bounds_of(h, worker));
    }
}

/* ---- both ---- */

static float length_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)sqrt(sum);
}

static void begin_bounds(const struct head *h) {
    for (int worker = 0; worker < pn_pool_threads(h->ops->pool); worker++)
        for (size_t i = 0; i < h->top; i++)
            bounds_of(h, worker)[i] = -INFINITY;
}

/* The least of the greatest bounds of all workers together, which does not depend on who did what. */
static float merge_bounds(const struct head *h) {
    float greatest[PN_HEAD_TOP_MAX];
    for (size_t i = 0; i < h->top; i++)
        greatest[i] = -INFINITY;
    for (int worker = 0; worker < pn_pool_threads(h->ops->pool); worker++)
        for (size_t i = 0; i < h->top; i++)
            keep_greatest(greatest, h->top, bounds_of(h, worker)[i]);
    return greatest[0];
}

bool pn_ops_head(const pn_ops *ops, const pn_weight *weight, const float *x, size_t top, float *logits) {
    const size_t n = weight->n_col;
    if (top > 0 && top <= PN_HEAD_TOP_MAX && weight->low && ops->inputs) {
        struct head h = {.ops = ops, .weight = weight, .logits = logits, .inputs = *ops->inputs, .top = top};
        h.inputs.n_step = n / PN_STEP;
        h.unit_error = PN_HEAD_SIGMAS * length_of(x, n) / sqrtf((float)n);
        h.max_panels = weight->n_panel / 8;
        ops->kernels->quantise(x, 0, 1, &h.inputs);
        begin_bounds(&h);
        pn_ops_run(ops, first_pass, &h, weight->n_panel, 1);
        h.threshold = merge_bounds(&h);
        pn_ops_run(ops, second_pass, &h, weight->n_panel, 1);
        if (!atomic_load(&h.failed)) return true;
    }
    pn_matmul_job job = {weight, NULL, logits};
    pn_ops_matmul(ops, &job, 1, x, 1);
    return false;
}
