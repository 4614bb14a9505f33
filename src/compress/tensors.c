/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/job.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "quant/pack.h"

pn_status pn_tensors_measure(pn_job *job, pn_error *err) {
    for (size_t i = 0; i < job->choices.n; i++) {
        pn_choice *c = &job->choices.items[i];
        if (c->may_be_4_bits) {
            pn_rounding_error error = {0};
            PN_TRY(pn_round_matrix(job->rounder, c->tensor, c->kind, c->group, NULL, NULL, &error, err));
            c->error4 = error.weights;
            error.weights = 0;
            if (job->options.backup != PN_BACKUP_NONE)
                PN_TRY(pn_round_matrix(job->rounder, c->tensor, pn_job_backup_kind(job), 0, NULL, NULL,
                                       &error, err));
            c->error8 = error.weights;
            pn_map_forget(c->tensor->data, (size_t)c->tensor->n_bytes);
        }
        pn_job_progress(job, c);
    }
    return PN_OK;
}

static pn_status make_matrix(pn_job *job, pn_choice *c, const pn_gram *inputs, uint8_t *packed,
                             pn_error *err) {
    const pn_gguf_tensor *t = c->tensor;
    const pn_qtype *type = pn_qtype_find(t->type);
    if (c->compressed) {
        pn_rounding_error lost = {0};
        PN_TRY(pn_round_matrix(job->rounder, t, c->kind, c->group, inputs, packed, &lost, err));
        c->error = lost.weights;
        c->output_error = lost.outputs;
        c->method = inputs ? "gptq" : "nearest";
        return PN_OK;
    }
    pn_pack_matrix(type, pn_panel_kind_of(type), t->data, (size_t)t->dims[1], (size_t)t->dims[0], packed);
    return PN_OK;
}

pn_status pn_tensor_write(pn_job *job, size_t i, const pn_gram *inputs, uint8_t **out, pn_error *err) {
    pn_choice *c = &job->choices.items[i];
    const pn_gguf_tensor *t = c->tensor;
    const double start = pn_clock_seconds();
    if (pn_choice_type(c)->id == t->type) {
        pn_gguf_write_data(job->out, i, t->data);
    } else {
        const size_t bytes = (size_t)pn_choice_bytes(c);
        uint8_t *packed = pn_pages_alloc(PN_MEM_SCRATCH, bytes);
        if (!packed) return pn_fail_memory(err, "packed matrix", bytes);
        pn_status status = make_matrix(job, c, inputs, packed, err);
        if (status == PN_OK) pn_gguf_write_data(job->out, i, packed);
        if (status == PN_OK && out)
            *out = packed;
        else
            pn_pages_free(PN_MEM_SCRATCH, packed, bytes);
        PN_TRY(status);
    }
    c->seconds = pn_clock_seconds() - start;
    c->written = true;
    pn_job_progress(job, c);
    return PN_OK;
}
