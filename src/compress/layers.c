/* SPDX-License-Identifier: Apache-2.0 */
/* Layer by layer with calibration, and within a layer in the order in which its matrices are used: each is
   rounded for the inputs that the compressed matrices before it give. Of the ways to round a matrix the one
   is kept that does best on inputs that none of them has seen. */
#include "compress/job.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { MAX_AT_SITE = 3 };

#define CLEARLY 0.97

/* The matrices of a site on their way. */
struct site {
    pn_choice *choices[MAX_AT_SITE];
    uint8_t *packed[MAX_AT_SITE]; /* NULL: not compressed */
    pn_rounding_loss losses[MAX_AT_SITE];
    const char *methods[MAX_AT_SITE];
    int n;
    const pn_activations *inputs;
    const float *stretch; /* of columns, or NULL */
};

static size_t bytes_of(const pn_choice *c) {
    return (size_t)pn_choice_bytes(c);
}

static void drop(struct site *s) {
    for (int i = 0; i < s->n; i++) {
        pn_pages_free(PN_MEM_SCRATCH, s->packed[i], s->packed[i] ? bytes_of(s->choices[i]) : 0);
        s->packed[i] = NULL;
    }
}

/* ---- ways to round ---- */

struct way {
    bool scales, feedback;
    const char *name, *stretched;
};
static const struct way ways[] = {
    {false, false, "nearest", "awq"},
    {true, false, "scales", "awq, scales"},
    {false, true, "gptq", "awq, gptq"},
    {true, true, "gptq, scales", "awq, gptq, scales"},
};

static bool is_wanted(const pn_compress_options *o, const struct way *way) {
    return (o->scale_estimation || !way->scales) && (o->gptq || !way->feedback);
}

static pn_rounding rounding_of(const pn_job *job, const pn_choice *c, const struct site *s,
                               const struct way *way) {
    return (pn_rounding){.kind = c->kind,
                         .group = c->group,
                         .inputs = s->inputs,
                         .mean_square = s->inputs->mean_square,
                         .scales = way->scales,
                         .zeros = job->options.zero_search,
                         .feedback = way->feedback,
                         .stretch = s->stretch};
}

/* Rounds matrix i of the site in every way that is wanted. */
static pn_status round_matrix(pn_job *job, struct site *s, int i, pn_error *err) {
    const pn_choice *c = s->choices[i];
    const size_t bytes = bytes_of(c);
    uint8_t *packed = pn_pages_alloc(PN_MEM_SCRATCH, bytes), *best = pn_pages_alloc(PN_MEM_SCRATCH, bytes);
    pn_status status = packed && best ? PN_OK : pn_fail_memory(err, "packed matrix", bytes);
    double all_outputs = 0;
    s->losses[i].outputs = INFINITY;
    for (size_t w = 0; w < sizeof ways / sizeof *ways && status == PN_OK; w++) {
        const pn_rounding how = rounding_of(job, c, s, &ways[w]);
        pn_rounding_loss loss;
        if (!is_wanted(&job->options, &ways[w])) continue;
        status = pn_round_matrix(job->rounder, c->tensor, &how, all_outputs == 0, packed, &loss, err);
        if (status != PN_OK) break;
        if (loss.all_outputs > 0) all_outputs = loss.all_outputs;
        if (!(loss.outputs < s->losses[i].outputs)) continue;
        uint8_t *other = best;
        best = packed;
        packed = other;
        s->losses[i] = loss;
        s->methods[i] = s->stretch ? ways[w].stretched : ways[w].name;
    }
    s->losses[i].all_outputs = all_outputs;
    pn_pages_free(PN_MEM_SCRATCH, packed, bytes);
    if (status == PN_OK)
        s->packed[i] = best;
    else
        pn_pages_free(PN_MEM_SCRATCH, best, bytes);
    return status;
}

static pn_status round_site(pn_job *job, struct site *s, pn_error *err) {
    for (int i = 0; i < s->n; i++) {
        const double start = pn_clock_seconds();
        if (s->choices[i]->compressed) PN_TRY(round_matrix(job, s, i, err));
        s->choices[i]->seconds += pn_clock_seconds() - start;
    }
    return PN_OK;
}

static double outputs_lost(const struct site *s) {
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->losses[i].outputs;
    return sum;
}

/* ---- stretching ---- */

static bool may_be_stretched(const pn_job *job, const struct site *s, const pn_choice *norm) {
    bool any_4_bits = false;
    if (!job->options.awq || !norm || norm->tensor->type != PN_QTYPE_ID_F32) return false;
    for (int i = 0; i < s->n; i++) {
        if (!s->choices[i]->compressed) return false;
        any_4_bits = any_4_bits || pn_panel_formats[s->choices[i]->kind].bits == 4;
    }
    return any_4_bits;
}

/* Columns with great inputs are made greater, so that rounding spares them: by the power `share` of their
   root mean square, which on (geometric) average changes nothing. AWQ (Lin et al., 2023). */
