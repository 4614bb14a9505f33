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

#define TRIED   4 /* of so many panels one is tried */
#define CLEARLY 0.97

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

/* The matrices of a site on their way. */
struct site {
    pn_choice *choices[MAX_AT_SITE];
    const struct way *ways[MAX_AT_SITE];
    uint8_t *packed[MAX_AT_SITE]; /* NULL: not compressed */
    int n;
    double lost; /* of the outputs, of some rows of all matrices */
    const pn_activations *inputs;
    const float *stretch; /* of columns, or NULL */
};

static size_t bytes_of(const pn_choice *c) {
    return (size_t)pn_choice_bytes(c);
}

static void drop(struct site *s) {
    for (int i = 0; i < s->n; i++)
        pn_pages_free(PN_MEM_SCRATCH, s->packed[i], s->packed[i] ? bytes_of(s->choices[i]) : 0);
}

/* ---- ways to round ---- */

static bool is_wanted(const pn_compress_options *o, const struct way *way) {
    return (o->scale_estimation || !way->scales) && (o->gptq || !way->feedback);
}

static pn_rounding rounding_of(const pn_job *job, const struct site *s, int i, const struct way *way) {
    return (pn_rounding){.kind = s->choices[i]->kind,
                         .group = s->choices[i]->group,
                         .split = pn_choice_is_split(s->choices[i]),
                         .inputs = s->inputs,
                         .mean_square = s->inputs->mean_square,
                         .scales = way->scales,
                         .zeros = job->options.zero_search,
                         .feedback = way->feedback,
                         .stretch = s->stretch};
}

/* What a way loses on the rows of some panels, which is what ways are chosen by. */
static pn_status try_way(pn_job *job, const struct site *s, int i, const struct way *way, double *lost,
                         pn_error *err) {
    pn_rounding how = rounding_of(job, s, i, way);
    pn_rounding_loss loss;
    how.every = TRIED;
    PN_TRY(pn_round_matrix(job->rounder, s->choices[i]->tensor, &how, false, NULL, &loss, err));
    *lost = loss.outputs;
    return PN_OK;
}

static pn_status choose_ways(pn_job *job, struct site *s, pn_error *err) {
    for (int i = 0; i < s->n; i++) {
        double least = INFINITY, lost;
        if (!s->choices[i]->compressed) continue;
        s->ways[i] = &ways[0]; /* where nothing can be told, since outputs are no numbers */
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            if (!is_wanted(&job->options, &ways[w])) continue;
            PN_TRY(try_way(job, s, i, &ways[w], &lost, err));
            if (!(lost < least)) continue;
            least = lost;
            s->ways[i] = &ways[w];
        }
        s->lost += least;
    }
    return PN_OK;
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

/* Keeps the stretch that does best, where that is clearly better than none, since little may be luck. */
static pn_status choose_stretch(pn_job *job, struct site *s, float *stretch, pn_error *err) {
    static const double shares[] = {0.25, 0.5, 0.75};
    double best_share = 0, least = CLEARLY * s->lost;
    struct site stretched = *s;
    stretched.stretch = stretch;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        double sum = 0, lost;
        stretch_by(s->inputs, shares[i], stretch);
        for (int m = 0; m < s->n; m++) {
            PN_TRY(try_way(job, &stretched, m, s->ways[m], &lost, err));
            sum += lost;
        }
        if (!(sum < least)) continue;
        least = sum;
        best_share = shares[i];
    }
    if (best_share > 0) {
        stretch_by(s->inputs, best_share, stretch);
        s->stretch = stretch;
    }
    return PN_OK;
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

static pn_status round_matrix(pn_job *job, struct site *s, int i, pn_error *err) {
    pn_choice *c = s->choices[i];
    const pn_rounding how = rounding_of(job, s, i, s->ways[i]);
    pn_rounding_loss loss;
    s->packed[i] = pn_pages_alloc(PN_MEM_SCRATCH, bytes_of(c));
    if (!s->packed[i]) return pn_fail_memory(err, "packed matrix", bytes_of(c));
    PN_TRY(pn_round_matrix(job->rounder, c->tensor, &how, true, s->packed[i], &loss, err));
    c->method = s->stretch ? s->ways[i]->stretched : s->ways[i]->name;
    c->error = pn_loss_share(loss.weights, loss.all_weights);
    c->output_error = pn_loss_share(loss.outputs, loss.all_outputs);
    return PN_OK;
}

