/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "compress/journal.h"
#include "quant/pack.h"

/* By whatever thread. */
static void write_bytes(pn_job *job, pn_choice *c, const void *bytes) {
    pn_gguf_write_data(job->out, (size_t)(c - job->choices.items), bytes);
    pn_journal_note(job->journal, job, c, bytes);
    pn_map_forget(c->tensor->data, (size_t)c->tensor->n_bytes);
}

void pn_tensor_put(pn_job *job, pn_choice *c, const void *bytes) {
    write_bytes(job, c, bytes);
    c->written = true;
    pn_job_progress(job, c);
}

/* ---- writing while the next one is rounded ---- */

static void write_waiting(void *user) {
    pn_job *job = user;
    write_bytes(job, job->waiting, job->packed[0]);
}

void pn_tensor_flush(pn_job *job) {
    if (job->waiting) write_waiting(job);
    job->waiting = NULL;
}

/* In packed[1], while what is in packed[0] is written. */
static pn_status round_nearest(pn_job *job, pn_choice *c, pn_error *err) {
    const pn_rounding nearest = {.kind = c->kind, .group = c->group, .split = pn_choice_is_split(c)};
    pn_rounding_loss loss = {0};
    if (job->waiting) pn_rounder_meanwhile(job->rounder, write_waiting, job);
    pn_status status = pn_round_matrix(job->rounder, c->tensor, &nearest, false, job->packed[1], &loss, err);
    job->waiting = NULL;
    PN_TRY(status);
    c->error = pn_loss_share(loss.weights, loss.all_weights);
    c->method = "nearest";
    return PN_OK;
}

static void wait_in_turn(pn_job *job, pn_choice *c) {
    uint8_t *other = job->packed[0];
    job->packed[0] = job->packed[1];
    job->packed[1] = other;
    job->waiting = c;
    c->written = true;
    pn_job_progress(job, c);
}

/* ---- a tensor ---- */

pn_status pn_tensor_write(pn_job *job, pn_choice *c, pn_error *err) {
    const pn_gguf_tensor *t = c->tensor;
    const pn_qtype *type = pn_qtype_find(t->type);
    const double start = pn_clock_seconds();
    if (pn_choice_type(c)->id == t->type) {
        pn_tensor_put(job, c, c->changed ? (const void *)c->changed : t->data);
    } else if (c->compressed) {
        PN_TRY(round_nearest(job, c, err));
        wait_in_turn(job, c);
    } else {
        pn_pack_matrix(type, pn_panel_kind_of(type), t->data, (size_t)t->dims[1], (size_t)t->dims[0],
                       job->packed[1]);
        pn_tensor_put(job, c, job->packed[1]);
    }
    c->seconds += pn_clock_seconds() - start;
    return PN_OK;
}
