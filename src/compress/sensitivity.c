/* SPDX-License-Identifier: Apache-2.0 */
/* How much each matrix suffers from 4 bits; what 8 bits lose is some three hundredth of that and not looked
   at. By the weights alone; or, layer by layer, by what its inputs make of their errors (the diagonal of the
   Hessian, as HAWQ and NNCF's "hessian_input_activation" have it; or the variance of inputs, NNCF's
   "mean_activation_variance"); or by how far the layer's outputs move when of its matrices, all of 8 bits,
   this one has 4. Layers run in 8 bits throughout, which is several times as fast as in floats and, for this,
   the same. */
#include "base/file.h"
#include "base/mem.h"
#include "compress/journal.h"

#include <string.h>

#define MEASURED_TOKENS 2048
#define ENOUGH_ROWS     1024

/* A thousand rows tell. */
static pn_rounding in_4_bits(const pn_choice *c) {
    return (pn_rounding){
        .kind = c->kind, .group = c->group, .every = (size_t)c->tensor->dims[1] / ENOUGH_ROWS};
}

static void note(pn_job *job, pn_choice *c, double gain) {
    c->gain = gain;
    c->measured = true;
    pn_journal_note_gain(job->journal, job, c);
}

pn_status pn_measure_weights(pn_job *job, pn_error *err) {
    for (size_t i = 0; i < job->choices.n; i++) {
        pn_choice *c = &job->choices.items[i];
        if (c->may_be_4_bits && !c->measured) {
            const pn_rounding four = in_4_bits(c);
            pn_rounding_loss loss;
            PN_TRY(pn_round_matrix(job->rounder, c->tensor, &four, false, NULL, &loss, err));
            note(job, c, pn_loss_share(loss.weights, loss.all_weights));
            pn_map_forget(c->tensor->data, (size_t)c->tensor->n_bytes);
        }
        pn_job_progress(job, c);
    }
    return PN_OK;
}

/* ---- by layers ---- */

/* Sums over the inputs of a site. */
struct columns {
    double *sum, *square;
    size_t n, n_tok;
};

struct survey {
    pn_job *job;
    pn_layer layer; /* at hand, in 8 bits where they fit */
    uint8_t *packed[PN_LAYER_MATRICES];
    size_t packed_bytes[PN_LAYER_MATRICES];
    size_t n_seq, n_floats; /* of all outputs */
    struct columns sites[PN_SITE_COUNT];
    float *mean_square; /* of the site at hand */
    float *attended;    /* [n_floats] the residual stream after attention, */
    float *outputs;     /* after the layer, */
    float *changed;     /* and that when one matrix has 4 bits */
};

static bool see_inputs(void *user, const pn_weight *first, const float *x, size_t n_col, size_t n_tok) {
    struct survey *s = user;
    for (int i = 0; i < PN_LAYER_MATRICES; i++) {
        if (pn_layer_matrix_of(&s->layer, i) != first) continue;
        struct columns *at = &s->sites[pn_matrix_places[i].site];
        at->n = n_col;
        at->n_tok += n_tok;
        for (size_t t = 0; t < n_tok; t++)
            for (size_t c = 0; c < n_col; c++) {
                const double value = (double)x[t * n_col + c];
                at->sum[c] += value;
                at->square[c] += value * value;
            }
    }
    return true;
}

static void take_mean_squares(struct survey *s, const struct columns *at) {
    for (size_t c = 0; c < at->n; c++)
        s->mean_square[c] = (float)(at->square[c] / (double)at->n_tok);
}

static double mean_variance(const struct columns *at) {
    double sum = 0;
    for (size_t c = 0; c < at->n; c++) {
        const double mean = at->sum[c] / (double)at->n_tok;
        sum += at->square[c] / (double)at->n_tok - mean * mean;
    }
    return sum / (double)at->n;
}

/* The mean over tokens of how far a layer's output is off, squared, relative to its own size. The first token
   of a sequence, which is like no other, does not count. */
static double relative_change(const struct survey *s) {
    const size_t n_embd = (size_t)pn_calibration_decoder(s->job->calibration)->h.n_embd;
    const size_t len = s->job->sequences.len;
    double sum = 0;
    for (size_t t = 0; t < s->n_seq * len; t++) {
        const float *x = s->outputs + t * n_embd, *y = s->changed + t * n_embd;
        double off = 0, all = 0;
        for (size_t i = 0; t % len != 0 && i < n_embd; i++) {
            const double d = (double)y[i] - (double)x[i];
            off += d * d;
            all += (double)x[i] * (double)x[i];
        }
        sum += pn_loss_share(off, all);
    }
    return sum / (double)(s->n_seq * (len - 1));
}

