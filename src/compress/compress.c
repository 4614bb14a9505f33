/* SPDX-License-Identifier: Apache-2.0 */
/* A model of float weights with its matrices in integers: plan, measure what decides the plan, round and
 * write. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "compress/job.h"
#include "compress/report.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define LINE 64 /* packed matrices begin on cache lines */

pn_compress_options pn_compress_options_default(void) {
    return (pn_compress_options){.mode = PN_WEIGHTS_INT4_ASYM,
                                 .group_size = 128,
                                 .ratio = 0.9,
                                 .calibration_sequences = 128,
                                 .calibration_tokens = 256};
}

void pn_job_progress(pn_job *job, const pn_choice *done) {
    const uint64_t million = 1000000;
    job->n_done += pn_choice_weights(done);
    if (job->progress)
        job->progress(job->user, (size_t)(job->n_done / million), (size_t)(job->n_total / million) + 1);
}

pn_panel_kind pn_job_backup_kind(const pn_job *job) {
    return job->options.backup == PN_BACKUP_INT8_SYM ? PN_PANEL_INT8_SYM : PN_PANEL_INT8_ASYM;
}

/* ---- where it comes from ---- */

/* XXH3 of the tensors' names, types and bytes, in the file's order. */
static pn_status hash_source(const pn_gguf *in, pn_source *source, pn_error *err) {
    XXH3_state_t *state = XXH3_createState();
    if (!state) return pn_fail_memory(err, "hash of the source", sizeof source->hash);
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < pn_gguf_n_tensors(in); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(in, i);
        XXH3_128bits_update(state, t->name.data, t->name.len);
        XXH3_128bits_update(state, &t->type, sizeof t->type);
        XXH3_128bits_update(state, t->data, (size_t)t->n_bytes);
        pn_map_forget(t->data, (size_t)t->n_bytes);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(source->hash, sizeof source->hash, "xxh3-128:%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    XXH3_freeState(state);
    return PN_OK;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- plan ---- */

static size_t max_columns(const pn_gguf *in) {
    size_t most = 1;
    for (size_t i = 0; i < pn_gguf_n_tensors(in); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(in, i);
        if (t->n_dims == 2 && t->dims[0] > most) most = (size_t)t->dims[0];
    }
    return most;
}

static pn_status calibrate(pn_job *job, const char *in_path, pn_error *err) {
    const pn_compress_options *o = &job->options;
    const pn_calibration_options text = {.text = o->calibration,
                                         .text_len = o->calibration_len,
                                         .n_seq = (size_t)o->calibration_sequences,
                                         .seq_len = (size_t)o->calibration_tokens};
    return pn_calibration_open(in_path, &text, job->pool, &job->calibration, err);
}

static pn_status plan(pn_job *job, const char *in_path, pn_error *err) {
    PN_TRY(pn_plan_begin(job->in, &job->options, &job->choices, err));
    PN_TRY(pn_pool_create(job->options.n_threads, &job->pool, err));
    PN_TRY(pn_rounder_create(job->pool, max_columns(job->in), &job->rounder, err));
    if (job->options.calibration) PN_TRY(calibrate(job, in_path, err));
    const bool choosing = pn_plan_needs_errors(&job->options);
    for (size_t i = 0; i < job->choices.n; i++)
        job->n_total += pn_choice_weights(&job->choices.items[i]) * (choosing ? 2 : 1);
    if (!choosing) return PN_OK;
    PN_TRY(job->calibration ? pn_layers_measure(job, err) : pn_tensors_measure(job, err));
    return pn_plan_ratio(&job->options, &job->choices, err);
}

/* ---- writing ---- */

static pn_status reserve_report(pn_job *job, const pn_source *source, pn_error *err) {
    pn_compress_result planned;
    size_t len;
    PN_TRY(pn_report_fill(source, &job->options, &job->choices, &planned, err));
    char *text = pn_report_json(&planned, &len);
    if (text) pn_gguf_reserve_text(job->out, PN_REPORT_KEY, pn_report_json_most(len, &planned));
    pn_status status = text ? PN_OK : pn_fail_memory(err, "report", len);
    pn_compress_result_free(&planned);
    pn_free(text);
    return status;
}

static pn_status describe(pn_job *job, const pn_source *source, pn_error *err) {
    for (size_t i = 0; i < pn_gguf_n_keys(job->in); i++)
        pn_gguf_write_key(job->out, pn_gguf_key_at(job->in, i));
    if (!pn_gguf_find_key(job->in, "postern.layout")) pn_gguf_write_str(job->out, "postern.layout", "R16");
    PN_TRY(reserve_report(job, source, err));
    for (size_t i = 0; i < job->choices.n; i++) {
        const pn_choice *c = &job->choices.items[i];
        pn_gguf_write_tensor(job->out, c->tensor->name, pn_choice_type(c)->id, c->tensor->n_dims,
                             c->tensor->dims);
    }
    return PN_OK;
}

static pn_status write_tensors(pn_job *job, pn_error *err) {
    if (job->calibration) PN_TRY(pn_layers_write(job, err));
    for (size_t i = 0; i < job->choices.n; i++) {
        const pn_gguf_tensor *t = job->choices.items[i].tensor;
        if (job->choices.items[i].written) continue;
        PN_TRY(pn_tensor_write(job, i, NULL, NULL, err));
        pn_map_forget(t->data, (size_t)t->n_bytes);
    }
    return PN_OK;
}

static pn_status write_report(pn_job *job, const pn_compress_result *result, pn_error *err) {
    size_t len;
    char *text = pn_report_json(result, &len);
    if (!text) return pn_fail_memory(err, "report", len);
    pn_gguf_fill_text(job->out, text, len);
    pn_free(text);
    return PN_OK;
}

/* *result is freed by the caller, also after a failure. */
static pn_status write_file(pn_job *job, const char *in_path, const char *out_path,
                            pn_compress_result *result, pn_error *err) {
    pn_source source = {.name = file_name(in_path)};
    PN_TRY(hash_source(job->in, &source, err));
    PN_TRY(pn_gguf_writer_create(out_path, LINE, &job->out, err));
    PN_TRY(describe(job, &source, err));
    PN_TRY(write_tensors(job, err));
    PN_TRY(pn_report_fill(&source, &job->options, &job->choices, result, err));
    PN_TRY(write_report(job, result, err));
    return pn_gguf_writer_finish(job->out, err);
}

pn_status pn_compress_weights(const char *in_path, const char *out_path, const pn_compress_options *options,
                              pn_progress_fn progress, void *user, pn_compress_result *result,
                              pn_error *err) {
    const double start = pn_clock_seconds();
    if (!in_path || !out_path || !result)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "pn_compress_weights needs two paths and a place for the result");
    pn_job job = {
        .options = options ? *options : pn_compress_options_default(), .progress = progress, .user = user};
    pn_compress_result filled = {0};
    PN_TRY(pn_compress_check(&job.options, err));
    PN_TRY(pn_gguf_open(in_path, &job.in, err));
    pn_status status = plan(&job, in_path, err);
    if (status == PN_OK) status = write_file(&job, in_path, out_path, &filled, err);
    if (status == PN_OK) {
        filled.seconds = pn_clock_seconds() - start;
        *result = filled;
    } else {
        pn_compress_result_free(&filled);
    }
    pn_gguf_writer_free(job.out);
    pn_calibration_close(job.calibration);
    pn_rounder_free(job.rounder);
    pn_pool_free(job.pool);
    pn_plan_done(&job.choices);
    pn_gguf_close(job.in);
    return status;
}
