/* SPDX-License-Identifier: Apache-2.0 */
/* What several tokens cost in one forward pass: as long as memory is the limit, little more than one does. */
#include "bench.h"
#include "common.h"
#include "json_out.h"
#include "term.h"

#include <stdlib.h>

#define PASSES_PER_REPEAT 8

static pn_status time_batch(pn_session *session, const int32_t *ids, int n_tokens, double *ms,
                            pn_error *err) {
    pn_session_stats stats;
    pn_status status = pn_session_sync(session, ids, BENCH_BATCH_DEPTH, NULL, NULL, err);
    if (status == PN_OK)
        status = pn_session_sync(session, ids, (size_t)(BENCH_BATCH_DEPTH + n_tokens), NULL, NULL, err);
    if (status != PN_OK) return status;
    pn_session_get_stats(session, &stats);
    *ms = stats.prefill_seconds * 1e3;
    return PN_OK;
}

/* The sizes take turns, so that a slow moment of the machine does not fall on one alone. */
static pn_status time_batches(pn_session *session, const bench *b, bench_batches *batches, pn_error *err) {
    size_t n = batches->n, n_passes = (size_t)b->args->repeat * PASSES_PER_REPEAT;
    double *ms = cli_realloc(NULL, n * n_passes, sizeof *ms);
    pn_status status = PN_OK;
    for (size_t pass = 0; pass < n_passes && status == PN_OK; pass++)
        for (size_t i = 0; i < n && status == PN_OK; i++)
            status = time_batch(session, b->ids, batches->items[i].n_tokens, &ms[i * n_passes + pass], err);
    for (size_t i = 0; i < n && status == PN_OK; i++)
        batches->items[i].ms = bench_spread_of(ms + i * n_passes, (int)n_passes);
    free(ms);
    return status;
}

int bench_batch_context(const bench_args *args) {
    int greatest = 0;
    for (size_t i = 0; i < args->batches.n; i++)
        if (args->batches.items[i] > greatest) greatest = args->batches.items[i];
    return greatest == 0 ? 0 : BENCH_BATCH_DEPTH + greatest;
}

static bench_batches list_batches(const bench_args *args) {
    cli_ints sizes = {0};
    bench_add_once(&sizes, 1);
    for (size_t i = 0; i < args->batches.n; i++)
        bench_add_once(&sizes, args->batches.items[i]);
    bench_batches batches = {.n = sizes.n, .items = cli_realloc(NULL, sizes.n, sizeof *batches.items)};
    for (size_t i = 0; i < sizes.n; i++)
        batches.items[i] = (bench_batch){.n_tokens = sizes.items[i]};
    free(sizes.items);
    return batches;
}

/* In a session of its own, whose chunk takes the greatest batch whole. */
pn_status bench_measure_batches(const bench *b, bench_batches *out, pn_error *err) {
    pn_session_options options = b->runner.session_options;
    pn_session *session;
    if (b->args->batches.n == 0) return PN_OK;
    options.n_ctx = bench_batch_context(b->args);
    options.n_chunk = options.n_ctx - BENCH_BATCH_DEPTH;
    pn_status status = pn_session_create(b->runner.model, &options, &session, err);
    if (status != PN_OK) return status;
    *out = list_batches(b->args);
    status = time_batches(session, b, out, err);
    pn_session_free(session);
    return status;
}

void bench_batches_free(bench_batches *batches) {
    free(batches->items);
    *batches = (bench_batches){0};
}

static double cost(const bench_batches *batches, size_t i) {
    return batches->items[i].ms.median / batches->items[0].ms.median;
}

static double tokens_per_s(const bench_batch *batch) {
    return batch->n_tokens / batch->ms.median * 1e3;
}

void bench_print_batches(const bench_batches *batches) {
    if (batches->n == 0) return;
    printf("\n%s%-8s %8s %8s %10s %9s   %-20s %s%s\n", term_bold(stdout), "pass of", "depth", "tokens",
           "tokens/s", "ms", "spread", "times one token", term_plain(stdout));
    for (size_t i = 0; i < batches->n; i++) {
        const bench_batch *batch = &batches->items[i];
        char spread[48];
        snprintf(spread, sizeof spread, "%.2f to %.2f", batch->ms.min, batch->ms.max);
        printf("%-8s %8d %8d %10.1f %9.2f   %-20s %.2f\n", "", BENCH_BATCH_DEPTH, batch->n_tokens,
               tokens_per_s(batch), batch->ms.median, spread, cost(batches, i));
    }
}

json_t *bench_batches_json(const bench_batches *batches) {
    json_t *list = json_need(json_array());
    for (size_t i = 0; i < batches->n; i++) {
        const bench_batch *batch = &batches->items[i];
        json_array_append_new(
            list, json_need(json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "tokens", batch->n_tokens,
                                      "depth", BENCH_BATCH_DEPTH, "ms", batch->ms.median, "ms_min",
                                      batch->ms.min, "ms_max", batch->ms.max, "tokens_per_s",
                                      tokens_per_s(batch), "cost", cost(batches, i))));
    }
    return list;
}
