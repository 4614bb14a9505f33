/* SPDX-License-Identifier: Apache-2.0 */
/* postern bench: prefill and decode, each on its own, the latter beside the memory bandwidth. */
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "runner.h"
#include "term.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DEPTH_MAX  16777216
#define REPEAT_MAX 1000

typedef struct bench_args {
    int prompt_tokens, gen_tokens, repeat, n_threads, kv_type;
    cli_ints depths;
    bool json;
} bench_args;

#define AT(field) offsetof(bench_args, field)

static const cli_option options[] = {
    {CLI_INT, 0, "prompt-tokens", "N", AT(prompt_tokens), 1, DEPTH_MAX,
     "tokens of the prompt that prefill reads"},
    {CLI_INT, 0, "gen-tokens", "N", AT(gen_tokens), 1, DEPTH_MAX, "tokens that decode adds one by one"},
    {CLI_INTS, 0, "depth", "N[,N...]", AT(depths), 0, DEPTH_MAX,
     "measure again with N tokens in the context already; may be repeated"},
    {CLI_INT, 0, "repeat", "N", AT(repeat), 1, REPEAT_MAX, "runs of each; the median is shown"},
    {CLI_INT, 0, "threads", "N", AT(n_threads), 1, 1024, "threads (default: what this process may use)"},
    {CLI_CHOICE, 0, "kv-type", "f16|f32", AT(kv_type), 0, 0, "number type of the KV cache (default f16)"},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object"},
    {.kind = CLI_END},
};

static void set_defaults(void *args) {
    bench_args *a = args;
    a->prompt_tokens = 512;
    a->gen_tokens = 128;
    a->repeat = 3;
}

typedef struct spread {
    double median, min, max;
} spread;

/* One depth: what was measured with that many tokens in the context before. */
typedef struct measurement {
    int depth;
    spread prefill_rate, ttft_ms, decode_rate;
    uint64_t bytes_per_token;
} measurement;

typedef struct bench {
    const bench_args *args;
    runner runner;
    int32_t *ids;         /* the pseudo-random prompt, as long as the deepest measurement needs */
    double *samples[3];   /* [repeat] each: prefill rate, ttft, decode rate */
    measurement *results; /* [0] is depth 0, then args->depths in order */
    size_t n_results;
    double bandwidth_gb_s;
    pn_session_stats stats;
    uint64_t peak_rss_bytes;
} bench;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static spread spread_of(double *samples, int n) {
    qsort(samples, (size_t)n, sizeof *samples, compare_doubles);
    double median = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    return (spread){.median = median, .min = samples[0], .max = samples[n - 1]};
}

/* Ordinary ids only: control tokens give no text and are drawn again, a bounded number of times because a
   file may hold nothing else. A linear congruential step (Numerical Recipes' constants) makes the same prompt
   on every machine. The first token is BOS where the model has one, as in real prompts. */
