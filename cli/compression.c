/* SPDX-License-Identifier: Apache-2.0 */
#include "compression.h"

#include "common.h"
#include "json_out.h"
#include "options.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

static double bits_of(const pn_compress_result *r, uint64_t bytes) {
    double weights = 0;
    for (size_t i = 0; i < r->n_tensors; i++)
        weights += (double)r->tensors[i].n_weights;
    return weights > 0 ? 8 * (double)bytes / weights : 0;
}

double compression_bits_per_weight(const pn_compress_result *r) {
    return bits_of(r, r->bytes_after);
}

/* ---- JSON ---- */

static void set(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, json_need(value));
}

static json_t *text_json(const char *text) {
    return json_from_text(text, strlen(text));
}

static json_t *tensor_json(const pn_compressed_tensor *t) {
    json_t *object = json_need(json_pack(
        "{s:o, s:s, s:s, s:i, s:I, s:I, s:I, s:f}", "name", text_json(t->name), "type_before", t->type_before,
        "type_after", t->type_after, "bits", t->bits, "weights", (json_int_t)t->n_weights, "bytes_before",
        (json_int_t)t->bytes_before, "bytes_after", (json_int_t)t->bytes_after, "error", t->error));
    if (t->output_error > 0) set(object, "output_error", json_real(t->output_error));
    if (t->why) set(object, "why", text_json(t->why));
    if (t->method) set(object, "method", text_json(t->method));
    if (t->seconds > 0) set(object, "seconds", json_real(t->seconds));
    return object;
}

json_t *compression_json(const pn_compress_result *r) {
    json_t *tensors = json_need(json_array());
    for (size_t i = 0; i < r->n_tensors; i++)
        json_array_append_new(tensors, tensor_json(&r->tensors[i]));
    json_t *object = json_need(json_pack(
        "{s:o, s:o, s:o, s:i, s:f, s:o, s:b, s:I, s:I, s:f, s:f}", "source", text_json(r->source),
        "source_hash", text_json(r->source_hash), "mode", text_json(r->mode), "group_size", r->group_size,
        "ratio", r->ratio_asked, "backup_mode", text_json(r->backup), "all_layers", (int)r->all_layers,
        "bytes_before", (json_int_t)r->bytes_before, "bytes_after", (json_int_t)r->bytes_after,
        "bits_per_weight", compression_bits_per_weight(r), "ratio_reached", r->ratio));
    if (r->target_bytes > 0) set(object, "target_bytes", json_integer((json_int_t)r->target_bytes));
    if (r->target_bits > 0) set(object, "target_bits", json_real(r->target_bits));
    if (r->calibration_sequences > 0)
        set(object, "calibration",
            json_pack("{s:i, s:i, s:b, s:o}", "samples", r->calibration_sequences, "sample_tokens",
                      r->calibration_tokens, "self", (int)r->calibrated_on_self, "ways", text_json(r->ways)));
    if (r->sensitivity[0]) set(object, "sensitivity", text_json(r->sensitivity));
    if (r->kl > 0) {
        set(object, "kl", json_real(r->kl));
        set(object, "kl_stderr", json_real(r->kl_error));
    }
    if (r->seconds > 0) set(object, "seconds", json_real(r->seconds));
    set(object, "tensors", tensors);
    return object;
}

/* ---- text ---- */

static void print_label(FILE *out, const char *label) {
    fprintf(out, "  %-14s", label);
}

static void print_escaped(FILE *out, const char *text) {
    term_print_escaped(out, text, strlen(text));
}

