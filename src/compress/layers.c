/* SPDX-License-Identifier: Apache-2.0 */
/* Layer by layer with calibration: every layer is rounded for the inputs that the compressed layers before it
   give. */
#include "compress/job.h"

#include "base/mem.h"

#include <stdio.h>

#define DAMPING 0.01 /* of the mean second moment, as GPTQ has it */

/* The tensors of a layer's matrices, in the order of pn_matrix_places. */
static pn_status find_tensors(pn_job *job, int layer, size_t tensors[PN_LAYER_MATRICES], pn_error *err) {
    for (int m = 0; m < PN_LAYER_MATRICES; m++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s", layer, pn_matrix_places[m].suffix);
        const pn_gguf_tensor *t = pn_gguf_find_tensor(job->in, name);
        if (!t) return pn_fail(err, PN_ERR_FORMAT, "tensor %s is missing", name);
        tensors[m] = (size_t)(t - pn_gguf_tensor_at(job->in, 0));
    }
    return PN_OK;
}

static pn_status observe(pn_job *job, int layer, bool on, pn_error *err) {
    pn_calibration_observe(job->calibration, layer, on);
    for (int site = 0; site < PN_SITE_COUNT; site++) {
        pn_status status = pn_gram_factor(pn_calibration_gram(job->calibration, (pn_site)site),
                                          pn_calibration_kernels(job->calibration), job->pool, DAMPING, err);
        if (status != PN_OK) {
            pn_error_prefix(err, "layer %d", layer);
            return status;
        }
    }
    return PN_OK;
}

static const pn_gram *gram_of(pn_job *job, int matrix) {
    return pn_calibration_gram(job->calibration, pn_matrix_places[matrix].site);
}

/* ---- measuring ---- */

static pn_status measure_matrix(pn_job *job, pn_choice *c, const pn_gram *inputs, pn_error *err) {
    pn_rounding_error error = {0};
    PN_TRY(pn_round_matrix(job->rounder, c->tensor, c->kind, c->group, inputs, NULL, &error, err));
    c->error4 = error.outputs;
    error.outputs = 0;
    if (job->options.backup != PN_BACKUP_NONE)
        PN_TRY(
            pn_round_matrix(job->rounder, c->tensor, pn_job_backup_kind(job), 0, inputs, NULL, &error, err));
    c->error8 = error.outputs;
    return PN_OK;
}

pn_status pn_layers_measure(pn_job *job, pn_error *err) {
    for (int layer = 0; layer < pn_calibration_n_layer(job->calibration); layer++) {
        size_t tensors[PN_LAYER_MATRICES];
        PN_TRY(find_tensors(job, layer, tensors, err));
        PN_TRY(observe(job, layer, true, err));
        for (int m = 0; m < PN_LAYER_MATRICES; m++) {
            pn_choice *c = &job->choices.items[tensors[m]];
            if (c->may_be_4_bits) PN_TRY(measure_matrix(job, c, gram_of(job, m), err));
            pn_job_progress(job, c);
        }
    }
    pn_calibration_rewind(job->calibration);
    return PN_OK;
}

/* ---- writing ---- */

/* A matrix as it was just packed. */
static pn_weight weight_of(const pn_choice *c, const uint8_t *packed) {
    const pn_gguf_tensor *t = c->tensor;
    const size_t n_col = (size_t)t->dims[0], n_row = (size_t)t->dims[1];
    const pn_panel_shape shape = pn_panel_shape_of(pn_choice_type(c), n_col);
    const pn_panel_kind kind = pn_panel_kind_of(pn_choice_type(c));
    return (pn_weight){.data = packed,
                       .kind = kind,
                       .n_row = n_row,
                       .n_col = n_col,
                       .group = shape.group,
                       .n_panel = (n_row + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS,
                       .panel_bytes = pn_panel_bytes(kind, shape)};
}

static pn_status write_layer(pn_job *job, int index, pn_error *err) {
    size_t tensors[PN_LAYER_MATRICES];
    uint8_t *packed[PN_LAYER_MATRICES] = {0};
    PN_TRY(find_tensors(job, index, tensors, err));
    PN_TRY(observe(job, index, false, err));
    pn_layer rounded = *pn_calibration_layer(job->calibration, index);
    pn_status status = PN_OK;
    for (int m = 0; m < PN_LAYER_MATRICES && status == PN_OK; m++) {
        status = pn_tensor_write(job, tensors[m], gram_of(job, m), &packed[m], err);
        if (packed[m]) *pn_layer_matrix(&rounded, m) = weight_of(&job->choices.items[tensors[m]], packed[m]);
    }
    if (status == PN_OK) pn_calibration_advance(job->calibration, &rounded, index);
    for (int m = 0; m < PN_LAYER_MATRICES; m++)
        pn_pages_free(PN_MEM_SCRATCH, packed[m], (size_t)pn_choice_bytes(&job->choices.items[tensors[m]]));
    return status;
}

pn_status pn_layers_write(pn_job *job, pn_error *err) {
    for (int layer = 0; layer < pn_calibration_n_layer(job->calibration); layer++)
        PN_TRY(write_layer(job, layer, err));
    return PN_OK;
}
