/* SPDX-License-Identifier: Apache-2.0 */
/* Time by operation. */
#include "bench.h"
#include "common.h"
#include "json_out.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

bench_profile bench_profile_take(const bench *b, int n_tokens) {
    bench_profile p = {.n_tokens = n_tokens};
    const pn_operation *ops = pn_session_operations(b->runner.session, &p.n);
    p.ops = cli_realloc(NULL, p.n, sizeof *p.ops);
    memcpy(p.ops, ops, p.n * sizeof *p.ops);
    return p;
}

void bench_profile_free(bench_profile *profile) {
    free(profile->ops);
    *profile = (bench_profile){0};
}

static double total_seconds(const bench_profile *p) {
    double sum = 0;
    for (size_t i = 0; i < p->n; i++)
        sum += p->ops[i].seconds;
    return sum;
}

static double total_waiting(const bench_profile *p) {
    double sum = 0;
    for (size_t i = 0; i < p->n; i++)
        sum += p->ops[i].waiting_seconds;
    return sum;
}

/* The rate beside the limit that is nearer. */
static void print_rates(const bench *b, const pn_operation *op) {
    double gmacs = (double)op->macs * 1e-9 / op->seconds, gbs = (double)op->bytes * 1e-9 / op->seconds;
    double of_arithmetic = gmacs / b->arithmetic_gmac_s, of_bandwidth = gbs / b->bandwidth_gb_s;
    if (op->macs == 0) return;
    if (of_arithmetic > of_bandwidth)
        printf(" %8.1f GMAC/s, %.0f%% of the arithmetic", gmacs, of_arithmetic * 100);
    else
        printf(" %8.1f GB/s, %.0f%% of the bandwidth", gbs, of_bandwidth * 100);
}

/* Waiting for the other threads has no bar of its own: it is part of the operations. */
void bench_profile_print(const bench *b, const char *what, const bench_profile *p) {
    if (p->n == 0) return;
    double total = total_seconds(p), us_per_token = 1e6 / p->n_tokens;
    printf("\n%s%-11s %9s %9s%s\n", term_bold(stdout), what, "us/token", "waiting", term_plain(stdout));
    for (size_t i = 0; i < p->n; i++) {
        const pn_operation *op = &p->ops[i];
        if (op->n_laps == 0) continue;
        printf("%-11s %9.2f %9.2f %5.1f%% ", op->name, op->seconds * us_per_token,
               op->waiting_seconds * us_per_token, op->seconds / total * 100);
        term_print_bar(stdout, op->seconds / total, 24);
        print_rates(b, op);
        putchar('\n');
    }
    printf("%-11s %9.2f %9.2f\n\n", "together", total * us_per_token, total_waiting(p) * us_per_token);
}

json_t *bench_profile_json(const bench_profile *p) {
    json_t *list = json_need(json_array());
    double total = total_seconds(p), us_per_token = 1e6 / p->n_tokens;
    for (size_t i = 0; i < p->n; i++) {
        const pn_operation *op = &p->ops[i];
        if (op->n_laps == 0) continue;
        json_array_append_new(
            list, json_need(json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:I}", "operation", op->name, "laps",
                                      (json_int_t)op->n_laps, "us_per_token", op->seconds * us_per_token,
                                      "waiting_us_per_token", op->waiting_seconds * us_per_token, "share",
                                      op->seconds / total, "macs", (json_int_t)op->macs, "bytes",
                                      (json_int_t)op->bytes)));
    }
    return list;
}
