/* SPDX-License-Identifier: Apache-2.0 */
/* A model of float weights with its matrices in integers: plan, measure what decides the plan, round and
 * write. */
#include "compress/compress.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "compress/journal.h"
#include "compress/report.h"
#include "compress/target.h"
#include "weights/hash.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE            64 /* packed matrices begin on cache lines */
#define LEAST_SEQUENCES 8  /* of calibration, below which it is refused rather than done badly */

pn_compress_options pn_compress_options_default(void) {
    return (pn_compress_options){.mode = PN_WEIGHTS_INT4_ASYM,
                                 .ratio = 0.9,
                                 .calibration_sequences = 20,
                                 .calibration_tokens = 512,
                                 .scale_estimation = true,
                                 .zero_search = true,
                                 .gptq = true,
                                 .awq = true};
}

/* ---- where it comes from ---- */

static pn_status hash_source(const pn_gguf *in, pn_pool *pool, pn_source *source, pn_error *err) {
    pn_tensors_hash hash;
    PN_TRY(pn_tensors_hash_of(in, pool, &hash, err));
    snprintf(source->hash, sizeof source->hash, "xxh3-128:%016llx%016llx", (unsigned long long)hash.high,
             (unsigned long long)hash.low);
    return PN_OK;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- plan ---- */

static bool is_calibrated(const pn_compress_options *o) {
    return o->calibration || o->calibrate_on_self;
}

static char *joined(const char *path, const char *suffix) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s%s", path, suffix);
    char *text = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return text;
}

/* The model speaks in 8 bits, which says the same at twice the speed. */
static pn_status listen_to_model(pn_job *job, const char *in_path, const char *out_path, pn_error *err) {
    const pn_compress_options *o = &job->options;
    const pn_compress_options in_8_bits = {.mode = PN_WEIGHTS_INT8_ASYM,
                                           .group_size = -1,
                                           .backup = PN_BACKUP_INT8_ASYM,
                                           .n_threads = o->n_threads};
    pn_compress_result result;
    char *path = joined(out_path, ".int8.partial");
    if (!path) return pn_fail_memory(err, "file name", strlen(out_path));
    pn_status status = pn_compress_to_panels(in_path, path, &in_8_bits, NULL, NULL, &result, err);
    if (status == PN_OK) {
        pn_compress_result_free(&result);
        status = pn_sequences_from_model(path, o->n_threads, o->seed, (size_t)o->calibration_sequences,
                                         (size_t)o->calibration_tokens, job->progress, job->user,
                                         &job->sequences, err);
        unlink(path);
    }
    pn_free(path);
    return status;
}

static pn_status take_sequences(pn_job *job, const char *in_path, const char *out_path, pn_error *err) {
    const pn_compress_options *o = &job->options;
    if (job->sequences.ids) return PN_OK; /* from statistics */
    if (o->calibrate_on_self) return listen_to_model(job, in_path, out_path, err);
    return pn_sequences_from_text(
        pn_calibration_file(job->calibration), pn_calibration_decoder(job->calibration)->n_vocab,
        (pn_str){o->calibration, o->calibration_len}, (size_t)o->calibration_sequences,
        (size_t)o->calibration_tokens, &job->sequences, err);
}

/* Bytes that stand beside the calibration: the rounded forms of a matrix, and where it is rounded. */
static uint64_t rounding_bytes(const pn_job *job) {
    uint64_t most = 0;
    for (size_t i = 0; i < job->choices.n; i++) {
        const uint64_t bytes = pn_choice_bytes(&job->choices.items[i]);
        most = bytes > most ? bytes : most;
    }
    const size_t heldout = job->calibration ? PN_CALIBRATION_MAX_HELDOUT : 0;
    return 2 * most + pn_rounder_bytes(job->pool, pn_job_max_columns(job), heldout);
}