static void print_asked(FILE *out, const pn_compress_result *r) {
    char size[TERM_BYTES_MAX];
    print_label(out, "asked");
    print_escaped(out, r->mode);
    if (r->group_size > 0)
        fprintf(out, ", groups of %d", r->group_size);
    else
        fputs(", a scale per row", out);
    if (r->target_bytes > 0)
        fprintf(out, ", %s", term_bytes(r->target_bytes, size));
    else if (r->target_bits > 0)
        fprintf(out, ", %.3g bits per weight", r->target_bits);
    else
        fprintf(out, ", %.1f%% of the layers' weights in 4 bits", 100 * r->ratio_asked);
    if (r->sensitivity[0]) {
        fputs(", sensitivity ", out);
        print_escaped(out, r->sensitivity);
    }
    fputs(", backup ", out);
    print_escaped(out, r->backup);
    fputs(r->all_layers ? ", with embedding and output head\n" : "\n", out);
}

static void print_calibration(FILE *out, const pn_compress_result *r) {
    if (r->calibration_sequences == 0) {
        fputs("none\n", out);
        return;
    }
    fprintf(out,
            "%s%d pieces of %d tokens, tried: ", r->calibrated_on_self ? "on the model's own text, " : "on ",
            r->calibration_sequences, r->calibration_tokens);
    print_escaped(out, r->ways[0] ? r->ways : "no more than the nearest codes");
    fputc('\n', out);
}

void compression_print_facts(FILE *out, const pn_compress_result *r) {
    char before[TERM_BYTES_MAX], after[TERM_BYTES_MAX];
    print_label(out, "source");
    print_escaped(out, r->source);
    fputs(" (", out);
    print_escaped(out, r->source_hash);
    fputs(")\n", out);
    print_asked(out, r);
    print_label(out, "calibration");
    print_calibration(out, r);
    print_label(out, "reached");
    fprintf(out, "%.1f%% of the layers' weights in 4 bits, %.2f bits per weight\n", 100 * r->ratio,
            compression_bits_per_weight(r));
    print_label(out, "size");
    fprintf(out, "%s instead of %s", term_bytes(r->bytes_after, after), term_bytes(r->bytes_before, before));
    if (r->bytes_before > 0)
        fprintf(out, " (%.0f%%)", 100 * (double)r->bytes_after / (double)r->bytes_before);
    fputc('\n', out);
}

/* ---- by type ---- */

/* Mean over weights, and the greatest. */
typedef struct errors {
    double sum, weights, worst;
    const char *worst_name;
} errors;

static void add_error(errors *e, double error, const pn_compressed_tensor *t) {
    if (error <= 0) return;
    e->sum += error * (double)t->n_weights;
    e->weights += (double)t->n_weights;
    if (error <= e->worst) return;
    e->worst = error;
    e->worst_name = t->name;
}

static double mean(const errors *e) {
    return e->weights > 0 ? e->sum / e->weights : 0;
}

/* type: of those that became it; NULL: of all. */
static errors weight_errors(const pn_compress_result *r, const char *type) {
    errors e = {0};
    for (size_t i = 0; i < r->n_tensors; i++)
        if (!type || strcmp(r->tensors[i].type_after, type) == 0)
            add_error(&e, r->tensors[i].error, &r->tensors[i]);
    return e;
}

static errors output_errors(const pn_compress_result *r) {
    errors e = {0};
    for (size_t i = 0; i < r->n_tensors; i++)
        add_error(&e, r->tensors[i].output_error, &r->tensors[i]);
    return e;
}

static void print_type(FILE *out, const pn_compress_result *r, const char *type) {
    char size[TERM_BYTES_MAX];
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        if (strcmp(r->tensors[i].type_after, type) != 0) continue;
        n++;
        bytes += r->tensors[i].bytes_after;
    }
    const errors e = weight_errors(r, type);
    fprintf(out, "  %-22s %8zu %12s", type, n, term_bytes(bytes, size));
    if (e.worst > 0) fprintf(out, " %12.2g %12.2g", mean(&e), e.worst);
    fputc('\n', out);
}

static void print_worst(FILE *out, const char *label, errors e) {
    if (!e.worst_name) return;
    fprintf(out, "  error of %s: %.2g in the mean, at most %.2g, of ", label, mean(&e), e.worst);
    print_escaped(out, e.worst_name);
    fputc('\n', out);
}