/* Rounds a matrix as a choice says and puts it into the layer. */
static pn_status replace(struct survey *s, pn_layer *layer, int place, const pn_choice *as,
                         const pn_rounding *how, uint8_t *packed, pn_rounding_loss *loss, pn_error *err) {
    PN_TRY(pn_round_matrix(s->job->rounder, as->tensor, how, false, packed, loss, err));
    *pn_layer_matrix(layer, place) = pn_job_weight(as, packed);
    return PN_OK;
}

/* The layer's outputs when it is run from this part on. */
static void run_from(struct survey *s, const pn_layer *layer, pn_part part) {
    pn_calibration *calibration = s->job->calibration;
    const bool whole = part == PN_PART_ATTENTION;
    if (whole) pn_calibration_run(calibration, layer, part, s->n_seq, NULL, NULL, s->changed);
    pn_calibration_run(calibration, layer, PN_PART_FEED_FORWARD, s->n_seq, whole ? s->changed : s->attended,
                       NULL, s->changed);
}

static pn_status measure_outputs(struct survey *s, const pn_choice *c, int place, double *change,
                                 pn_error *err) {
    const pn_rounding four = {
        .kind = c->kind, .group = c->group, .mean_square = s->mean_square, .scales = true, .zeros = true};
    const size_t bytes = (size_t)pn_choice_bytes(c);
    uint8_t *packed = pn_pages_alloc(PN_MEM_SCRATCH, bytes);
    if (!packed) return pn_fail_memory(err, "packed matrix", bytes);
    pn_rounding_loss loss;
    pn_layer layer = s->layer;
    pn_status status = replace(s, &layer, place, c, &four, packed, &loss, err);
    if (status == PN_OK) {
        run_from(s, &layer, pn_part_of(pn_matrix_places[place].site));
        *change = relative_change(s);
    }
    pn_pages_free(PN_MEM_SCRATCH, packed, bytes);
    return status;
}

static void leave_layer(struct survey *s, int index) {
    pn_calibration_leave(s->job->calibration, index);
    for (int m = 0; m < PN_LAYER_MATRICES; m++) {
        const pn_gguf_tensor *t = pn_job_choice(s->job, index, pn_matrix_places[m].suffix)->tensor;
        pn_map_forget(t->data, (size_t)t->n_bytes);
        pn_pages_free(PN_MEM_SCRATCH, s->packed[m], s->packed[m] ? s->packed_bytes[m] : 0);
        s->packed[m] = NULL;
    }
}

static pn_status enter_layer(struct survey *s, int index, pn_error *err) {
    s->layer = *pn_calibration_enter(s->job->calibration, index);
    for (int m = 0; m < PN_LAYER_MATRICES; m++) {
        pn_choice eight = *pn_job_choice(s->job, index, pn_matrix_places[m].suffix);
        const pn_rounding how = {.kind = PN_PANEL_INT8_ASYM};
        pn_rounding_loss loss;
        if (!eight.compressed) continue;
        eight.kind = how.kind;
        eight.group = 0;
        s->packed_bytes[m] = (size_t)pn_choice_bytes(&eight);
        s->packed[m] = pn_pages_alloc(PN_MEM_SCRATCH, s->packed_bytes[m]);
        if (!s->packed[m]) return pn_fail_memory(err, "packed matrix", s->packed_bytes[m]);
        PN_TRY(replace(s, &s->layer, m, &eight, &how, s->packed[m], &loss, err));
    }
    return PN_OK;
}

/* What the inputs say of the weights' errors. */
static pn_status measure_errors(struct survey *s, const pn_choice *c, const struct columns *at, double *gain,
                                pn_error *err) {
    pn_rounding four = in_4_bits(c);
    pn_rounding_loss loss;
    four.mean_square = s->mean_square;
    PN_TRY(pn_round_matrix(s->job->rounder, c->tensor, &four, false, NULL, &loss, err));
    *gain = s->job->options.sensitivity == PN_SENSITIVITY_HESSIAN ? loss.weighed
                                                                  : mean_variance(at) * loss.weights;
    return PN_OK;
}

