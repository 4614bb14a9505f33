/* SPDX-License-Identifier: Apache-2.0 */
/* postern bench: how fast a model runs, beside what the machine could do. */
#include "bench.h"
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "kv_layers.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX  16777216
#define REPEAT_MAX 1000

#define AT(field) offsetof(bench_args, field)

static const cli_option options[] = {
    {CLI_GROUP, .help = "what is measured"},
    {CLI_INT, 0, "prompt-tokens", "N", AT(prompt_tokens), 1, DEPTH_MAX,
     "tokens of the prompt that prefill reads"},
    {CLI_INT, 0, "gen-tokens", "N", AT(gen_tokens), 1, DEPTH_MAX, "tokens that decode adds one by one"},
    {CLI_INTS, 0, "depth", "N[,N...]", AT(depths), 0, DEPTH_MAX,
     "measure again with N tokens in the context already; may be repeated"},
    {CLI_ON, 0, "sweep", NULL, AT(sweep), 0, 0,
     "measure again with 512, 4096 and 16384 tokens in the context, as far as the model's allows"},
    {CLI_INTS, 0, "batch", "N[,N...]", AT(batches), 1, BENCH_BATCH_MAX,
     "time one pass of N tokens too, beside one of a single token; may be repeated"},
    {CLI_ON, 0, "profile", NULL, AT(profile), 0, 0, "where the time goes, operation by operation"},
    {CLI_ON, 0, "kernels", NULL, AT(kernels), 0, 0,
     "measure every kernel in one thread on operands in cache, instead of a model"},
    {CLI_INT, 0, "repeat", "N", AT(repeat), 1, REPEAT_MAX, "runs of each; the median is shown"},
    {CLI_GROUP, .help = "machine"},
    {CLI_BYTES, 0, "memory-budget", "SIZE", AT(memory_budget), 0, 0, RUNNER_BUDGET_HELP},
    {CLI_INT, 0, "threads", "N", AT(n_threads), 1, 1024, RUNNER_THREADS_HELP},
    {CLI_INT, 0, "threads-decode", "N", AT(n_threads_decode), 1, 1024, RUNNER_THREADS_DECODE_HELP},
    {CLI_CHOICE, 0, "kv-type", RUNNER_KV_TYPES, AT(kv_type), 0, 0, RUNNER_KV_TYPES_HELP},
    {CLI_TEXT, 0, "kv-layers", "LIST", AT(kv_layers), 0, 0, KV_LAYERS_HELP},
    {CLI_CHOICE, 0, "precision", RUNNER_PRECISIONS, AT(precision), 0, 0, RUNNER_PRECISION_HELP},
    {CLI_GROUP, .help = "output"},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object"},
    {.kind = CLI_END},
};

static void set_defaults(void *args) {
    bench_args *a = args;
    a->prompt_tokens = 512;
    a->gen_tokens = 128;
    a->repeat = 3;
}

void bench_add_once(cli_ints *list, int number) {
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i] == number) return;
    list->items = cli_realloc(list->items, list->n + 1, sizeof *list->items);
    list->items[list->n++] = number;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_spread bench_spread_of(double *samples, int n) {
    qsort(samples, (size_t)n, sizeof *samples, compare_doubles);
    double median = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    return (bench_spread){.median = median, .min = samples[0], .max = samples[n - 1]};
}

/* Ordinary ids only: control tokens give no text and are drawn again, a bounded number of times because a
   file may hold nothing else. A linear congruential step (Numerical Recipes' constants) makes the same prompt
   on every machine. The first token is BOS where the model has one, as in real prompts. */
static pn_status make_prompt(bench *b, size_t n, pn_error *err) {
    uint32_t state = 1;
    b->ids = cli_realloc(NULL, n, sizeof *b->ids);
    for (size_t i = 0; i < n; i++) {
        size_t piece_len = 0;
        for (int draw = 0; draw < 100 && piece_len == 0; draw++) {
            pn_text piece = {0};
            state = state * 1664525u + 1013904223u;
            b->ids[i] = (int32_t)((state >> 8) % (uint32_t)b->runner.info.n_vocab);
            pn_status status = pn_detokenize(b->runner.model, &b->ids[i], 1, false, &piece, err);
            if (status != PN_OK) return status;
            piece_len = piece.len;
            pn_text_free(&piece);
        }
    }
    if (b->runner.info.bos_id >= 0) b->ids[0] = b->runner.info.bos_id;
    return PN_OK;
}

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

pn_status bench_fill(bench *b, int n, pn_error *err) {
    term_progress progress;
    term_progress_begin(&progress, "filling the context");
    pn_status status = pn_session_sync(b->runner.session, b->ids, (size_t)n, on_progress, &progress, err);
    term_progress_end(&progress);
    return status;
}