/* The types that tensors became, in the order in which they first appear. */
static cli_texts types_of(const pn_compress_result *r) {
    cli_texts types = {0};
    for (size_t i = 0; i < r->n_tensors; i++) {
        size_t found = 0;
        while (found < types.n && strcmp(types.items[found], r->tensors[i].type_after) != 0)
            found++;
        if (found < types.n) continue;
        types.items = cli_realloc(types.items, types.n + 1, sizeof *types.items);
        types.items[types.n++] = r->tensors[i].type_after;
    }
    return types;
}

void compression_print_types(FILE *out, const pn_compress_result *r) {
    cli_texts types = types_of(r);
    fprintf(out, "  %-22s %8s %12s %12s %12s\n", "type", "number", "bytes", "mean error", "worst");
    for (size_t i = 0; i < types.n; i++)
        print_type(out, r, types.items[i]);
    free(types.items);
    print_worst(out, "weights", weight_errors(r, NULL));
    print_worst(out, "outputs", output_errors(r));
}

/* ---- by tensor ---- */

static void print_number(FILE *out, int columns, const char *format, double x) {
    char text[32] = "";
    if (x > 0) snprintf(text, sizeof text, format, x);
    fprintf(out, " %*s", columns, text);
}

static void print_tensor(FILE *out, const pn_compressed_tensor *t, size_t name_columns) {
    const size_t width = term_width(t->name, strlen(t->name));
    fputs("  ", out);
    print_escaped(out, t->name);
    fprintf(out, "%*s", (int)(name_columns > width ? name_columns - width : 0), "");
    fprintf(out, " %-6s %-20s %12llu %12llu", t->type_before, t->type_after,
            (unsigned long long)t->bytes_before, (unsigned long long)t->bytes_after);
    print_number(out, 9, "%.2e", t->error);
    print_number(out, 9, "%.2e", t->output_error);
    print_number(out, 8, "%.3f", t->seconds);
    fputs("  ", out);
    print_escaped(out, t->method ? t->method : "-");
    if (t->why) {
        fputs(": ", out);
        print_escaped(out, t->why);
    }
    fputc('\n', out);
}

void compression_print_tensors(FILE *out, const pn_compress_result *r) {
    const size_t most = 40;
    size_t columns = strlen("tensor");
    for (size_t i = 0; i < r->n_tensors; i++) {
        const size_t width = term_width(r->tensors[i].name, strlen(r->tensors[i].name));
        if (width > columns) columns = width < most ? width : most;
    }
    fprintf(out, "  %-*s %-6s %-20s %12s %12s %9s %9s %8s  %s\n", (int)columns, "tensor", "was", "is",
            "bytes before", "bytes after", "error", "of output", "seconds", "method: why it became that");
    for (size_t i = 0; i < r->n_tensors; i++)
        print_tensor(out, &r->tensors[i], columns);
}

/* ---- to a file ---- */

static bool ends_with(const char *text, const char *suffix) {
    const size_t n = strlen(text), n_suffix = strlen(suffix);
    return n >= n_suffix && strcmp(text + n - n_suffix, suffix) == 0;
}

static void write_json(FILE *out, const pn_compress_result *r, const char *name) {
    json_t *object = compression_json(r);
    set(object, "file", text_json(name));
    json_dumpf(object, out, JSON_REAL_PRECISION(6) | JSON_INDENT(1));
    fputc('\n', out);
    json_decref(object);
}

static void write_text(FILE *out, const pn_compress_result *r, const char *name) {
    print_escaped(out, name);
    fputc('\n', out);
    compression_print_facts(out, r);
    fputc('\n', out);
    compression_print_types(out, r);
    fputc('\n', out);
    compression_print_tensors(out, r);
}

int compression_write(out_file *file, const pn_compress_result *r, const char *name) {
    if (ends_with(file->path, ".svg"))
        compression_draw(file->file, r, name);
    else if (ends_with(file->path, ".json"))
        write_json(file->file, r, name);
    else
        write_text(file->file, r, name);
    return out_file_finish(file);
}