static pn_status measure_matrix(struct survey *s, pn_choice *c, int place, pn_error *err) {
    const struct columns *at = &s->sites[pn_matrix_places[place].site];
    double gain = 0;
    take_mean_squares(s, at);
    PN_TRY(s->job->options.sensitivity == PN_SENSITIVITY_MEASURED ? measure_outputs(s, c, place, &gain, err)
                                                                  : measure_errors(s, c, at, &gain, err));
    note(s->job, c, gain);
    return PN_OK;
}

static pn_status measure_layer(struct survey *s, int index, pn_error *err) {
    const pn_watch watch = {see_inputs, s};
    for (int site = 0; site < PN_SITE_COUNT; site++) {
        struct columns *at = &s->sites[site];
        memset(at->sum, 0, at->n * sizeof *at->sum);
        memset(at->square, 0, at->n * sizeof *at->square);
        at->n_tok = 0;
    }
    pn_status status = enter_layer(s, index, err);
    if (status == PN_OK) {
        pn_calibration *calibration = s->job->calibration;
        pn_calibration_run(calibration, &s->layer, PN_PART_ATTENTION, s->n_seq, NULL, &watch, s->attended);
        pn_calibration_run(calibration, &s->layer, PN_PART_FEED_FORWARD, s->n_seq, s->attended, &watch,
                           s->outputs);
    }
    for (int m = 0; m < PN_LAYER_MATRICES && status == PN_OK; m++) {
        pn_choice *c = pn_job_choice(s->job, index, pn_matrix_places[m].suffix);
        if (c->may_be_4_bits && !c->measured) status = measure_matrix(s, c, m, err);
        pn_job_progress(s->job, c);
    }
    leave_layer(s, index);
    pn_calibration_take(s->job->calibration, s->n_seq, s->outputs);
    return status;
}

static pn_status make_room(struct survey *s, size_t max_col, pn_error *err) {
    bool ok = true;
    s->mean_square = pn_alloc(PN_MEM_SCRATCH, max_col, sizeof *s->mean_square);
    s->attended = pn_alloc(PN_MEM_SCRATCH, s->n_floats, sizeof *s->attended);
    s->outputs = pn_alloc(PN_MEM_SCRATCH, s->n_floats, sizeof *s->outputs);
    s->changed = pn_alloc(PN_MEM_SCRATCH, s->n_floats, sizeof *s->changed);
    for (int site = 0; site < PN_SITE_COUNT; site++) {
        struct columns *at = &s->sites[site];
        at->sum = pn_alloc(PN_MEM_SCRATCH, 2 * max_col, sizeof *at->sum);
        at->square = at->sum ? at->sum + max_col : NULL;
        at->n = max_col;
        ok = ok && at->sum;
    }
    if (ok && s->mean_square && s->attended && s->outputs && s->changed) return PN_OK;
    return pn_fail_memory(err, "measuring of layers", 3 * s->n_floats * sizeof *s->outputs);
}

static size_t enough_sequences(size_t len) {
    return (MEASURED_TOKENS + len - 1) / len;
}

uint64_t pn_measure_bytes(const pn_job *job) {
    const size_t len = (size_t)job->options.calibration_tokens,
                 n_embd = (size_t)pn_calibration_decoder(job->calibration)->h.n_embd;
    return (uint64_t)3 * enough_sequences(len) * len * n_embd * sizeof(float) +
           pn_job_max_columns(job) * (2 * PN_SITE_COUNT * sizeof(double) + sizeof(float));
}

pn_status pn_measure_layers(pn_job *job, pn_error *err) {
    const pn_sequences *q = &job->sequences;
    const pn_hparams *h = &pn_calibration_decoder(job->calibration)->h;
    const size_t enough = enough_sequences(q->len), most = q->n - q->n_heldout;
    struct survey s = {.job = job, .n_seq = enough < most ? enough : most};
    s.n_floats = s.n_seq * q->len * (size_t)h->n_embd;
    pn_status status = make_room(&s, pn_job_max_columns(job), err);
    for (int layer = 0; layer < h->n_layer && status == PN_OK; layer++)
        status = measure_layer(&s, layer, err);
    pn_calibration_rewind(job->calibration);
    pn_free(s.mean_square);
    pn_free(s.attended);
    pn_free(s.outputs);
    pn_free(s.changed);
    for (int site = 0; site < PN_SITE_COUNT; site++)
        pn_free(s.sites[site].sum);
    return status;
}
