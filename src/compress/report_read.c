/* SPDX-License-Identifier: Apache-2.0 */
/* A report as it stands in a file, which may be anything. */
#include "compress/report.h"

#include "base/mem.h"
#include "base/quote.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

/* A model of 200 layers has half a megabyte. JSON takes some forty times its length in memory. */
#define MAX_TEXT   ((size_t)16 << 20)
#define MOST_ERROR 1e30 /* 1 is as bad as no matrix at all */

/* One report under way. The first fault sticks. */
struct reader {
    pn_arena *arena;
    pn_error *err;
    pn_status status;
};

static void fault(struct reader *r, const char *key, const char *expected) {
    if (r->status == PN_OK) r->status = pn_fail(r->err, PN_ERR_FORMAT, "\"%s\" is not %s", key, expected);
}

static void no_memory(struct reader *r, size_t bytes) {
    if (r->status == PN_OK) r->status = pn_fail_memory(r->err, "report", bytes);
}

/* ---- values; those of keys that are absent are faults but for the optional ones ---- */

static const char *get_text(struct reader *r, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) {
        fault(r, key, "a text");
        return "";
    }
    const char *text = pn_arena_copy(r->arena, json_string_value(value), json_string_length(value));
    if (!text) no_memory(r, json_string_length(value));
    return text;
}

static const char *get_optional_text(struct reader *r, const json_t *object, const char *key,
                                     const char *absent) {
    return json_object_get(object, key) ? get_text(r, object, key) : absent;
}

static int64_t get_integer(struct reader *r, const json_t *object, const char *key, int64_t min,
                           int64_t max) {
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value) && json_integer_value(value) >= min && json_integer_value(value) <= max)
        return json_integer_value(value);
    fault(r, key, "a whole number that is possible");
    return min;
}

static double get_number(struct reader *r, const json_t *object, const char *key, double max) {
    const json_t *value = json_object_get(object, key);
    const double x = json_number_value(value);
    if (json_is_number(value) && x >= 0 && x <= max) return x;
    fault(r, key, "a number that is possible");
    return 0;
}

static double get_optional_number(struct reader *r, const json_t *object, const char *key, double max) {
    return json_object_get(object, key) ? get_number(r, object, key, max) : 0;
}

/* A type's name, which lives as long as the program; so there are no more of them than types. */
static const char *get_type(struct reader *r, const json_t *object, const char *key) {
    const char *name = json_string_value(json_object_get(object, key));
    const pn_qtype *type;
    for (size_t i = 0; name && (type = pn_qtype_at(i)); i++)
        if (strcmp(type->name, name) == 0) return type->name;
    fault(r, key, "the name of a type that this version knows");
    return "";
}

/* ---- the object ---- */

static void read_tensor(struct reader *r, const json_t *object, pn_compressed_tensor *out) {
    *out =
        (pn_compressed_tensor){.name = get_text(r, object, "name"),
                               .type_before = get_type(r, object, "type_before"),
                               .type_after = get_type(r, object, "type_after"),
                               .why = get_optional_text(r, object, "why", NULL),
                               .method = get_optional_text(r, object, "method", NULL),
                               .bits = (int)get_integer(r, object, "bits", 0, 32),
                               .n_weights = (uint64_t)get_integer(r, object, "weights", 0, INT64_MAX),
                               .bytes_before = (uint64_t)get_integer(r, object, "bytes_before", 0, INT64_MAX),
                               .bytes_after = (uint64_t)get_integer(r, object, "bytes_after", 0, INT64_MAX),
                               .error = get_number(r, object, "error", MOST_ERROR),
                               .output_error = get_optional_number(r, object, "output_error", MOST_ERROR)};
}

static void read_tensors(struct reader *r, const json_t *list, pn_compress_result *out) {
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) fault(r, "tensors", "an array");
    out->tensors = pn_arena_alloc(r->arena, n * sizeof *out->tensors);
    if (!out->tensors) no_memory(r, n * sizeof *out->tensors);
    for (size_t i = 0; i < n && r->status == PN_OK; i++) {
        pn_compressed_tensor *t = &out->tensors[out->n_tensors++];
        read_tensor(r, json_array_get(list, i), t);
        out->bytes_before += t->bytes_before; /* of two that fit 63 bits: no wrap */
        out->bytes_after += t->bytes_after;
        if (out->bytes_before > INT64_MAX || out->bytes_after > INT64_MAX)
            fault(r, "tensors", "of a size that is possible");
        if (r->status != PN_OK) pn_error_prefix(r->err, "tensor %zu", i);
    }
}

