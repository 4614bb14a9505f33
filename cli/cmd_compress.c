/* SPDX-License-Identifier: Apache-2.0 */
/* postern compress: a model of float weights in integers. */
#include "command.h"
#include "common.h"
#include "compression.h"
#include "json_out.h"
#include "numbers.h"
#include "term.h"

#include <string.h>
#include <sys/stat.h>

typedef struct compress_args {
    int format, mode, backup, fallback, sensitivity, group_size, n_threads;
    int scales, zeros, gptq, awq; /* 0: on */
    float ratio, target_bits, target_kl;
    uint64_t target_bytes;
    cli_texts ignore;
    const char *calibration, *statistics, *report;
    uint64_t memory_limit;
    cli_seed seed;
    int samples, sample_tokens;
    bool all_layers, force, json;
} compress_args;

/* In the order of the library's enumerations. */
static const cli_option options[] = {
    {CLI_GROUP, .help = "what weights become"},
    {CLI_CHOICE, 0, "format", "postern|gguf|compressed-tensors", offsetof(compress_args, format), 0, 0,
     "what OUT is: a file laid out for postern, one of Q4_0, Q4_1 and Q8_0, which others read too, or a "
     "folder for transformers and vLLM"},
    {CLI_CHOICE, 0, "mode", "int4_asym|int4_sym|int8_asym|int8_sym", offsetof(compress_args, mode), 0, 0,
     "bits of a weight, from an offset of its own (asym) or around zero (sym)"},
    {CLI_INT, 0, "group-size", "N", offsetof(compress_args, group_size), -1, 128,
     "weights that share a scale in 4 bits: 32, 64, 128, or -1 for all of a row; 0: 128, or the 32 of gguf"},
    {CLI_CHOICE, 0, "group-size-fallback", "adjust|ignore|error", offsetof(compress_args, fallback), 0, 0,
     "where that does not divide a row: a smaller group, leave the matrix, or end"},
    {CLI_TEXTS, 0, "ignore", "PATTERN", offsetof(compress_args, ignore), 0, 0,
     "leave the tensors whose names match, with * and ?; may be repeated"},
    {CLI_GROUP, .help = "how much of the model"},
    {CLI_FLOAT, 0, "ratio", "R", offsetof(compress_args, ratio), 0, 1,
     "share of the layers' weights in 4 bits; those that suffer most have 8"},
    {CLI_BYTES, 0, "target-bytes", "SIZE", offsetof(compress_args, target_bytes), 0, 0,
     "instead: as much in 8 bits as the tensors may take together, as in 1.2G or 900M"},
    {CLI_FLOAT, 0, "target-bits", "B", offsetof(compress_args, target_bits), 0, 32,
     "instead: the same in bits per weight (0: none)"},
    {CLI_FLOAT, 0, "target-kl", "D", offsetof(compress_args, target_kl), 0, 100,
     "instead: as little as keeps the divergence from the model on the calibration text (0: none)"},
    {CLI_CHOICE, 0, "backup-mode", "auto|int8_asym|int8_sym|none", offsetof(compress_args, backup), 0, 0,
     "what the others become (auto: int8_asym, or int8_sym for others to read)"},
    {CLI_CHOICE, 0, "sensitivity", "auto|weight-error|activation-variance|hessian|measured",
     offsetof(compress_args, sensitivity), 0, 0,
     "by what the others are chosen: measured, from the layers' outputs, where there is calibration"},
    {CLI_ON, 0, "all-layers", NULL, offsetof(compress_args, all_layers), 0, 0,
     "count embedding and output head among the layers; else they have the backup mode"},
    {CLI_GROUP, .help = "calibration"},
    {CLI_TEXT, 0, "calibration", "FILE|self", offsetof(compress_args, calibration), 0, 0,
     "text that shows what the model reads, or what it says itself: weights are rounded for that"},
    {CLI_SEED, 0, "seed", "N", offsetof(compress_args, seed), 0, 0, "of what it says itself (default: 0)"},
    {CLI_INT, 0, "samples", "N", offsetof(compress_args, samples), 1, 100000,
     "pieces of the text, from all over it"},
    {CLI_INT, 0, "sample-tokens", "N", offsetof(compress_args, sample_tokens), 16, 8192, "tokens of a piece"},
    {CLI_CHOICE, 0, "scale-estimation", "on|off", offsetof(compress_args, scales), 0, 0,
     "fit scales to what errors do to a matrix's outputs"},
    {CLI_CHOICE, 0, "zero-search", "on|off", offsetof(compress_args, zeros), 0, 0, "and zero points"},
    {CLI_CHOICE, 0, "gptq", "on|off", offsetof(compress_args, gptq), 0, 0,
     "make up for the error of a column in those after it"},
    {CLI_CHOICE, 0, "awq", "on|off", offsetof(compress_args, awq), 0, 0,
     "stretch columns with great inputs; all four are kept per matrix where they help"},
    {CLI_TEXT, 0, "statistics", "FILE", offsetof(compress_args, statistics), 0, 0,
     "keep there what is measured, and take it from there another time"},
    {CLI_GROUP, .help = "other"},
    {CLI_BYTES, 0, "memory-limit", "SIZE", offsetof(compress_args, memory_limit), 0, 0,
     "working memory to stay within: less calibration, or an error before it begins"},
    {CLI_INT, 0, "threads", "N", offsetof(compress_args, n_threads), 1, 1024,
     "threads (default: all that this process may use)"},
    {CLI_TEXT, 0, "report", "FILE", offsetof(compress_args, report), 0, 0,
     "write what became of every tensor: a picture (.svg), JSON (.json) or text"},
    {CLI_ON, 0, "force", NULL, offsetof(compress_args, force), 0, 0,
     "replace OUT and the report when they are there already"},
    {CLI_ON, 0, "json", NULL, offsetof(compress_args, json), 0, 0,
     "one JSON object: what became of every tensor"},
    {.kind = CLI_END},
};

