/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/job.h"

#include <stdio.h>

void pn_job_progress(pn_job *job, const pn_choice *done) {
    const uint64_t million = 1000000;
    job->n_done += pn_choice_weights(done);
    if (job->progress)
        job->progress(job->user, (size_t)(job->n_done / million), (size_t)(job->n_total / million) + 1);
}

pn_panel_kind pn_job_backup_kind(const pn_job *job) {
    return job->options.backup == PN_BACKUP_INT8_SYM ? PN_PANEL_INT8_SYM : PN_PANEL_INT8_ASYM;
}

pn_choice *pn_job_choice_of(const pn_job *job, const pn_gguf_tensor *tensor) {
    return &job->choices.items[tensor - pn_gguf_tensor_at(job->in, 0)];
}

pn_choice *pn_job_choice(const pn_job *job, int layer, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, suffix);
    return pn_job_choice_of(job, pn_gguf_find_tensor(job->in, name));
}

size_t pn_job_max_columns(const pn_job *job) {
    size_t most = 1;
    for (size_t i = 0; i < job->choices.n; i++) {
        const pn_gguf_tensor *t = job->choices.items[i].tensor;
        if (t->n_dims == 2 && t->dims[0] > most) most = (size_t)t->dims[0];
    }
    return most;
}

pn_weight pn_job_weight(const pn_choice *c, const uint8_t *packed) {
    const size_t n_col = (size_t)c->tensor->dims[0], n_row = (size_t)c->tensor->dims[1];
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