static pn_status fill_prompt(bench *b, size_t n, pn_error *err) {
    uint32_t state = 1;
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

/* At the mean depth of the run. */
static uint64_t bytes_per_token(const bench *b, int start) {
    int mean = start + b->args->gen_tokens / 2;
    return pn_model_decode_bytes(b->runner.model, (pn_kv_type)b->args->kv_type, (uint64_t)mean);
}

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

/* Greedy and without an end: n_new tokens after the first n of the prompt. */
static pn_status generate(bench *b, int n, int n_new, pn_generate_result *result, pn_error *err) {
    pn_generate_options chosen = {.max_tokens = n_new, .ignore_eos = true, .sampling = pn_sampling_default()};
    chosen.sampling.temperature = 0;
    return pn_generate(b->runner.session, b->ids, (size_t)n, &chosen, result, err);
}

/* The timeline is brought to `depth` tokens untimed; one generated token then closes the prefill, so that its
   time to first token is what a user waits. */
static pn_status measure_prefill(bench *b, int depth, double *rate, double *ttft_ms, pn_error *err) {
    pn_generate_result result = {0};
    term_progress progress;
    term_progress_begin(&progress, "filling the context");
    pn_status status = pn_session_sync(b->runner.session, b->ids, (size_t)depth, on_progress, &progress, err);
    term_progress_end(&progress);
    if (status == PN_OK) status = generate(b, depth + b->args->prompt_tokens, 1, &result, err);
    if (status != PN_OK) return status;
    *rate = runner_prefill_rate(&result);
    *ttft_ms = result.ttft_seconds * 1e3;
    pn_generate_result_free(&result);
    return PN_OK;
}

/* decode_seconds leaves out the first token, so one more than the timed ones is generated. */
static pn_status measure_decode(bench *b, int depth, double *rate, pn_error *err) {
    pn_generate_result result = {0};
    pn_status status = generate(b, depth > 0 ? depth : 1, b->args->gen_tokens + 1, &result, err);
    if (status != PN_OK) return status;
    *rate = runner_decode_rate(&result);
    pn_generate_result_free(&result);
    return PN_OK;
}

static pn_status measure(bench *b, int depth, measurement *out, pn_error *err) {
    int n = b->args->repeat;
    for (int i = 0; i < n; i++) {
        pn_status status = measure_prefill(b, depth, &b->samples[0][i], &b->samples[1][i], err);
        if (status == PN_OK) status = measure_decode(b, depth, &b->samples[2][i], err);
        if (status != PN_OK) return status;
    }
    *out = (measurement){
        .depth = depth,
        .prefill_rate = spread_of(b->samples[0], n),
        .ttft_ms = spread_of(b->samples[1], n),
        .decode_rate = spread_of(b->samples[2], n),
        .bytes_per_token = bytes_per_token(b, depth),
    };
    return PN_OK;
}

static double gb_per_s(const measurement *m) {
    return (double)m->bytes_per_token * m->decode_rate.median * 1e-9;
}

static json_t *prefill_json(const bench *b, const measurement *m) {
    return json_need(json_pack("{s:i, s:f, s:f, s:f, s:f}", "tokens", b->args->prompt_tokens, "tokens_per_s",
                               m->prefill_rate.median, "tokens_per_s_min", m->prefill_rate.min,
                               "tokens_per_s_max", m->prefill_rate.max, "ttft_ms", m->ttft_ms.median));
}

static json_t *decode_json(const bench *b, const measurement *m) {
    return json_need(json_pack(
        "{s:i, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "tokens", b->args->gen_tokens, "tokens_per_s",
        m->decode_rate.median, "tokens_per_s_min", m->decode_rate.min, "tokens_per_s_max", m->decode_rate.max,
        "bytes_per_token", (json_int_t)m->bytes_per_token, "bandwidth_gb_s", gb_per_s(m),
        "bandwidth_peak_gb_s", b->bandwidth_gb_s, "bandwidth_share", gb_per_s(m) / b->bandwidth_gb_s));
}

static void print_json(const bench *b) {
    const char *name = runner_name(&b->runner);
    json_t *depths = json_need(json_array());
    for (size_t i = 1; i < b->n_results; i++) {
        const measurement *m = &b->results[i];
        json_array_append_new(depths, json_need(json_pack("{s:i, s:o, s:o}", "depth", m->depth, "prefill",
                                                          prefill_json(b, m), "decode", decode_json(b, m))));
    }
    json_t *object = json_need(json_pack(
        "{s:o, s:i, s:s, s:i, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I}, s:f}", "model",
        json_from_text(name, strlen(name)), "threads", b->runner.info.n_threads, "kernels",
        b->runner.info.kernels, "repeat", b->args->repeat, "prefill", prefill_json(b, b->results), "decode",
        decode_json(b, b->results), "memory", "weights_bytes", (json_int_t)b->runner.info.weights_bytes,
        "tables_bytes", (json_int_t)b->runner.info.tables_bytes, "kv_bytes", (json_int_t)b->stats.kv_bytes,
        "scratch_bytes", (json_int_t)b->stats.scratch_bytes, "peak_rss_bytes", (json_int_t)b->peak_rss_bytes,
        "load_ms", b->runner.load_seconds * 1e3));
    if (b->n_results > 1) json_object_set(object, "depths", depths);
    json_decref(depths);
    json_print(object);
    json_decref(object);
}

static void print_row(const char *what, int depth, int tokens, const spread *rate) {
    printf("%-8s %8d %8d %10.1f   %.1f to %.1f\n", what, depth, tokens, rate->median, rate->min, rate->max);
}

static void print_table(const bench *b) {
    char weights[TERM_BYTES_MAX], tables[TERM_BYTES_MAX], kv[TERM_BYTES_MAX], scratch[TERM_BYTES_MAX],
        rss[TERM_BYTES_MAX];
    const char *name = runner_name(&b->runner);
    term_print_escaped(stdout, name, strlen(name));
    printf(", %d %s, %s, median of %d\n\n", b->runner.info.n_threads,
           b->runner.info.n_threads == 1 ? "thread" : "threads", b->runner.info.kernels, b->args->repeat);
    printf("%s%-8s %8s %8s %10s   %s%s\n", term_bold(stdout), "", "depth", "tokens", "tokens/s", "spread",
           term_plain(stdout));
    for (size_t i = 0; i < b->n_results; i++) {
        const measurement *m = &b->results[i];
        print_row("prefill", m->depth, b->args->prompt_tokens, &m->prefill_rate);
        printf("%29sfirst token after %.0f ms\n", "", m->ttft_ms.median);
        print_row("decode", m->depth, b->args->gen_tokens, &m->decode_rate);
        double share = gb_per_s(m) / b->bandwidth_gb_s;
        printf("%29s", "");
        term_print_bar(stdout, share, 24);
        printf(" %.0f%% of the bandwidth: %.1f of %.1f GB/s, %s per token\n", share * 100, gb_per_s(m),
               b->bandwidth_gb_s, term_bytes(m->bytes_per_token, weights));
    }
    printf("\nmemory   weights %s, tables %s, KV %s, scratch %s; peak resident %s\nload     %.0f ms\n",
           term_bytes(b->runner.info.weights_bytes, weights), term_bytes(b->runner.info.tables_bytes, tables),
           term_bytes(b->stats.kv_bytes, kv), term_bytes(b->stats.scratch_bytes, scratch),
           term_bytes(b->peak_rss_bytes, rss), b->runner.load_seconds * 1e3);
}

static pn_status measure_all(bench *b, pn_error *err) {
    pn_status status = measure(b, 0, &b->results[0], err);
    for (size_t i = 0; i < b->args->depths.n && status == PN_OK; i++)
        status = measure(b, b->args->depths.items[i], &b->results[i + 1], err);
    if (status != PN_OK) return status;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    b->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    pn_session_get_stats(b->runner.session, &b->stats);
    /* Last, because it takes memory of its own that would count into the peak. */
    return pn_measure_bandwidth(b->args->n_threads, &b->bandwidth_gb_s, err);
}

/* The context that the deepest measurement takes, refused when the model was not trained for it. */
static int plan_context(bench *b) {
    int deepest = 0, longest = b->args->prompt_tokens;
    if (b->args->gen_tokens > longest) longest = b->args->gen_tokens;
    for (size_t i = 0; i < b->args->depths.n; i++) {
        if (b->args->depths.items[i] > deepest) deepest = b->args->depths.items[i];
    }
    int n_ctx = deepest + longest + 2; /* at depth 0 decode starts from one token; its first is not timed */
    if (b->runner.info.n_ctx_train > 0 && n_ctx > b->runner.info.n_ctx_train)
        return cli_error(CLI_LIMIT, "depth %d with %d more tokens passes the model's context of %d tokens",
                         deepest, longest + 2, b->runner.info.n_ctx_train);
    b->runner.session_options = (pn_session_options){.n_ctx = n_ctx, .kv_type = (pn_kv_type)b->args->kv_type};
    return CLI_OK;
}

static int run_bench(bench *b, const char *path) {
    pn_error err = {0};
    int code = runner_open(&b->runner, path, b->args->n_threads);
    if (code == CLI_OK) code = plan_context(b);
    if (code == CLI_OK) code = runner_start(&b->runner, false);
    if (code != CLI_OK) return code;
    size_t n_ids = (size_t)b->runner.session_options.n_ctx, n_repeat = (size_t)b->args->repeat;
    b->ids = cli_realloc(NULL, n_ids, sizeof *b->ids);
    for (int i = 0; i < 3; i++)
        b->samples[i] = cli_realloc(NULL, n_repeat, sizeof *b->samples[i]);
    b->n_results = b->args->depths.n + 1;
    b->results = cli_realloc(NULL, b->n_results, sizeof *b->results);
    pn_status status = fill_prompt(b, n_ids, &err);
    if (status == PN_OK) status = measure_all(b, &err);
    if (status != PN_OK) return cli_fail(&err);
    if (b->args->json)
        print_json(b);
    else
        print_table(b);
    return cli_finish_output(CLI_OK);
}

static int run(void *args, const cli_texts *operands) {
    bench b = {.args = args};
    int code = run_bench(&b, operands->items[0]);
    runner_close(&b.runner);
    for (int i = 0; i < 3; i++)
        free(b.samples[i]);
    free(b.results);
    free(b.ids);
    return code;
}

const cli_command cmd_bench = {
    .name = "bench",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "measure prefill and decode, and decode's share of the memory bandwidth",
    .description =
        "Measures reading a prompt and writing an answer apart, on a made-up prompt that is the same on "
        "every machine. Decode is shown beside the memory bandwidth measured in the same run, which "
        "bounds it.",
    .options = options,
    .args_size = sizeof(bench_args),
    .set_defaults = set_defaults,
    .run = run,
};