static void read_calibration(struct reader *r, const json_t *calibration, pn_compress_result *out) {
    out->ways = "";
    if (!calibration) return;
    out->calibration_sequences = (int)get_integer(r, calibration, "samples", 1, INT_MAX);
    out->calibration_tokens = (int)get_integer(r, calibration, "sample_tokens", 1, INT_MAX);
    out->calibrated_on_self = json_is_true(json_object_get(calibration, "self"));
    out->ways = get_optional_text(r, calibration, "ways", "");
}

static void read_report(struct reader *r, const json_t *object, pn_compress_result *out) {
    out->source = get_text(r, object, "source");
    out->source_hash = get_text(r, object, "source_hash");
    out->mode = get_text(r, object, "mode");
    out->backup = get_text(r, object, "backup_mode");
    out->group_size = (int)get_integer(r, object, "group_size", -1, INT_MAX);
    out->all_layers = json_is_true(json_object_get(object, "all_layers"));
    out->ratio_asked = get_number(r, object, "ratio", 1);
    out->ratio = get_number(r, object, "ratio_reached", 1);
    out->target_bits = get_optional_number(r, object, "target_bits", 32);
    if (json_object_get(object, "target_bytes"))
        out->target_bytes = (uint64_t)get_integer(r, object, "target_bytes", 0, INT64_MAX);
    out->sensitivity = get_optional_text(r, object, "sensitivity", "");
    read_calibration(r, json_object_get(object, "calibration"), out);
    read_tensors(r, json_object_get(object, "tensors"), out);
}

static pn_status parse(const json_t *object, pn_compress_result *out, pn_error *err) {
    struct reader r = {.arena = pn_alloc(PN_MEM_OTHER, 1, sizeof *r.arena), .err = err};
    pn_compress_result result = {.memory = r.arena};
    if (!r.arena) return pn_fail_memory(err, "report", sizeof *r.arena);
    pn_arena_init(r.arena, 0);
    read_report(&r, object, &result);
    if (r.status == PN_OK)
        *out = result;
    else
        pn_compress_result_free(&result);
    return r.status;
}

pn_status pn_report_parse(const char *json, size_t len, pn_compress_result *out, pn_error *err) {
    json_error_t fault_at;
    if (len > MAX_TEXT)
        return pn_fail(err, PN_ERR_LIMIT, "a report of %zu bytes: none has more than %zu", len, MAX_TEXT);
    json_t *object = json_loadb(json, len, 0, &fault_at);
    if (!object)
        return pn_fail(err, PN_ERR_FORMAT, "no JSON object: %s, at byte %d",
                       pn_quote(pn_str_from(fault_at.text)).text, fault_at.position);
    pn_status status = parse(object, out, err);
    json_decref(object);
    return status;
}

/* ---- of a file ---- */

/* Whether the file is still what the report says: another program may have changed its tensors and kept the
   key. */
static pn_status check_tensors(const pn_gguf *file, const pn_compress_result *r, pn_error *err) {
    if (r->n_tensors != pn_gguf_n_tensors(file))
        return pn_fail(err, PN_ERR_FORMAT, "it is of %zu tensors, the file has %zu", r->n_tensors,
                       pn_gguf_n_tensors(file));
    for (size_t i = 0; i < r->n_tensors; i++) {
        const pn_gguf_tensor *t = pn_gguf_find_tensor(file, r->tensors[i].name);
        if (t && strcmp(pn_qtype_find(t->type)->name, r->tensors[i].type_after) == 0) continue;
        return pn_fail(err, PN_ERR_FORMAT, "the file has no tensor %s of type %s",
                       pn_quote(pn_str_from(r->tensors[i].name)).text, r->tensors[i].type_after);
    }
    return PN_OK;
}

static pn_status read_of_file(const pn_gguf *file, const char *path, pn_compress_result *out, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(file, PN_REPORT_KEY);
    if (!value)
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "%s holds no report: it was not written by `postern compress`", path);
    if (value->type != PN_GGUF_STRING) return pn_fail(err, PN_ERR_FORMAT, "%s is no text", PN_REPORT_KEY);
    pn_compress_result r;
    PN_TRY(pn_report_parse(value->as.str.data, value->as.str.len, &r, err));
    pn_status status = check_tensors(file, &r, err);
    if (status == PN_OK)
        *out = r;
    else
        pn_compress_result_free(&r);
    return status;
}

pn_status pn_compress_read_report(const char *path, pn_compress_result *out, pn_error *err) {
    if (!path || !out)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "pn_compress_read_report needs a path and a place for the result");
    pn_gguf *file;
    PN_TRY(pn_gguf_open(path, &file, err));
    pn_status status = read_of_file(file, path, out, err);
    if (status != PN_OK && status != PN_ERR_UNSUPPORTED)
        pn_error_prefix(err, "the report of compression in %s cannot be read", path);
    pn_gguf_close(file);
    return status;
}