/* Rounds the site's matrices and writes them. What was packed is the caller's, to drop. */
static pn_status write_matrices(pn_job *job, struct site *s, double start, pn_error *err) {
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->choices[i]->compressed;
    const double choosing = pn_clock_seconds() - start;
    for (int i = 0; i < s->n; i++) {
        pn_choice *c = s->choices[i];
        const double begin = pn_clock_seconds();
        if (!c->compressed) continue;
        PN_TRY(round_matrix(job, s, i, err));
        pn_tensor_put(job, c, s->packed[i]);
        c->seconds += pn_clock_seconds() - begin + choosing / n;
    }
    return PN_OK;
}

/* A layer on its way: its matrices as they were packed. */
struct layer {
    int index;
    pn_layer rounded;
    uint8_t *packed[PN_LAYER_MATRICES];
    pn_choice *choices[PN_LAYER_MATRICES];
};

/* With the best ways, and the best stretch where the norm before the site can take it up. */
static pn_status round_site(pn_job *job, struct site *s, pn_choice *norm, const float **norm_weights,
                            pn_error *err) {
    const double start = pn_clock_seconds();
    float *stretch = NULL;
    PN_TRY(choose_ways(job, s, err));
    if (!may_be_stretched(job, s, norm)) return write_matrices(job, s, start, err);
    stretch = pn_alloc(PN_MEM_SCRATCH, s->inputs->gram.n, sizeof *stretch);
    if (!stretch) return pn_fail_memory(err, "stretch of columns", s->inputs->gram.n * sizeof *stretch);
    pn_status status = choose_stretch(job, s, stretch, err);
    if (status == PN_OK) status = write_matrices(job, s, start, err);
    if (status == PN_OK && s->stretch) status = shrink_norm(job, norm, s, norm_weights, err);
    pn_free(stretch);
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
    pn_status status = round_site(job, &s, norm, norm_weights, err);
    if (status != PN_OK) {
        drop(&s);
        return status;
    }
    for (int i = 0; i < s.n; i++) {
        if (!s.packed[i]) continue;
        l->packed[places[i]] = s.packed[i];
        *pn_layer_matrix(&l->rounded, places[i]) = pn_job_weight(s.choices[i], s.packed[i]);
    }
    return PN_OK;
}

/* ---- a layer that an earlier run has written ---- */

static bool is_stretched(const pn_choice *c) {
    return c->method && strncmp(c->method, "awq", 3) == 0;
}

/* All of it, or nothing: a matrix by itself says nothing of what the others were rounded for. */
static bool is_written(pn_job *job, struct layer *l) {
    bool whole = true;
    for (int m = 0; m < PN_LAYER_MATRICES; m++) {
        const pn_choice *c = l->choices[m];
        whole = whole && (c->written || !c->compressed) &&
                (!is_stretched(c) || norm_of(job, l->index, pn_matrix_places[m].site)->changed);
    }
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
        for (int part = 0; part < PN_PART_COUNT && status == PN_OK; part++)
            pn_calibration_advance(job->calibration, &l.rounded, (pn_part)part);
    } else {
        for (int site = 0; site < PN_SITE_COUNT && status == PN_OK; site++) {
            status = write_site(job, &l, (pn_site)site, err);
            if (status == PN_OK && pn_part_ends_with((pn_site)site))
                pn_calibration_advance(job->calibration, &l.rounded, pn_part_of((pn_site)site));
        }
    }
    if (status != PN_OK) pn_error_prefix(err, "layer %d", index);
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
    pn_status status = round_site(job, &s, NULL, NULL, err);
    drop(&s);
    return status;
}

pn_status pn_layers_write(pn_job *job, pn_error *err) {
    const int n_layer = pn_calibration_decoder(job->calibration)->h.n_layer;
    for (int layer = 0; layer < n_layer; layer++)
        PN_TRY(write_layer(job, layer, err));
    return write_head(job, err);
}
