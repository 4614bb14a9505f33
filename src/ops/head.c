/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/matmul.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* A row that may be among the greatest, by the high part alone. */
struct candidate {
    float logit;
    size_t row;
};

#define LOW_STEPS_MAX 32
#define LOW_REST      0.4  /* of x^2: no more steps are taken where less is left */
#define LEAST_REST    1e-3 /* is always allowed for, for what rounding does */

/* The steps of 32 columns with the greatest inputs, by which the high part is off the most. Where that alone
   does not tell, their low part is added before all of it is. */
struct low {
    size_t n, steps[LOW_STEPS_MAX];
    pn_inputs inputs; /* of these steps alone */
    float sum;        /* of them */
    int8_t codes[2 * LOW_STEPS_MAX * PN_STEP];
    float scales[LOW_STEPS_MAX], sums[LOW_STEPS_MAX];
    int32_t bias[LOW_STEPS_MAX], half[2 * LOW_STEPS_MAX];
};

struct head {
    const pn_ops *ops;
    const pn_weight *weight;
    float *logits;
    pn_inputs inputs;
    float sum; /* of all inputs, as rounded */
    struct low low;
    /* What is allowed for, per length of residual: of the high part, and with those steps. */
    float unit_error, rest_error;
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

static bool is_apart(const pn_weight *weight) {
    return pn_panel_formats[weight->kind].apart;
}

/* Of a panel of an INT8 kind. */
static void scales_of(const struct head *h, size_t panel, float *d) {
    const pn_weight *w = h->weight;
    uint16_t halves[3 * PN_PANEL_ROWS / 2]; /* zeros follow */
    pn_split_scales(w->kind, &w->split, w->data + panel * w->panel_bytes, panel, w->n_col, (uint8_t *)halves);
    h->ops->kernels->f16_to_f32(halves, d, PN_PANEL_ROWS);
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

/* ---- the steps with the greatest inputs ---- */

/* Which they are, and how far off logits may be without and with them. */
static void choose_low(struct head *h, const float *x) {
    const size_t n_step = h->inputs.n_step, most = n_step / 4;
    float *squares = h->ops->scratch;
    double all = 0, rest = 0;
    for (size_t s = 0; s < n_step; s++) {
        squares[s] = 0;
        for (size_t c = s * PN_STEP; c < (s + 1) * PN_STEP; c++)
            squares[s] += x[c] * x[c];
        all += (double)squares[s];
    }
    rest = all;
    while (h->low.n < most && h->low.n < LOW_STEPS_MAX && rest > LOW_REST * all) {
        size_t greatest = 0;
        for (size_t s = 1; s < n_step; s++)
            if (squares[s] > squares[greatest]) greatest = s;
        h->low.steps[h->low.n++] = greatest;
        rest -= (double)squares[greatest];
        squares[greatest] = 0;
    }
    rest = rest > LEAST_REST * all ? rest : LEAST_REST * all;
    h->unit_error = PN_HEAD_SIGMAS * (float)sqrt(all / (double)h->weight->n_col);
    h->rest_error = PN_HEAD_SIGMAS * (float)sqrt(rest / (double)h->weight->n_col);
}

static void gather_low(struct head *h) {
    struct low *low = &h->low;
    const pn_inputs *all = &h->inputs;
    const size_t n_plane = (size_t)all->n_plane;
    low->inputs = (pn_inputs){.n_plane = all->n_plane,
                              .n_step = low->n,
                              .codes = low->codes,
                              .scale = low->scales,
                              .sum = low->sums,
                              .bias = low->bias,
                              .half = low->half};
    for (size_t i = 0; i < low->n; i++) {
        const size_t step = low->steps[i];
        for (size_t p = 0; p < n_plane; p++)
            memcpy(low->codes + (p * low->n + i) * PN_STEP, all->codes + (p * all->n_step + step) * PN_STEP,
                   PN_STEP);
        low->scales[i] = all->scale[step];
        low->sums[i] = all->sum[step];
        low->bias[i] = all->bias[step];
        low->half[2 * i] = all->half[2 * step];
        low->half[2 * i + 1] = all->half[2 * step + 1];
        low->sum += all->sum[step];
    }
}

/* ---- first pass: the high part of all rows ---- */

/* What the scales of a panel of an INT8 kind are to be multiplied with besides: see quant/split.h. */
static void add_offsets(const struct head *h, size_t panel, float *logits) {
    const pn_weight *w = h->weight;
    const uint8_t *zero = w->split.zero ? w->split.zero + panel * PN_PANEL_ROWS : NULL;
    float d[PN_PANEL_ROWS];
    scales_of(h, panel, d);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++)
        logits[r] += d[r] * h->sum * (135.5f - (zero ? (float)zero[r] : 128));
}

static void take_panel(const struct head *h, size_t panel, const float *sixteenths, struct candidate *seen) {
    size_t row = panel * PN_PANEL_ROWS;
    float logits[PN_PANEL_ROWS];
    for (size_t r = 0; r < PN_PANEL_ROWS; r++)
        logits[r] = 16 * sixteenths[r];
    if (is_apart(h->weight)) add_offsets(h, panel, logits);
    for (size_t r = 0; r < panel_rows(h->weight, panel); r++) {
        h->logits[row + r] = logits[r];
        keep_greatest(seen, h->top.n, (struct candidate){logits[r], row + r});
    }
}

static void first_pass(void *arg, size_t begin, size_t end, int worker) {
    const struct head *h = arg;
    const pn_few_fn few = h->ops->kernels->few[pn_split_high(h->weight->kind)];
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
        few(data, n_panel, pn_weight_shape(h->weight), &h->inputs, 0, 1, out);
        for (size_t p = 0; p < n_panel; p++)
            take_panel(h, panels[p], out + p * PN_PANEL_ROWS, seen_by(h, worker));
    }
}