pn_status bench_generate(bench *b, int n, int n_new, pn_generate_result *result, pn_error *err) {
    pn_generate_options chosen = {.max_tokens = n_new, .ignore_eos = true, .sampling = pn_sampling_default()};
    chosen.sampling.temperature = 0;
    return pn_generate(b->runner.session, b->ids, (size_t)n, &chosen, result, err);
}

/* ---- all that was asked for ---- */

typedef struct results {
    bench_rates *rates; /* [0] is depth 0 */
    size_t n_rates;
    bench_batches batches;
    pn_session_stats stats;
    runner_memory memory;
} results;

static void results_free(results *r) {
    for (size_t i = 0; i < r->n_rates; i++)
        bench_rates_free(&r->rates[i]);
    free(r->rates);
    bench_batches_free(&r->batches);
}

static pn_status measure(bench *b, const cli_ints *depths, results *r, pn_error *err) {
    pn_status status = PN_OK;
    r->rates = cli_realloc(NULL, depths->n, sizeof *r->rates);
    for (; r->n_rates < depths->n && status == PN_OK; r->n_rates++)
        status = bench_measure_rates(b, depths->items[r->n_rates], &r->rates[r->n_rates], err);
    if (status != PN_OK) return status;
    r->memory = runner_measure_memory();
    pn_session_get_stats(b->runner.session, &r->stats);
    /* From here on memory is taken that would count into the peak. */
    status = bench_measure_batches(b, &r->batches, err);
    pn_memory_set_budget(0); /* it is the model's; the machine is measured with what is free */
    if (status == PN_OK) status = pn_measure_bandwidth(b->args->n_threads, &b->bandwidth_gb_s, err);
    if (status == PN_OK)
        status = pn_measure_arithmetic(b->args->n_threads, (pn_precision)b->args->precision,
                                       &b->arithmetic_gmac_s, err);
    return status;
}

static void print_json(const bench *b, const results *r) {
    const char *name = runner_name(&b->runner);
    const pn_model_info *info = &b->runner.info;
    json_t *object = json_need(json_pack(
        "{s:o, s:i, s:i, s:s, s:s, s:i}", "model", json_from_text(name, strlen(name)), "threads",
        info->n_threads, "threads_decode", info->n_threads_decode, "kernels", info->kernels, "precision",
        runner_precision_name((pn_precision)b->args->precision), "repeat", b->args->repeat));
    bench_rates_json(b, &r->rates[0], object);
    json_t *memory = json_need(
        json_pack("{s:I, s:I, s:I, s:I}", "weights_bytes", (json_int_t)info->weights_bytes, "tables_bytes",
                  (json_int_t)info->tables_bytes, "kv_bytes", (json_int_t)r->stats.kv_bytes, "scratch_bytes",
                  (json_int_t)r->stats.scratch_bytes));
    runner_add_memory(&b->runner, &r->memory, memory);
    json_object_set_new(object, "memory", memory);
    json_object_set_new(object, "load_ms", json_need(json_real(b->runner.load_seconds * 1e3)));
    json_t *depths = json_need(json_array());
    for (size_t i = 1; i < r->n_rates; i++) {
        json_t *entry = json_need(json_pack("{s:i}", "depth", r->rates[i].depth));
        bench_rates_json(b, &r->rates[i], entry);
        json_array_append_new(depths, entry);
    }
    if (r->n_rates > 1) json_object_set(object, "depths", depths);
    json_decref(depths);
    if (r->batches.n > 0) json_object_set_new(object, "batches", bench_batches_json(&r->batches));
    json_print(object);
    json_decref(object);
}

static void print_table(const bench *b, const results *r) {
    char weights[TERM_BYTES_MAX], tables[TERM_BYTES_MAX], kv[TERM_BYTES_MAX], scratch[TERM_BYTES_MAX],
        threads[RUNNER_THREADS_MAX];
    const char *name = runner_name(&b->runner);
    const pn_model_info *info = &b->runner.info;
    term_print_escaped(stdout, name, strlen(name));
    printf(", %s, %s, precision %s, median of %d\n\n", runner_threads(&b->runner, threads), info->kernels,
           runner_precision_name((pn_precision)b->args->precision), b->args->repeat);
    printf("%s%-8s %8s %8s %10s   %s%s\n", term_bold(stdout), "", "depth", "tokens", "tokens/s", "spread",
           term_plain(stdout));
    for (size_t i = 0; i < r->n_rates; i++)
        bench_print_rates(b, &r->rates[i]);
    bench_print_batches(&r->batches);
    printf("\nmemory   weights %s, tables %s, KV %s, scratch %s\n", term_bytes(info->weights_bytes, weights),
           term_bytes(info->tables_bytes, tables), term_bytes(r->stats.kv_bytes, kv),
           term_bytes(r->stats.scratch_bytes, scratch));
    runner_print_budget(stdout, &b->runner, &r->memory);
    printf("load     %.0f ms\n", b->runner.load_seconds * 1e3);
}

