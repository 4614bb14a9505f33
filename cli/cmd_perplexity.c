/* SPDX-License-Identifier: Apache-2.0 */
/* postern perplexity: how well a model predicts a text, and how near it is to its base. */
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "kv_layers.h"
#include "runner.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CTX_MIN    8
#define CTX_MAX    16777216
#define CHUNKS_MAX 1000000000

typedef struct perplexity_args {
    const char *text, *against, *save_reference, *kv_layers;
    int ctx, chunks, n_threads, kv_type, precision;
    uint64_t memory_budget;
    bool force, json;
} perplexity_args;

#define AT(field) offsetof(perplexity_args, field)

static const cli_option options[] = {
    {CLI_GROUP, .help = "what is measured"},
    {CLI_TEXT, 0, "text", "FILE", AT(text), 0, 0, "the text; - reads standard input"},
    {CLI_TEXT, 0, "against", "FILE", AT(against), 0, 0,
     "compare with the model that this one was made of, or with a reference that was saved of it"},
    {CLI_TEXT, 0, "save-reference", "FILE", AT(save_reference), 0, 0,
     "write what this model says of the text, to compare others with it"},
    {CLI_ON, 0, "force", NULL, AT(force), 0, 0, "replace the reference when it is there already"},
    {CLI_INT, 0, "ctx", "N", AT(ctx), CTX_MIN, CTX_MAX,
     "tokens of a chunk, of which the second half is scored (default 512, or those of the reference)"},
    {CLI_INT, 0, "chunks", "N", AT(chunks), 1, CHUNKS_MAX, "at most N chunks (default: the whole text)"},
    {CLI_GROUP, .help = "machine"},
    {CLI_BYTES, 0, "memory-budget", "SIZE", AT(memory_budget), 0, 0, RUNNER_BUDGET_HELP},
    {CLI_INT, 0, "threads", "N", AT(n_threads), 1, 1024, RUNNER_THREADS_HELP},
    {CLI_CHOICE, 0, "kv-type", RUNNER_KV_TYPES, AT(kv_type), 0, 0, RUNNER_KV_TYPES_HELP},
    {CLI_TEXT, 0, "kv-layers", "LIST", AT(kv_layers), 0, 0, KV_LAYERS_HELP},
    {CLI_CHOICE, 0, "precision", RUNNER_PRECISIONS, AT(precision), 0, 0, RUNNER_PRECISION_HELP},
    {CLI_GROUP, .help = "output"},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object"},
    {.kind = CLI_END},
};

typedef struct measurement {
    const perplexity_args *args;
    runner model, base; /* base.model is NULL with a reference, or without anything */
    pn_perplexity_result result;
    double seconds;
} measurement;

/* ---- output ---- */

/* "1.0123 ± 0.0045" under a name; a share is given in percent. */
static void print_estimate(const char *name, pn_estimate e, int digits, double scale, const char *unit) {
    printf("%-15s %.*f ± %.*f%s", name, digits, e.value * scale, digits, e.error * scale, unit);
}

static void print_comparison(const measurement *m) {
    const pn_perplexity_result *r = &m->result;
    print_estimate("base", r->base_ppl, 3, 1, "   ");
    term_print_escaped(stdout, m->args->against, strlen(m->args->against));
    if ((int)r->base_precision != m->args->precision)
        printf(", precision %s", runner_precision_name(r->base_precision));
    putchar('\n');
    print_estimate("ratio", r->ppl_ratio, 4, 1, "\n");
    printf("%-15s %s%.3g ± %.2g nats; 99 %% of tokens below %.3g, at most %.3g\n", "KL divergence",
           m->base.model == NULL ? "about " : "", r->kl.value, r->kl.error, r->kl_p99, r->kl_max);
    print_estimate("same first", r->same_top, 2, 100, " % of tokens\n");
}

static void print_text(const measurement *m) {
    const pn_perplexity_result *r = &m->result;
    char threads[RUNNER_THREADS_MAX];
    const char *name = runner_name(&m->model);
    double n_tokens = (double)r->n_chunks * r->n_ctx;
    term_print_escaped(stdout, name, strlen(name));
    printf(", %s, %s, precision %s\n", runner_threads(&m->model, threads), m->model.info.kernels,
           runner_precision_name((pn_precision)m->args->precision));
    printf("%zu %s of %d tokens, %zu tokens scored, in %.1f s (%.0f tokens/s)\n\n", r->n_chunks,
           r->n_chunks == 1 ? "chunk" : "chunks", r->n_ctx, r->n_scored, m->seconds, n_tokens / m->seconds);
    printf("%s", term_bold(stdout));
    print_estimate("perplexity", r->ppl, 3, 1, "");
    printf("%s\n", term_plain(stdout));
    if (m->args->against != NULL) print_comparison(m);
}

static void add_estimate(json_t *object, const char *name, pn_estimate e) {
    char *error = cli_format("%s_stderr", name);
    json_object_set_new(object, name, json_need(json_real(e.value)));
    json_object_set_new(object, error, json_need(json_real(e.error)));
    free(error);
}