/* ---- second pass: more exactly where it may matter, and in full where it still may ---- */

static bool may_matter(const struct head *h, size_t panel, float unit_error) {
    const float *logits = h->logits + panel * PN_PANEL_ROWS,
                *residual = h->weight->split.residual + panel * PN_PANEL_ROWS;
    bool any = false; /* a NaN matters */
    for (size_t r = 0; r < panel_rows(h->weight, panel); r++)
        any |= !(logits[r] + unit_error * residual[r] < h->threshold);
    return any;
}

/* Room in a worker's scratch for a panel. */
static uint8_t *room_of(const struct head *h, int worker) {
    return (uint8_t *)seen_by(h, worker);
}

static void add_low(struct head *h, size_t panel, uint8_t *room) {
    const pn_weight *w = h->weight;
    const struct low *low = &h->low;
    const uint8_t *high = w->data + panel * w->panel_bytes, *some = room;
    const pn_panel_shape shape = {low->n * PN_STEP, low->n * PN_STEP};
    float out[PN_PANEL_ROWS], d[PN_PANEL_ROWS] = {0};
    pn_split_some_low(w->kind, &w->split, high, panel, w->n_col, low->steps, low->n, room);
    h->ops->kernels->few[pn_split_high(w->kind)](&some, 1, shape, &low->inputs, 0, 1, out);
    if (is_apart(w)) scales_of(h, panel, d);
    for (size_t r = 0; r < panel_rows(w, panel); r++)
        h->logits[panel * PN_PANEL_ROWS + r] += out[r] + d[r] * 0.5f * low->sum;
}

/* In full; unit_error is that of the logits so far. */
static void compute_panel(struct head *h, size_t panel, float unit_error, uint8_t *room) {
    const pn_weight *w = h->weight;
    const size_t row = panel * PN_PANEL_ROWS;
    float out[PN_PANEL_ROWS];
    const uint8_t *whole = pn_matmul_join(h->ops->kernels, w, panel, room);
    h->ops->kernels->few[w->kind](&whole, 1, pn_weight_shape(w), &h->inputs, 0, 1, out);
    for (size_t r = 0; r < panel_rows(w, panel); r++) {
        float error = fabsf(out[r] - h->logits[row + r]);
        if (!(error <= 0.75f * unit_error * w->split.residual[row + r] + 1e-5f * fabsf(out[r])))
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
        if (panel < h->weight->n_panel && !is_best(h, i + 1, panel) && may_matter(h, panel, h->unit_error))
            compute_panel(h, panel, h->unit_error, room_of(h, worker));
    }
}

static void other_panels(void *arg, size_t begin, size_t end, int worker) {
    struct head *h = arg;
    for (size_t panel = begin; panel < end; panel++) {
        if (atomic_load_explicit(&h->failed, memory_order_relaxed)) return;
        if (!may_matter(h, panel, h->unit_error) || is_best(h, 0, panel)) continue;
        if (h->low.n > 0) add_low(h, panel, room_of(h, worker));
        if (may_matter(h, panel, h->rest_error)) compute_panel(h, panel, h->rest_error, room_of(h, worker));
    }
}

/* ---- all ---- */

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
    compute_panel(h, h->best[n - 1].row / PN_PANEL_ROWS, h->unit_error, room_of(h, 0));
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
    struct head h = {.ops = ops,
                     .weight = weight,
                     .logits = logits,
                     .inputs = *ops->inputs,
                     .top = top,
                     .threshold = -INFINITY};
    h.inputs.n_step = weight->n_col / PN_STEP;
    h.max_panels = weight->n_panel / 5;
    ops->kernels->quantise(x, 0, 1, &h.inputs);
    for (size_t step = 0; step < h.inputs.n_step; step++)
        h.sum += h.inputs.sum[step];
    choose_low(&h, x);
    gather_low(&h);
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
    bool possible = top.n > 0 && top.n <= PN_HEAD_TOP_MAX && weight->split.low && ops->inputs;
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
