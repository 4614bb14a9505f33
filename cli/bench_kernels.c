/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"
#include "common.h"
#include "json_out.h"
#include "term.h"

#include <string.h>

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL ? text : "";
}

static void print_number(const json_t *row, const char *key) {
    const json_t *value = json_object_get(row, key);
    if (value == NULL)
        printf(" %9s", "");
    else
        printf(" %9.4g", json_number_value(value));
}

static void print_row(const json_t *row) {
    char name[64];
    json_int_t tokens = json_integer_value(json_object_get(row, "tokens"));
    int len = snprintf(name, sizeof name, "%s %s", text_of(row, "kernel"), text_of(row, "format"));
    if (tokens > 0 && len > 0 && (size_t)len < sizeof name)
        snprintf(name + len, sizeof name - (size_t)len, " x %d", (int)tokens);
    printf("%-18s %-6s", name, text_of(row, "operands"));
    print_number(row, "us");
    print_number(row, "gmac_s");
    print_number(row, "gb_s");
    double share = json_number_value(json_object_get(row, "share"));
    printf("  %5.0f%% ", share * 100);
    term_print_bar(stdout, share, 20);
    putchar('\n');
}

static void print_table(const json_t *report) {
    size_t i;
    const json_t *row;
    printf("%s, one thread, operands in cache\n\n%s%-18s %-6s %9s %9s %9s  %6s%s\n",
           text_of(report, "kernels"), term_bold(stdout), "kernel", "on", "us", "GMAC/s", "GB/s", "share",
           term_plain(stdout));
    json_array_foreach(json_object_get(report, "rates"), i, row) print_row(row);
}

int bench_kernels(const bench_args *args) {
    pn_error err = {0};
    pn_text text = {0};
    pn_status status = pn_bench_kernels_json((pn_precision)args->precision, &text, &err);
    if (status != PN_OK) return cli_fail(&err);
    json_t *report = json_need(json_loadb(text.data, text.len, 0, NULL));
    pn_text_free(&text);
    json_object_set_new(report, "precision",
                        json_need(json_string(runner_precision_name((pn_precision)args->precision))));
    if (args->json)
        json_print(report);
    else
        print_table(report);
    json_decref(report);
    return cli_finish_output(CLI_OK);
}