static void add_comparison(json_t *object, const measurement *m) {
    const pn_perplexity_result *r = &m->result;
    json_object_set_new(object, "base", json_need(json_from_text(r->base_name, strlen(r->base_name))));
    json_object_set_new(object, "base_precision",
                        json_need(json_string(runner_precision_name(r->base_precision))));
    add_estimate(object, "base_ppl", r->base_ppl);
    add_estimate(object, "ppl_ratio", r->ppl_ratio);
    add_estimate(object, "kl", r->kl);
    json_object_set_new(object, "kl_p99", json_need(json_real(r->kl_p99)));
    json_object_set_new(object, "kl_max", json_need(json_real(r->kl_max)));
    json_object_set_new(object, "kl_is_estimate", json_boolean(m->base.model == NULL));
    add_estimate(object, "same_top", r->same_top);
}

static void print_object(const measurement *m) {
    const pn_perplexity_result *r = &m->result;
    const char *name = runner_name(&m->model);
    json_t *object = json_need(
        json_pack("{s:o, s:s, s:i, s:I, s:I, s:f}", "model", json_from_text(name, strlen(name)), "precision",
                  runner_precision_name((pn_precision)m->args->precision), "ctx", r->n_ctx, "chunks",
                  (json_int_t)r->n_chunks, "scored_tokens", (json_int_t)r->n_scored, "seconds", m->seconds));
    add_estimate(object, "ppl", r->ppl);
    if (m->args->against != NULL) add_comparison(object, m);
    json_print(object);
    json_decref(object);
}

/* ---- work ---- */

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

static bool is_model_file(const char *path) {
    char magic[4] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) return true; /* opening it as a model says what is wrong */
    bool whole = fread(magic, 1, sizeof magic, file) == sizeof magic;
    fclose(file);
    return whole && memcmp(magic, "GGUF", sizeof magic) == 0;
}

static int measure(measurement *m, const char *path, const cli_text *text) {
    const perplexity_args *a = m->args;
    kv_layers layers;
    pn_model_options model_options = {.n_threads = a->n_threads, .prefix_cache = PN_PREFIX_CACHE_OFF};
    bool with_base = a->against != NULL && is_model_file(a->against);
    m->model.memory_budget = m->base.memory_budget = a->memory_budget;
    m->base.model_options = model_options;
    int code = kv_layers_set(&layers, a->kv_layers, &model_options);
    m->model.model_options = model_options;
    if (code == CLI_OK) code = runner_open(&m->model, path);
    if (code == CLI_OK && with_base) code = runner_open(&m->base, a->against);
    if (code != CLI_OK) return code;
    pn_error err = {0};
    term_progress progress;
    const pn_perplexity_options chosen = {.n_ctx = a->ctx,
                                          .n_chunks = (size_t)a->chunks,
                                          .base = m->base.model,
                                          .reference = with_base ? NULL : a->against,
                                          .save_reference = a->save_reference,
                                          .kv_type = (pn_kv_type)a->kv_type,
                                          .precision = (pn_precision)a->precision,
                                          .progress = on_progress,
                                          .user = &progress};
    double begin = cli_now();
    term_progress_begin(&progress, "reading the text");
    pn_status status = pn_perplexity(m->model.model, text->data, text->len, &chosen, &m->result, &err);
    term_progress_end(&progress);
    m->seconds = cli_now() - begin;
    return status == PN_OK ? CLI_OK : cli_fail(&err);
}

static int run(void *args, const cli_texts *operands) {
    measurement m = {.args = args};
    const char *saved = m.args->save_reference;
    cli_text text = {0};
    struct stat st;
    if (m.args->text == NULL)
        return cli_error(CLI_USAGE, "no text: give the file that holds it with --text FILE");
    if (saved != NULL && !m.args->force && stat(saved, &st) == 0)
        return cli_error(CLI_USAGE, "%s is there already: give another name, or --force to replace it",
                         saved);
    int code = cli_read_file(m.args->text, &text);
    if (code == CLI_OK) code = measure(&m, operands->items[0], &text);
    if (code == CLI_OK && m.args->json) print_object(&m);
    if (code == CLI_OK && !m.args->json) print_text(&m);
    runner_close(&m.model);
    runner_close(&m.base);
    cli_text_free(&text);
    return code == CLI_OK ? cli_finish_output(code) : code;
}

const cli_command cmd_perplexity = {
    .name = "perplexity",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "measure how well a model predicts a text, and how near it is to its base",
    .description =
        "Predicts each token of a text from those before it, in chunks, and prints the perplexity: e to the "
        "mean of -log(probability). Against a base it also prints how far the two models' predictions are "
        "apart on average (Kullback-Leibler divergence), and how often both find the same token the most "
        "probable. A saved reference lists the 32 most probable tokens and 16 drawn from the others: against "
        "it the divergence is an estimate.",
    .options = options,
    .args_size = sizeof(perplexity_args),
    .run = run,
};