/* ---- what to measure ---- */

static int longest_part(const bench_args *a) {
    int longest = a->prompt_tokens > a->gen_tokens ? a->prompt_tokens : a->gen_tokens;
    return longest + 2; /* at depth 0 decode starts from one token; its first is not timed */
}

/* 0, those of --depth, and of --sweep those that the model's context has room for. */
static void list_depths(const bench *b, cli_ints *depths) {
    static const int swept[] = {512, 4096, 16384};
    const bench_args *a = b->args;
    bench_add_once(depths, 0);
    for (size_t i = 0; i < a->depths.n; i++)
        bench_add_once(depths, a->depths.items[i]);
    for (size_t i = 0; a->sweep && i < sizeof swept / sizeof *swept; i++)
        if (swept[i] + longest_part(a) <= b->runner.info.n_ctx_train) bench_add_once(depths, swept[i]);
}

/* The context that all of it takes, refused when the model was not trained for it. */
static int plan_context(bench *b, const cli_ints *depths, size_t *n_ids) {
    const bench_args *a = b->args;
    int deepest = 0, longest = longest_part(a), trained = b->runner.info.n_ctx_train;
    for (size_t i = 0; i < depths->n; i++)
        if (depths->items[i] > deepest) deepest = depths->items[i];
    int n_ctx = deepest + longest, batches = bench_batch_context(a);
    if (n_ctx > trained)
        return cli_error(CLI_LIMIT, "depth %d with %d more tokens passes the model's context of %d tokens",
                         deepest, longest, trained);
    if (batches > trained)
        return cli_error(CLI_LIMIT, "a batch of %d tokens after %d others passes the model's context of %d",
                         batches - BENCH_BATCH_DEPTH, BENCH_BATCH_DEPTH, trained);
    *n_ids = (size_t)(batches > n_ctx ? batches : n_ctx);
    b->runner.session_options = (pn_session_options){.n_ctx = n_ctx,
                                                     .kv_type = (pn_kv_type)a->kv_type,
                                                     .precision = (pn_precision)a->precision,
                                                     .lookup = PN_LOOKUP_OFF};
    return CLI_OK;
}

static int bench_model(bench *b, const char *path, cli_ints *depths, results *r) {
    pn_error err = {0};
    size_t n_ids = 0;
    b->runner.memory_budget = b->args->memory_budget;
    b->runner.model_options =
        (pn_model_options){.n_threads = b->args->n_threads,
                           .n_threads_decode = b->args->n_threads_decode,
                           .prefix_cache = PN_PREFIX_CACHE_OFF /* every prompt is to be read */};
    kv_layers layers;
    int code = kv_layers_set(&layers, b->args->kv_layers, &b->runner.model_options);
    if (code == CLI_OK) code = runner_open(&b->runner, path);
    if (code != CLI_OK) return code;
    list_depths(b, depths);
    code = plan_context(b, depths, &n_ids);
    if (code == CLI_OK) code = runner_start(&b->runner, false);
    if (code != CLI_OK) return code;
    pn_status status = make_prompt(b, n_ids, &err);
    if (status == PN_OK) status = measure(b, depths, r, &err);
    if (status != PN_OK) return cli_fail(&err);
    if (b->args->json)
        print_json(b, r);
    else
        print_table(b, r);
    return cli_finish_output(CLI_OK);
}

static int run(void *args, const cli_texts *operands) {
    bench b = {.args = args};
    cli_ints depths = {0};
    results r = {0};
    if (b.args->kernels && operands->n > 0) return cli_error(CLI_USAGE, "--kernels measures without a model");
    if (b.args->kernels) return bench_kernels(b.args);
    if (operands->n == 0)
        return cli_error(CLI_USAGE, "bench: an operand is missing: postern bench MODEL, or --kernels");
    int code = bench_model(&b, operands->items[0], &depths, &r);
    runner_close(&b.runner);
    results_free(&r);
    free(depths.items);
    free(b.ids);
    return code;
}

const cli_command cmd_bench = {
    .name = "bench",
    .operands = "[MODEL]",
    .max_operands = 1,
    .summary = "measure prefill and decode beside the machine's limits",
    .description =
        "Measures reading a prompt and writing an answer apart, on a made-up prompt that is the same on "
        "every machine. Prefill is shown beside the multiply-adds, decode beside the memory bandwidth that "
        "the machine was measured to be capable of in the same run.",
    .options = options,
    .args_size = sizeof(bench_args),
    .set_defaults = set_defaults,
    .run = run,
};
