/* SPDX-License-Identifier: Apache-2.0 */
/* One compression under way; shared by compress.c, tensors.c, sensitivity.c and layers.c. */
#ifndef PN_COMPRESS_JOB_H
#define PN_COMPRESS_JOB_H

#include "base/mem.h"
#include "compress/calibrate.h"
#include "compress/matrix.h"
#include "compress/plan.h"
#include "compress/report.h"
#include "format/gguf_write.h"

struct pn_journal;

typedef struct pn_job {
    pn_compress_options options;
    pn_gguf *in;
    pn_source source;
    struct pn_journal *journal;
    pn_arena texts; /* of choices, from an earlier run */
    pn_gguf_writer *out;
    pn_choices choices;
    pn_pool *pool;
    pn_rounder *rounder;
    uint8_t *packed[2]; /* [packed_bytes] room for any tensor as it is written, */
    size_t packed_bytes;
    pn_choice *waiting; /* and the one that is in packed[0] and not written yet, or NULL */
    pn_sequences sequences;
    pn_calibration *calibration; /* NULL: weights are rounded as they are */
    pn_progress_fn progress;
    void *user;
    uint64_t n_done, n_total; /* weights, of all passes */
    size_t n_resumed;         /* tensors found written */
} pn_job;

/* Counts a tensor as done in a pass. */
void pn_job_progress(pn_job *job, const pn_choice *done);
/* What matrices become that are not to have 4 bits. */
pn_panel_kind pn_job_backup_kind(const pn_job *job);
/* The choice of layer N's tensor "blk.N.SUFFIX", which a decoder has found; or that of a tensor. */
pn_choice *pn_job_choice(const pn_job *job, int layer, const char *suffix);
pn_choice *pn_job_choice_of(const pn_job *job, const pn_gguf_tensor *tensor);
/* The most columns of any matrix. */
size_t pn_job_max_columns(const pn_job *job);
/* A matrix to compute with, as it was packed. */
pn_weight pn_job_weight(const pn_choice *choice, const uint8_t *packed);

/* sensitivity.c: what 8 bits would save each of the matrices between which the plan has to choose: of the
   error of the weights, for which no calibration is needed, or by what its inputs or its layer's outputs
   say. */
pn_status pn_measure_weights(pn_job *job, pn_error *err);
pn_status pn_measure_layers(pn_job *job, pn_error *err);
/* What the latter takes beside the calibration. */
uint64_t pn_measure_bytes(const pn_job *job);

/* tensors.c: writes a tensor by itself: rounded to the nearest, packed, or copied. It may wait until the next
   one is rounded, or until pn_tensor_flush. */
pn_status pn_tensor_write(pn_job *job, pn_choice *choice, pn_error *err);
void pn_tensor_flush(pn_job *job);
/* Writes what was made of it. */
void pn_tensor_put(pn_job *job, pn_choice *choice, const void *bytes);

/* layers.c: with calibration, writes all matrices of layers and the output head. */
pn_status pn_layers_write(pn_job *job, pn_error *err);

#endif