/* Fewer sequences where that is enough. */
static pn_status keep_memory_limit(pn_job *job, pn_error *err) {
    pn_compress_options *o = &job->options;
    const uint64_t rounding = rounding_bytes(job);
    if (o->memory_limit == 0) return PN_OK;
    for (;;) {
        uint64_t needed = rounding;
        if (job->calibration)
            needed += pn_calibration_bytes(job->calibration, (size_t)o->calibration_sequences,
                                           (size_t)o->calibration_tokens) +
                      pn_measure_bytes(job);
        if (needed <= o->memory_limit) return PN_OK;
        if (!job->calibration || o->calibration_sequences <= LEAST_SEQUENCES)
            return pn_fail(err, PN_ERR_MEMORY, "%s needs %llu MiB of memory, and the limit is %llu MiB%s",
                           job->calibration ? "calibration" : "compression",
                           (unsigned long long)(needed >> 20) + 1,
                           (unsigned long long)(o->memory_limit >> 20),
                           job->calibration ? ": raise it, or compress without calibration" : ": raise it");
        o->calibration_sequences /= 2;
    }
}

static pn_status open_calibration(pn_job *job, const char *in_path, pn_error *err) {
    if (is_calibrated(&job->options)) PN_TRY(pn_calibration_open(in_path, job->pool, &job->calibration, err));
    PN_TRY(keep_memory_limit(job, err));
    return pn_rounder_create(job->pool, pn_job_max_columns(job),
                             job->calibration ? PN_CALIBRATION_MAX_HELDOUT : 0, &job->rounder, err);
}

static bool is_measured(const pn_job *job) {
    for (size_t i = 0; i < job->choices.n; i++)
        if (job->choices.items[i].may_be_4_bits && !job->choices.items[i].measured) return false;
    return true;
}

static pn_status measure(pn_job *job, pn_error *err) {
    const bool weights = job->options.sensitivity == PN_SENSITIVITY_WEIGHT_ERROR;
    PN_TRY(weights ? pn_measure_weights(job, err) : pn_measure_layers(job, err));
    return job->options.statistics ? pn_statistics_save(job, err) : PN_OK;
}

static pn_status plan(pn_job *job, const char *in_path, const char *out_path, pn_error *err) {
    pn_compress_options *o = &job->options;
    if (o->sensitivity == PN_SENSITIVITY_AUTO)
        o->sensitivity = is_calibrated(o) ? PN_SENSITIVITY_MEASURED : PN_SENSITIVITY_WEIGHT_ERROR;
    PN_TRY(pn_plan_begin(job->in, o, &job->choices, err));
    PN_TRY(pn_pool_create(o->n_threads, &job->pool, err));
    PN_TRY(hash_source(job->in, job->pool, &job->source, err));
    PN_TRY(open_calibration(job, in_path, err));
    PN_TRY(pn_journal_open(out_path, job, &job->journal, err));
    pn_journal_take(job->journal, job);
    if (o->statistics && !is_measured(job)) pn_statistics_load(job);
    if (job->calibration) {
        PN_TRY(take_sequences(job, in_path, out_path, err));
        PN_TRY(pn_calibration_begin(job->calibration, &job->sequences, err));
    }
    pn_journal_begin(job->journal, job);
    const bool measuring = pn_plan_needs_errors(o) && !is_measured(job);
    for (size_t i = 0; i < job->choices.n; i++)
        job->n_total += pn_choice_weights(&job->choices.items[i]) * (measuring ? 2 : 1);
    if (measuring) PN_TRY(measure(job, err));
    if (job->calibration) o->calibration_sequences = (int)job->sequences.n; /* a short text has fewer */
    return pn_plan_needs_errors(o) ? pn_plan_ratio(o, &job->choices, err) : PN_OK;
}

/* ---- writing ---- */

