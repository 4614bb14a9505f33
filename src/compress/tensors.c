/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "compress/journal.h"
#include "quant/pack.h"

void pn_tensor_put(pn_job *job, pn_choice *c, const void *bytes) {
    pn_gguf_write_data(job->out, (size_t)(c - job->choices.items), bytes);
    pn_journal_note(job->journal, job, c, bytes);
    c->written = true;
    pn_map_forget(c->tensor->data, (size_t)c->tensor->n_bytes);
    pn_job_progress(job, c);
}

static pn_status make_matrix(pn_job *job, pn_choice *c, uint8_t *packed, pn_error *err) {
    const pn_gguf_tensor *t = c->tensor;
    const pn_qtype *type = pn_qtype_find(t->type);
    if (c->compressed) {
        const pn_rounding nearest = {.kind = c->kind, .group = c->group};
        pn_rounding_loss loss = {0};
        PN_TRY(pn_round_matrix(job->rounder, t, &nearest, false, packed, &loss, err));
        c->error = pn_loss_share(loss.weights, loss.all_weights);
        c->method = "nearest";
        return PN_OK;
    }
    pn_pack_matrix(type, pn_panel_kind_of(type), t->data, (size_t)t->dims[1], (size_t)t->dims[0], packed);
    return PN_OK;
}

pn_status pn_tensor_write(pn_job *job, pn_choice *c, pn_error *err) {
    const double start = pn_clock_seconds();
    if (pn_choice_type(c)->id == c->tensor->type) {
        pn_tensor_put(job, c, c->changed ? (const void *)c->changed : c->tensor->data);
    } else {
        const size_t bytes = (size_t)pn_choice_bytes(c);
        uint8_t *packed = pn_pages_alloc(PN_MEM_SCRATCH, bytes);
        if (!packed) return pn_fail_memory(err, "packed matrix", bytes);
        pn_status status = make_matrix(job, c, packed, err);
        if (status == PN_OK) pn_tensor_put(job, c, packed);
        pn_pages_free(PN_MEM_SCRATCH, packed, bytes);
        PN_TRY(status);
    }
    c->seconds = pn_clock_seconds() - start;
    return PN_OK;
}
