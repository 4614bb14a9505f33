/* SPDX-License-Identifier: Apache-2.0 */
/* Prefill beside the peak of the arithmetic, which bounds it, and decode beside the memory bandwidth. */
#include "bench.h"
#include "common.h"
#include "json_out.h"
#include "term.h"

#include <stdlib.h>

enum { PREFILL_RATE, TTFT, DECODE_RATE, N_SAMPLES };

/* One generated token closes the prefill, so that its time to first token is what a user waits. */
static pn_status measure_prefill(bench *b, int depth, double *rate, double *ttft_ms, bench_profile *profile,
                                 pn_error *err) {
    pn_generate_result result = {0};
    pn_status status = bench_fill(b, depth, err);
    if (status != PN_OK) return status;
    if (profile != NULL) pn_session_profile(b->runner.session, true);
    status = bench_generate(b, depth + b->args->prompt_tokens, 1, &result, err);
    if (status != PN_OK) return status;
    if (profile != NULL) *profile = bench_profile_take(b, b->args->prompt_tokens);
    *rate = runner_prefill_rate(&result);
    *ttft_ms = result.ttft_seconds * 1e3;
    pn_generate_result_free(&result);
    return PN_OK;
}

/* decode_seconds leaves out the first token, so one more than the timed ones is generated. */
static pn_status measure_decode(bench *b, int depth, double *rate, bench_profile *profile, pn_error *err) {
    pn_generate_result result = {0};
    int n = b->args->gen_tokens + 1;
    if (profile != NULL) pn_session_profile(b->runner.session, true);
    pn_status status = bench_generate(b, depth > 0 ? depth : 1, n, &result, err);
    if (status != PN_OK) return status;
    if (profile != NULL) *profile = bench_profile_take(b, n);
    *rate = runner_decode_rate(&result);
    pn_generate_result_free(&result);
    return PN_OK;
}

/* One more run of each, with the clock between the operations. */
static pn_status measure_profiles(bench *b, int depth, bench_rates *out, pn_error *err) {
    double rate, ttft;
    pn_status status = measure_prefill(b, depth, &rate, &ttft, &out->prefill_profile, err);
    if (status == PN_OK) status = measure_decode(b, depth, &rate, &out->decode_profile, err);
    pn_session_profile(b->runner.session, false);
    return status;
}

pn_status bench_measure_rates(bench *b, int depth, bench_rates *out, pn_error *err) {
    int n = b->args->repeat;
    double *samples[N_SAMPLES];
    for (int i = 0; i < N_SAMPLES; i++)
        samples[i] = cli_realloc(NULL, (size_t)n, sizeof(double));
    pn_status status = PN_OK;
    for (int i = 0; i < n && status == PN_OK; i++) {
        status = measure_prefill(b, depth, &samples[PREFILL_RATE][i], &samples[TTFT][i], NULL, err);
        if (status == PN_OK) status = measure_decode(b, depth, &samples[DECODE_RATE][i], NULL, err);
    }
    *out = (bench_rates){.depth = depth};
    if (status == PN_OK) {
        out->prefill_rate = bench_spread_of(samples[PREFILL_RATE], n);
        out->ttft_ms = bench_spread_of(samples[TTFT], n);
        out->decode_rate = bench_spread_of(samples[DECODE_RATE], n);
        out->prefill_macs = pn_model_macs(b->runner.model, (uint64_t)depth, (uint64_t)b->args->prompt_tokens);
        uint64_t mean_depth = (uint64_t)depth + (uint64_t)b->args->gen_tokens / 2;
        out->bytes_per_token =
            pn_model_decode_bytes(b->runner.model, (pn_kv_type)b->args->kv_type, mean_depth);
        if (b->args->profile) status = measure_profiles(b, depth, out, err);
    }
    for (int i = 0; i < N_SAMPLES; i++)
        free(samples[i]);
    return status;
}

void bench_rates_free(bench_rates *rates) {
    bench_profile_free(&rates->prefill_profile);
    bench_profile_free(&rates->decode_profile);
}

static double gmac_per_s(const bench *b, const bench_rates *r) {
    return (double)r->prefill_macs * 1e-9 * r->prefill_rate.median / b->args->prompt_tokens;
}

static double gb_per_s(const bench_rates *r) {
    return (double)r->bytes_per_token * 1e-9 * r->decode_rate.median;
}

static void print_row(const char *what, int depth, int tokens, const bench_spread *rate) {
    printf("%-8s %8d %8d %10.1f   %.1f to %.1f\n", what, depth, tokens, rate->median, rate->min, rate->max);
}

static void print_share(double share, const char *of) {
    printf("%29s", "");
    term_print_bar(stdout, share, 24);
    printf(" %.0f%% of the %s", share * 100, of);
}

void bench_print_rates(const bench *b, const bench_rates *r) {
    char bytes[TERM_BYTES_MAX];
    double gmacs = gmac_per_s(b, r), gbs = gb_per_s(r);
    print_row("prefill", r->depth, b->args->prompt_tokens, &r->prefill_rate);
    print_share(gmacs / b->arithmetic_gmac_s, "arithmetic");
    printf(": %.0f of %.0f GMAC/s; first token after %.0f ms\n", gmacs, b->arithmetic_gmac_s,
           r->ttft_ms.median);
    print_row("decode", r->depth, b->args->gen_tokens, &r->decode_rate);
    print_share(gbs / b->bandwidth_gb_s, "bandwidth");
    printf(": %.1f of %.1f GB/s, %s per token\n", gbs, b->bandwidth_gb_s,
           term_bytes(r->bytes_per_token, bytes));
    bench_profile_print(b, "prefill", &r->prefill_profile);
    bench_profile_print(b, "decode", &r->decode_profile);
}

static json_t *rate_json(int tokens, const bench_spread *rate) {
    return json_need(json_pack("{s:i, s:f, s:f, s:f}", "tokens", tokens, "tokens_per_s", rate->median,
                               "tokens_per_s_min", rate->min, "tokens_per_s_max", rate->max));
}

static void add(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, json_need(value));
}

void bench_rates_json(const bench *b, const bench_rates *r, json_t *object) {
    json_t *prefill = rate_json(b->args->prompt_tokens, &r->prefill_rate);
    double gmacs = gmac_per_s(b, r), gbs = gb_per_s(r);
    add(prefill, "ttft_ms", json_real(r->ttft_ms.median));
    add(prefill, "macs", json_integer((json_int_t)r->prefill_macs));
    add(prefill, "gmac_s", json_real(gmacs));
    add(prefill, "gmac_s_peak", json_real(b->arithmetic_gmac_s));
    add(prefill, "arithmetic_share", json_real(gmacs / b->arithmetic_gmac_s));
    json_t *decode = rate_json(b->args->gen_tokens, &r->decode_rate);
    add(decode, "bytes_per_token", json_integer((json_int_t)r->bytes_per_token));
    add(decode, "bandwidth_gb_s", json_real(gbs));
    add(decode, "bandwidth_peak_gb_s", json_real(b->bandwidth_gb_s));
    add(decode, "bandwidth_share", json_real(gbs / b->bandwidth_gb_s));
    if (b->args->profile) {
        add(prefill, "profile", bench_profile_json(&r->prefill_profile));
        add(decode, "profile", bench_profile_json(&r->decode_profile));
    }
    add(object, "prefill", prefill);
    add(object, "decode", decode);
}
