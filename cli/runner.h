/* SPDX-License-Identifier: Apache-2.0 */
/* A model with a session, and one answer of it: what `run`, its chat and `bench` are built from. */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include <postern.h>

#include <jansson.h>
#include <stdio.h>

typedef struct runner {
    const char *path;
    pn_model *model;
    pn_session *session;
    pn_model_info info;
    pn_model_options model_options;
    pn_session_options session_options;
    double load_seconds;
    uint64_t memory_budget; /* 0: what the machine leaves */
    uint64_t planned_bytes; /* of all, when the session began; and the budget then, 0: none */
    uint64_t budget_bytes;
} runner;

#define RUNNER_USUAL_CTX 4096 /* tokens, where none are asked for */

/* The option --memory-budget. */
#define RUNNER_BUDGET_HELP                                                                                   \
    "most memory for weights, keys and values and all else (default: what the machine leaves, but for a "    \
    "twentieth); what would pass it is refused before the weights are read"

/* The options --threads and --threads-decode. */
#define RUNNER_THREADS_HELP "threads (default: chosen, within what this process may use)"
#define RUNNER_THREADS_DECODE_HELP                                                                           \
    "threads that generate, where they are not to be as many as read the prompt"

/* The option --now. */
#define RUNNER_NOW_HELP                                                                                      \
    "date that the template sees: 2026-01-02, 2026-01-02T03:04:05 or Unix seconds, in UTC (default: the "    \
    "clock)"

/* The option --kv-type, in the order of pn_kv_type. */
#define RUNNER_KV_TYPES "f16|f32|q8|q4|k8v4"
#define RUNNER_KV_TYPES_HELP                                                                                 \
    "what keys and values are kept as: f16 (default), f32, or codes of 8 bits (q8), 4 bits (q4), or 8 for "  \
    "keys and 4 for values (k8v4)"

/* The option --precision, in the order of pn_precision, and the name of what was chosen. */
#define RUNNER_PRECISIONS "high|exact|fast"
#define RUNNER_PRECISION_HELP                                                                                \
    "what activations are rounded to in a product with integer weights: 16 bits (high, the default), "       \
    "nothing "                                                                                               \
    "(exact, slow) or 8 bits (fast)"
const char *runner_precision_name(pn_precision precision);
const char *runner_kv_type_name(pn_kv_type type);

/* Where the keys and values of a model's system message are baked, unless another name is given: MODEL.kv.
   For free(). */
char *runner_baked_path(const char *model_path);

/* Opens the model at path, which must outlive the runner, by r->model_options. Prints the error and returns
   the exit code. */
int runner_open(runner *r, const char *path);
/* Says what the session will hold at most when `announce`, then creates it by r->session_options. */
int runner_start(runner *r, bool announce);
void runner_close(runner *r);
/* "2 threads", "8 threads (4 to decode)" */
#define RUNNER_THREADS_MAX 64
const char *runner_threads(const runner *r, char text[RUNNER_THREADS_MAX]);
/* The name the file gives the model, or the file's own. */
const char *runner_name(const runner *r);

/* Generates after prompt, with options->on_text, on_prefill and user set to stream to `out` (NULL: nowhere)
   and to show progress. Ctrl-C cancels, as result->finish tells; with `once` a second Ctrl-C ends the
   process. PN_ERR_IO when out cannot be written. */
pn_status runner_answer(runner *r, const pn_tokens *prompt, const pn_generate_options *options, FILE *out,
                        bool once, pn_generate_result *result, pn_error *err);

/* Says on standard error what was cut out of the text, or packed to fewer bits, if anything. */
void runner_note_pressure(const runner *r, const pn_generate_result *result);

/* What a sync reused, and why not more: of its prompt explained before, and of the session after it. */
void runner_print_cache(const runner *r, const pn_cache_explanation *why, const pn_generate_result *result);
json_t *runner_cache_json(const runner *r, const pn_cache_explanation *why, const pn_generate_result *result);

/* Tokens per second; 0 when nothing was timed. */
double runner_prefill_rate(const pn_generate_result *result);
double runner_decode_rate(const pn_generate_result *result);
/* The most that was held so far, by the library's own count and by the system's; as members of an object
   beside what was planned, and as a line. */
typedef struct runner_memory {
    pn_memory_use peak;
    uint64_t peak_rss;
} runner_memory;
runner_memory runner_measure_memory(void);
void runner_add_memory(const runner *r, const runner_memory *memory, json_t *object);
void runner_print_budget(FILE *to, const runner *r, const runner_memory *memory);
/* Times, rates, bytes and seed of an answer, on standard error. */
void runner_print_stats(const runner *r, const pn_generate_result *result);
/* The object of `run --json`. */
json_t *runner_answer_json(const runner *r, const pn_generate_result *result);

#endif
