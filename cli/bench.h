/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `postern bench` share. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "options.h"
#include "runner.h"

typedef struct bench_args {
    int prompt_tokens, gen_tokens, repeat, n_threads, n_threads_decode, kv_type, precision;
    const char *kv_layers;
    uint64_t memory_budget;
    cli_ints depths, batches;
    bool sweep, profile, kernels, json;
} bench_args;

/* Adds a number that is not there yet. */
void bench_add_once(cli_ints *list, int number);

typedef struct bench_spread {
    double median, min, max;
} bench_spread;
/* Sorts the samples. */
bench_spread bench_spread_of(double *samples, int n);

typedef struct bench {
    const bench_args *args;
    runner runner;
    int32_t *ids; /* a pseudo-random prompt, long enough for all */
    double bandwidth_gb_s, arithmetic_gmac_s;
} bench;

/* Brings the timeline to the first n of b->ids, untimed, with a progress line. */
pn_status bench_fill(bench *b, int n, pn_error *err);
/* Greedy and without an end: n_new tokens after the first n of b->ids. */
pn_status bench_generate(bench *b, int n, int n_new, pn_generate_result *result, pn_error *err);

/* ---- bench_rates.c: prefill and decode, each on its own */

/* Operations of a part of the work, with the tokens that it computed; n 0 when not asked for. */
typedef struct bench_profile {
    pn_operation *ops;
    size_t n;
    int n_tokens;
} bench_profile;

/* What was measured with `depth` tokens in the context before. */
typedef struct bench_rates {
    int depth;
    bench_spread prefill_rate, ttft_ms, decode_rate; /* rates in tokens per second */
    uint64_t bytes_per_token, prefill_macs;
    bench_profile prefill_profile, decode_profile;
} bench_rates;

pn_status bench_measure_rates(bench *b, int depth, bench_rates *out, pn_error *err);
void bench_rates_free(bench_rates *rates);
void bench_print_rates(const bench *b, const bench_rates *rates);
/* Adds "prefill" and "decode". */
void bench_rates_json(const bench *b, const bench_rates *rates, json_t *object);

/* ---- bench_profile.c */

/* Takes the session's operations so far. */
bench_profile bench_profile_take(const bench *b, int n_tokens);
void bench_profile_free(bench_profile *profile);
void bench_profile_print(const bench *b, const char *what, const bench_profile *profile);
json_t *bench_profile_json(const bench_profile *profile);

/* ---- bench_batch.c: a forward pass of n tokens beside one of a single token */

#define BENCH_BATCH_DEPTH 64 /* tokens in the context before */

typedef struct bench_batch {
    int n_tokens;
    bench_spread ms;
} bench_batch;

#define BENCH_BATCH_MAX 8192

typedef struct bench_batches {
    bench_batch *items; /* the first is a single token */
    size_t n;           /* 0 when none were asked for */
} bench_batches;

/* Tokens of context that the batches take; 0 when there are none. */
int bench_batch_context(const bench_args *args);
pn_status bench_measure_batches(const bench *b, bench_batches *out, pn_error *err);
void bench_batches_free(bench_batches *batches);
void bench_print_batches(const bench_batches *batches);
json_t *bench_batches_json(const bench_batches *batches);

/* ---- bench_kernels.c */

/* Without a model: every kernel. */
int bench_kernels(const bench_args *args);

#endif
