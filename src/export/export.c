/* SPDX-License-Identifier: Apache-2.0 */
#include "export/export.h"

#include "base/clock.h"
#include "base/mem.h"
#include "compress/compress.h"
#include "compress/plan.h"
#include "compress/report.h"
#include "export/gguf_blocks.h"
#include "export/hf_folder.h"

#include <string.h>
#include <unistd.h>

/* ---- options ---- */

static pn_status fit_to_gguf(pn_compress_options *o, pn_error *err) {
    if (o->group_size == 0) o->group_size = 32;
    if (o->group_size != 32)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "a group size of %d: GGUF's own types have groups of 32, others need postern's format",
                       o->group_size);
    if (o->backup == PN_BACKUP_AUTO) o->backup = PN_BACKUP_INT8_SYM;
    if (o->mode == PN_WEIGHTS_INT8_ASYM || o->backup == PN_BACKUP_INT8_ASYM)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "INT8_ASYM: GGUF's own 8 bits, Q8_0, have no zero points: choose INT8_SYM, or "
                       "postern's format");
    return PN_OK;
}

/* vLLM's kernels know 8 bits without zero points only. */
static pn_status fit_to_compressed_tensors(pn_compress_options *o, pn_error *err) {
    if (o->backup == PN_BACKUP_AUTO) o->backup = PN_BACKUP_INT8_SYM;
    if (o->all_layers)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "all layers: compressed-tensors leaves embedding and output head as they are");
    return PN_OK;
}

pn_status pn_export_fit(pn_compress_options *o, pn_error *err) {
    if (o->format == PN_FORMAT_GGUF) PN_TRY(fit_to_gguf(o, err));
    if (o->format == PN_FORMAT_COMPRESSED_TENSORS) PN_TRY(fit_to_compressed_tensors(o, err));
    if (o->group_size == 0) o->group_size = 128;
    if (o->backup == PN_BACKUP_AUTO) o->backup = PN_BACKUP_INT8_ASYM;
    return PN_OK;
}

/* ---- tensors ---- */

pn_status pn_export_tensors_of(const pn_gguf *source, const pn_gguf *compressed, pn_export_tensors *out,
                               pn_error *err) {
    const size_t n = pn_gguf_n_tensors(source);
    pn_export_tensors tensors = {pn_alloc(PN_MEM_OTHER, n, sizeof *tensors.items), n};
    if (!tensors.items) return pn_fail_memory(err, "tensor table", n * sizeof *tensors.items);
    for (size_t i = 0; i < n; i++) {
        pn_export_tensor *e = &tensors.items[i];
        const pn_gguf_tensor *t = pn_gguf_tensor_at(compressed, i), *before = pn_gguf_tensor_at(source, i);
        const pn_qtype *type = pn_qtype_find(t->type);
        e->kind = pn_panel_kind_of(type);
        e->compressed =
            type->block_rows > 1 && e->kind < PN_PANEL_CODED_COUNT && pn_panel_formats[e->kind].apart;
        e->group = type->row_bytes > 0 ? 0 : type->block_len;
        e->tensor = e->compressed || t->type == before->type ? t : before;
    }
    *out = tensors;
    return PN_OK;
}

void pn_export_tensors_done(pn_export_tensors *tensors) {
    pn_free(tensors->items);
    *tensors = (pn_export_tensors){0};
}

/* ---- where they go ---- */

struct target {
    const char *path;
    const pn_compress_options *options;
    const pn_gguf *source;
    pn_hf_folder *folder; /* NULL: a file */
};

/* Refuses what cannot be written before the work begins. */
static pn_status begin(struct target *t, pn_error *err) {
    if (t->options->format == PN_FORMAT_COMPRESSED_TENSORS)
        return pn_hf_folder_create(t->source, t->path, &t->folder, err);
    return pn_gguf_blocks_check(t->source, err);
}

/* What the result says of the tensors is that of the format now. */
static void describe(const struct target *target, const pn_export_tensors *tensors,
                     pn_compress_result *result) {
    result->bytes_after = 0;
    for (size_t i = 0; i < tensors->n; i++) {
        const pn_export_tensor *e = &tensors->items[i];
        pn_compressed_tensor *t = &result->tensors[i];
        if (target->folder) {
            t->type_after = pn_hf_type_name(e);
            t->bytes_after = pn_hf_bytes(e);
        } else {
            const pn_qtype *type = pn_gguf_block_type(e);
            t->type_after = type->name;
            t->bytes_after = pn_qtype_bytes(type, e->tensor->dims);
        }
        result->bytes_after += t->bytes_after;
    }
}

static pn_status write_tensors(const struct target *target, const pn_export_tensors *tensors,
                               pn_compress_result *result, pn_error *err) {
    size_t len;
    describe(target, tensors, result);
    char *report = pn_report_json(result, &len);
    if (!report) return pn_fail_memory(err, "report", len);
    pn_status status = target->folder ? pn_hf_folder_write(target->folder, tensors, report, len, err)
                                      : pn_gguf_blocks_write(target->path, target->source, tensors,
                                                             target->options->mode, report, len, err);
    pn_free(report);
    return status;
}

static pn_status write_all(const struct target *target, const char *panels, pn_compress_result *result,
                           pn_error *err) {
    pn_gguf *compressed;
    pn_export_tensors tensors;
    PN_TRY(pn_gguf_open(panels, &compressed, err));
    pn_status status = pn_export_tensors_of(target->source, compressed, &tensors, err);
    if (status == PN_OK) {
        status = write_tensors(target, &tensors, result, err);
        pn_export_tensors_done(&tensors);
    }
    pn_gguf_close(compressed);
    return status;
}

/* ---- both steps ---- */

static char *panels_path(const char *path) {
    pn_buf buf;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%.*s.panels.partial", (int)len, path);
    char *text = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return text;
}

static pn_status compress_and_export(const char *in_path, const char *out_path,
                                     const pn_compress_options *options, pn_progress_fn progress, void *user,
                                     pn_compress_result *result, pn_error *err) {
    const double start = pn_clock_seconds();
    struct target target = {.path = out_path, .options = options};
    pn_gguf *source;
    pn_compress_result filled = {0};
    char *panels = panels_path(out_path);
    if (!panels) return pn_fail_memory(err, "file name", strlen(out_path));
    pn_status status = pn_gguf_open(in_path, &source, err);
    if (status != PN_OK) {
        pn_free(panels);
        return status;
    }
    target.source = source;
    status = begin(&target, err);
    if (status == PN_OK)
        status = pn_compress_to_panels(in_path, panels, options, progress, user, &filled, err);
    if (status == PN_OK) {
        status = write_all(&target, panels, &filled, err);
        unlink(panels);
    }
    if (status == PN_OK) {
        filled.seconds = pn_clock_seconds() - start;
        *result = filled;
    } else {
        pn_compress_result_free(&filled);
    }
    pn_hf_folder_free(target.folder);
    pn_gguf_close(source);
    pn_free(panels);
    return status;
}

pn_status pn_compress_weights(const char *in_path, const char *out_path, const pn_compress_options *options,
                              pn_progress_fn progress, void *user, pn_compress_result *result,
                              pn_error *err) {
    pn_compress_options o = options ? *options : pn_compress_options_default();
    if (!in_path || !out_path || !result)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "pn_compress_weights needs two paths and a place for the result");
    PN_TRY(pn_export_fit(&o, err));
    PN_TRY(pn_compress_check(&o, err));
    return (o.format == PN_FORMAT_POSTERN ? pn_compress_to_panels : compress_and_export)(
        in_path, out_path, &o, progress, user, result, err);
}