static void stretch_by(const pn_activations *in, double share, float *stretch) {
    const size_t n = in->gram.n;
    double mean = 0, sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += (double)in->mean_square[c];
    const double floor = 1e-6 * sum / (double)n + 1e-30; /* for columns that are always zero */
    for (size_t c = 0; c < n; c++)
        mean += log((double)in->mean_square[c] + floor) / (double)n;
    for (size_t c = 0; c < n; c++)
        stretch[c] = (float)exp(share / 2 * (log((double)in->mean_square[c] + floor) - mean));
}

/* What some of the site's outputs lose without feedback. */
static pn_status try_stretch(pn_job *job, const struct site *s, double *lost, pn_error *err) {
    *lost = 0;
    for (int i = 0; i < s->n; i++) {
        pn_rounding how = rounding_of(job, s->choices[i], s, &ways[job->options.scale_estimation]);
        pn_rounding_loss loss;
        how.every = 8;
        PN_TRY(pn_round_matrix(job->rounder, s->choices[i]->tensor, &how, false, NULL, &loss, err));
        *lost += loss.outputs;
    }
    return PN_OK;
}

/* Looks for the stretch that does best without feedback, and rounds the site with it; that is kept where it
   does clearly better than without, since little may be luck. */
static pn_status improve_by_stretch(pn_job *job, struct site *plain, float *stretch, pn_error *err) {
    static const double shares[] = {0, 0.25, 0.5, 0.75};
    struct site s = *plain;
    double best_share = 0, best_lost = INFINITY;
    memset(s.packed, 0, sizeof s.packed);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        double lost;
        stretch_by(s.inputs, shares[i], stretch);
        s.stretch = shares[i] > 0 ? stretch : NULL;
        PN_TRY(try_stretch(job, &s, &lost, err));
        if (!(lost < best_lost)) continue;
        best_lost = lost;
        best_share = shares[i];
    }
    if (best_share == 0) return PN_OK;
    stretch_by(s.inputs, best_share, stretch);
    s.stretch = stretch;
    pn_status status = round_site(job, &s, err);
    const bool better = status == PN_OK && outputs_lost(&s) < CLEARLY * outputs_lost(plain);
    drop(better ? plain : &s);
    if (better) *plain = s;
    return status;
}

/* The norm before the site divides by the stretch. */
static pn_status shrink_norm(pn_job *job, pn_choice *norm, const struct site *s, const float **changed,
                             pn_error *err) {
    const size_t n = s->inputs->gram.n;
    const float *own = (const float *)(const void *)norm->tensor->data;
    norm->changed = pn_alloc(PN_MEM_OTHER, n, sizeof *norm->changed);
    if (!norm->changed) return pn_fail_memory(err, "norm", n * sizeof *norm->changed);
    for (size_t c = 0; c < n; c++)
        norm->changed[c] = own[c] / s->stretch[c];
    norm->why = "divided by the stretch of the columns after it";
    *changed = norm->changed;
    return pn_tensor_write(job, norm, err);
}

/* ---- writing ---- */

static void put(pn_job *job, struct site *s) {
    for (int i = 0; i < s->n; i++) {
        pn_choice *c = s->choices[i];
        if (!s->packed[i]) continue;
        c->method = s->methods[i];
        c->error = pn_loss_share(s->losses[i].weights, s->losses[i].all_weights);
        c->output_error = pn_loss_share(s->losses[i].outputs, s->losses[i].all_outputs);
        pn_tensor_put(job, c, s->packed[i]);
    }
}

/* A layer on its way: its matrices as they were packed. */
struct layer {
    int index;
    pn_layer rounded;
    uint8_t *packed[PN_LAYER_MATRICES];
    pn_choice *choices[PN_LAYER_MATRICES];
};

static pn_status round_and_stretch(pn_job *job, struct site *s, pn_choice *norm, const float **norm_weights,
                                   pn_error *err) {
    PN_TRY(round_site(job, s, err));
    if (!may_be_stretched(job, s, norm)) return PN_OK;
    float *stretch = pn_alloc(PN_MEM_SCRATCH, s->inputs->gram.n, sizeof *stretch);
    if (!stretch) return pn_fail_memory(err, "stretch of columns", s->inputs->gram.n * sizeof *stretch);
    pn_status status = improve_by_stretch(job, s, stretch, err);
    if (status == PN_OK && s->stretch) status = shrink_norm(job, norm, s, norm_weights, err);
    pn_free(stretch);
    s->stretch = NULL;
    return status;
}

/* The norm before a site. */
static pn_choice *norm_of(pn_job *job, int index, pn_site site) {
    return pn_job_choice(job, index, site == PN_SITE_QKV ? "attn_norm.weight" : "ffn_norm.weight");
}