static pn_status reserve_report(pn_job *job, pn_error *err) {
    pn_compress_result planned;
    size_t len;
    PN_TRY(pn_report_fill(&job->source, &job->options, &job->choices, &planned, err));
    char *text = pn_report_json(&planned, &len);
    if (text) pn_gguf_reserve_text(job->out, PN_REPORT_KEY, pn_report_json_most(len, &planned));
    pn_status status = text ? PN_OK : pn_fail_memory(err, "report", len);
    pn_compress_result_free(&planned);
    pn_free(text);
    return status;
}

static pn_status describe(pn_job *job, pn_error *err) {
    for (size_t i = 0; i < pn_gguf_n_keys(job->in); i++)
        pn_gguf_write_key(job->out, pn_gguf_key_at(job->in, i));
    if (!pn_gguf_find_key(job->in, "postern.layout")) pn_gguf_write_str(job->out, "postern.layout", "R16");
    PN_TRY(reserve_report(job, err));
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
        if (!job->choices.items[i].written) PN_TRY(pn_tensor_write(job, &job->choices.items[i], err));
    }
    pn_tensor_flush(job);
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

static pn_status make_room(pn_job *job, pn_error *err) {
    for (size_t i = 0; i < job->choices.n; i++) {
        const size_t bytes = (size_t)pn_choice_bytes(&job->choices.items[i]);
        job->packed_bytes = bytes > job->packed_bytes ? bytes : job->packed_bytes;
    }
    for (int i = 0; i < 2; i++) {
        job->packed[i] = pn_pages_alloc(PN_MEM_SCRATCH, job->packed_bytes);
        if (!job->packed[i]) return pn_fail_memory(err, "packed matrix", job->packed_bytes);
    }
    return PN_OK;
}

/* *result is freed by the caller, also after a failure. */
static pn_status write_file(pn_job *job, const char *out_path, pn_compress_result *result, pn_error *err) {
    PN_TRY(make_room(job, err));
    PN_TRY(pn_gguf_writer_resume(out_path, LINE, &job->out, err));
    PN_TRY(describe(job, err));
    pn_journal_restore(job->journal, job);
    PN_TRY(write_tensors(job, err));
    PN_TRY(pn_report_fill(&job->source, &job->options, &job->choices, result, err));
    PN_TRY(write_report(job, result, err));
    return pn_gguf_writer_finish(job->out, err);
}

static void job_done(pn_job *job) {
    pn_journal_close(job->journal, true);
    pn_gguf_writer_free(job->out);
    pn_calibration_close(job->calibration);
    pn_sequences_free(&job->sequences);
    for (int i = 0; i < 2; i++)
        pn_pages_free(PN_MEM_SCRATCH, job->packed[i], job->packed_bytes);
    pn_rounder_free(job->rounder);
    pn_pool_free(job->pool);
    pn_plan_done(&job->choices);
    pn_arena_done(&job->texts);
    pn_gguf_close(job->in);
}

static pn_status compress(const char *in_path, const char *out_path, const pn_compress_options *options,
                          pn_progress_fn progress, void *user, pn_compress_result *result, pn_error *err) {
    const double start = pn_clock_seconds();
    pn_job job = {
        .options = *options, .source = {.name = file_name(in_path)}, .progress = progress, .user = user};
    pn_compress_result filled = {0};
    pn_arena_init(&job.texts, 0);
    PN_TRY(pn_gguf_open(in_path, &job.in, err));
    pn_status status = plan(&job, in_path, out_path, err);
    if (status == PN_OK) status = write_file(&job, out_path, &filled, err);
    if (status == PN_OK) {
        filled.seconds = pn_clock_seconds() - start;
        filled.n_resumed = job.n_resumed;
        *result = filled;
    } else {
        pn_compress_result_free(&filled);
    }
    job_done(&job);
    return status;
}

pn_status pn_compress_to_panels(const char *in_path, const char *out_path, const pn_compress_options *options,
                                pn_progress_fn progress, void *user, pn_compress_result *result,
                                pn_error *err) {
    return (options->target_kl > 0 ? pn_compress_to_kl : compress)(in_path, out_path, options, progress, user,
                                                                   result, err);
}