static void set_defaults(void *args) {
    compress_args *a = args;
    pn_compress_options o = pn_compress_options_default();
    a->format = (int)o.format;
    a->mode = (int)o.mode;
    a->backup = (int)o.backup;
    a->fallback = (int)o.fallback;
    a->group_size = o.group_size;
    a->ratio = (float)o.ratio;
    a->samples = o.calibration_sequences;
    a->sample_tokens = o.calibration_tokens;
}

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

/* ---- the result ---- */

static void print_json(const pn_compress_result *r, const char *out) {
    json_t *object = compression_json(r);
    json_object_set_new(object, "file", json_from_text(out, strlen(out)));
    json_object_set_new(object, "resumed", json_need(json_integer((json_int_t)r->n_resumed)));
    json_print(object);
    json_decref(object);
}

static void print_text(const pn_compress_result *r, const char *out) {
    char before[TERM_BYTES_MAX], after[TERM_BYTES_MAX];
    term_print_escaped(stdout, out, strlen(out));
    printf(": %s instead of %s (%.0f%%), %.2f bits per weight, in %.1f s\n",
           term_bytes(r->bytes_after, after), term_bytes(r->bytes_before, before),
           100 * (double)r->bytes_after / (double)r->bytes_before, compression_bits_per_weight(r),
           r->seconds);
    printf("%.1f%% of the layers' weights in 4 bits\n", 100 * r->ratio);
    if (r->kl > 0) printf("divergence from the model %.4f (+- %.4f)\n", r->kl, r->kl_error);
    if (r->n_resumed > 0) printf("%zu tensors were there already, from an interrupted run\n", r->n_resumed);
    compression_print_types(stdout, r);
}

/* The report's place is taken before the work begins. */
static int begin_report(const compress_args *a, const cli_texts *operands, out_file *report) {
    if (!a->report) return CLI_OK;
    for (size_t i = 0; i < operands->n; i++)
        if (strcmp(a->report, operands->items[i]) == 0)
            return cli_error(CLI_USAGE, "%s is a model: give the report another name", a->report);
    return out_file_begin(report, a->report, a->force);
}

static int show(const compress_args *a, const pn_compress_result *result, const char *out, out_file *report) {
    if (a->json)
        print_json(result, out);
    else
        print_text(result, out);
    int code = report->file ? compression_write(report, result, cli_file_name(out)) : CLI_OK;
    return cli_finish_output(code);
}

/* ---- the command ---- */

static int run(void *args, const cli_texts *operands) {
    const compress_args *a = args;
    const char *in = operands->items[0], *out = operands->items[1];
    struct stat st; /* a folder is never replaced: the library says so */
    if (!a->force && a->format != PN_FORMAT_COMPRESSED_TENSORS && stat(out, &st) == 0)
        return cli_error(CLI_USAGE, "%s is there already: give another name, or --force to replace it", out);
    cli_text text = {0};
    const bool self = a->calibration && strcmp(a->calibration, "self") == 0;
    out_file report = {0};
    int code = a->calibration && !self ? cli_read_file(a->calibration, &text) : CLI_OK;
    if (code == CLI_OK) code = begin_report(a, operands, &report);
    if (code != CLI_OK) {
        cli_text_free(&text);
        return code;
    }
    const pn_compress_options chosen = {.format = (pn_weight_format)a->format,
                                        .mode = (pn_weight_mode)a->mode,
                                        .group_size = a->group_size,
                                        .fallback = (pn_group_fallback)a->fallback,
                                        .ratio = (double)a->ratio,
                                        .target_bytes = a->target_bytes,
                                        .target_bits = (double)a->target_bits,
                                        .target_kl = (double)a->target_kl,
                                        .backup = (pn_backup_mode)a->backup,
                                        .sensitivity = (pn_sensitivity)a->sensitivity,
                                        .scale_estimation = a->scales == 0,
                                        .zero_search = a->zeros == 0,
                                        .gptq = a->gptq == 0,
                                        .awq = a->awq == 0,
                                        .all_layers = a->all_layers,
                                        .ignore = a->ignore.items,
                                        .n_ignore = a->ignore.n,
                                        .calibration = text.data,
                                        .calibration_len = text.len,
                                        .calibrate_on_self = self,
                                        .seed = a->seed.value,
                                        .statistics = a->statistics,
                                        .memory_limit = a->memory_limit,
                                        .calibration_sequences = a->samples,
                                        .calibration_tokens = a->sample_tokens,
                                        .n_threads = a->n_threads};
    pn_error err = {0};
    pn_compress_result result;
    term_progress progress;
    term_progress_begin(&progress, "compressing");
    pn_status status = pn_compress_weights(in, out, &chosen, on_progress, &progress, &result, &err);
    term_progress_end(&progress);
    cli_text_free(&text);
    code = status == PN_OK ? show(a, &result, out, &report) : cli_fail(&err);
    if (status == PN_OK) pn_compress_result_free(&result);
    out_file_drop(&report);
    return code;
}

const cli_command cmd_compress = {
    .name = "compress",
    .operands = "MODEL OUT",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "write a model of float weights with its weights in 4 and 8 bits",
    .description =
        "Rounds the matrices of a GGUF file of F32, F16 or BF16 weights to integers that share a scale in "
        "groups; activations keep their precision. The layers that suffer most from 4 bits have 8. OUT "
        "appears "
        "when it is whole, and says inside what was done.",
    .options = options,
    .args_size = sizeof(compress_args),
    .set_defaults = set_defaults,
    .run = run,
};