static pn_status write_site(pn_job *job, struct layer *l, pn_site site, pn_error *err) {
    struct site s = {0};
    int places[MAX_AT_SITE] = {0};
    pn_choice *norm = NULL;
    const float **norm_weights = NULL;
    for (int m = 0; m < PN_LAYER_MATRICES; m++)
        if (pn_matrix_places[m].site == site) {
            places[s.n] = m;
            s.choices[s.n++] = l->choices[m];
        }
    if (site == PN_SITE_QKV || site == PN_SITE_GATE_UP) {
        norm = norm_of(job, l->index, site);
        norm_weights = site == PN_SITE_QKV ? &l->rounded.attn_norm : &l->rounded.ffn_norm;
    }
    PN_TRY(pn_calibration_gather(job->calibration, &l->rounded, site, &s.inputs, err));
    pn_status status = round_and_stretch(job, &s, norm, norm_weights, err);
    if (status != PN_OK) {
        drop(&s);
        return status;
    }
    put(job, &s);
    for (int i = 0; i < s.n; i++) {
        if (!s.packed[i]) continue;
        l->packed[places[i]] = s.packed[i];
        *pn_layer_matrix(&l->rounded, places[i]) = pn_job_weight(s.choices[i], s.packed[i]);
    }
    return PN_OK;
}

/* ---- a layer that an earlier run has written ---- */

/* All of it, or nothing: a matrix by itself says nothing of what the others were rounded for. */
static bool is_written(pn_job *job, struct layer *l) {
    bool whole = true;
    for (int m = 0; m < PN_LAYER_MATRICES; m++)
        whole = whole && (l->choices[m]->written || !l->choices[m]->compressed);
    for (int m = 0; m < PN_LAYER_MATRICES && !whole; m++)
        l->choices[m]->written = false;
    for (int site = PN_SITE_QKV; site <= PN_SITE_GATE_UP && !whole; site += PN_SITE_GATE_UP) {
        pn_choice *norm = norm_of(job, l->index, (pn_site)site);
        norm->written = false;
        pn_free(norm->changed);
        norm->changed = NULL;
    }
    return whole;
}

static pn_status read_layer(pn_job *job, struct layer *l, pn_error *err) {
    for (int m = 0; m < PN_LAYER_MATRICES; m++) {
        pn_choice *c = l->choices[m];
        if (!c->compressed) continue;
        l->packed[m] = pn_pages_alloc(PN_MEM_SCRATCH, bytes_of(c));
        if (!l->packed[m]) return pn_fail_memory(err, "packed matrix", bytes_of(c));
        pn_gguf_writer_read(job->out, (size_t)(c - job->choices.items), l->packed[m]);
        *pn_layer_matrix(&l->rounded, m) = pn_job_weight(c, l->packed[m]);
    }
    const float *attn_norm = norm_of(job, l->index, PN_SITE_QKV)->changed,
                *ffn_norm = norm_of(job, l->index, PN_SITE_GATE_UP)->changed;
    if (attn_norm) l->rounded.attn_norm = attn_norm;
    if (ffn_norm) l->rounded.ffn_norm = ffn_norm;
    return PN_OK;
}

static pn_status write_layer(pn_job *job, int index, pn_error *err) {
    struct layer l = {.index = index, .rounded = *pn_calibration_enter(job->calibration, index)};
    pn_status status = PN_OK;
    for (int m = 0; m < PN_LAYER_MATRICES; m++)
        l.choices[m] = pn_job_choice(job, index, pn_matrix_places[m].suffix);
    if (is_written(job, &l)) {
        status = read_layer(job, &l, err);
    } else {
        for (int site = 0; site < PN_SITE_COUNT && status == PN_OK; site++)
            status = write_site(job, &l, (pn_site)site, err);
    }
    if (status == PN_OK)
        pn_calibration_advance(job->calibration, &l.rounded);
    else
        pn_error_prefix(err, "layer %d", index);
    pn_calibration_leave(job->calibration, index);
    for (int m = 0; m < PN_LAYER_MATRICES; m++)
        pn_pages_free(PN_MEM_SCRATCH, l.packed[m], l.packed[m] ? bytes_of(l.choices[m]) : 0);
    return status;
}

/* An embedding that is the head too is rounded for what the head does. */
static pn_status write_head(pn_job *job, pn_error *err) {
    const pn_gguf_tensor *t = pn_gguf_find_tensor(job->in, "output.weight");
    if (!t) t = pn_gguf_find_tensor(job->in, "token_embd.weight");
    struct site s = {.choices = {pn_job_choice_of(job, t)}, .n = 1};
    if (!s.choices[0]->compressed || s.choices[0]->written) return PN_OK;
    PN_TRY(pn_calibration_gather_head(job->calibration, &s.inputs, err));
    PN_TRY(round_site(job, &s, err));
    put(job, &s);
    drop(&s);
    return PN_OK;
}

pn_status pn_layers_write(pn_job *job, pn_error *err) {
    const int n_layer = pn_calibration_decoder(job->calibration)->h.n_layer;
    for (int layer = 0; layer < n_layer; layer++)
        PN_TRY(write_layer(job, layer, err));
    return write_head(job, err);
}
