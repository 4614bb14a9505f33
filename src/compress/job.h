/* SPDX-License-Identifier: Apache-2.0 */
/* One compression under way; shared by compress.c, tensors.c and layers.c. */
#ifndef PN_COMPRESS_JOB_H
#define PN_COMPRESS_JOB_H

#include "compress/calibrate.h"
#include "compress/matrix.h"
#include "compress/plan.h"
#include "format/gguf_write.h"

typedef struct pn_job {
    pn_compress_options options;
    pn_gguf *in;
    pn_gguf_writer *out;
    pn_choices choices;
    pn_pool *pool;
    pn_rounder *rounder;
    pn_calibration *calibration; /* NULL: weights are rounded as they are */
    pn_progress_fn progress;
    void *user;
    uint64_t n_done, n_total; /* weights, of all passes */
} pn_job;

/* Counts a tensor as done in a pass. */
void pn_job_progress(pn_job *job, const pn_choice *done);
/* What matrices become that are not to have 4 bits. */
pn_panel_kind pn_job_backup_kind(const pn_job *job);

/* tensors.c: the errors of the weights of those matrices between which the plan has to choose. */
pn_status pn_tensors_measure(pn_job *job, pn_error *err);
/* Rounds tensor i, whose inputs have these factors (or NULL), or packs or copies it, and writes it. *packed
   gets the bytes of a matrix, of pn_choice_bytes; it is freed with pn_pages_free as PN_MEM_SCRATCH. packed
   may be NULL. */
pn_status pn_tensor_write(pn_job *job, size_t i, const pn_gram *inputs, uint8_t **packed, pn_error *err);

/* layers.c: with calibration, the errors of the outputs of those matrices; and all matrices of layers
   written. A tensor that is written there is marked. */
pn_status pn_layers_measure(pn_job *job, pn_error *err);
pn_status pn_layers_write(pn_job *job, pn_error *err);

#endif
