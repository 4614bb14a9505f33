/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_page.h"

#include "common.h"
#include "json_out.h"
#include "term.h"

#include <stdlib.h>

static void print_row(const char *what, uint64_t bytes, const char *note) {
    char text[TERM_BYTES_MAX];
    printf("  %-16s %10s  %s\n", what, term_bytes(bytes, text), note);
}

static void print_table(const runner *r, const pn_plan *plan) {
    char per_token[TERM_BYTES_MAX];
    char *context = cli_format("%d tokens of type %s, %s each where all layers see them", plan->n_ctx,
                               runner_kv_type_name(r->session_options.kv_type),
                               term_bytes(plan->kv_token_bytes, per_token));
    print_row("weights", plan->weights_bytes, "");
    print_row("keys and values", plan->kv_bytes, context);
    print_row("prefix cache", plan->prefix_cache_bytes, "of texts that begin alike");
    print_row("scratch", plan->scratch_bytes, "");
    print_row("tables", plan->tables_bytes, "vocabulary and the like");
    print_row("together", plan->total_bytes, "");
    if (plan->budget_bytes > 0)
        print_row("budget", plan->budget_bytes,
                  plan->total_bytes <= plan->budget_bytes ? "fits" : "does not fit");
    free(context);
}

static void print_json(const pn_plan *plan) {
    json_t *object = json_need(json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "ctx", plan->n_ctx, "weights_bytes",
        (json_int_t)plan->weights_bytes, "kv_bytes", (json_int_t)plan->kv_bytes, "kv_token_bytes",
        (json_int_t)plan->kv_token_bytes, "prefix_cache_bytes", (json_int_t)plan->prefix_cache_bytes,
        "scratch_bytes", (json_int_t)plan->scratch_bytes, "tables_bytes", (json_int_t)plan->tables_bytes,
        "total_bytes", (json_int_t)plan->total_bytes, "budget_bytes", (json_int_t)plan->budget_bytes, "fits",
        plan->budget_bytes == 0 || plan->total_bytes <= plan->budget_bytes));
    json_print(object);
    json_decref(object);
}

/* Opening refuses what does not fit before it reads the weights, and says what would. */
static int say_why(const char *path, const runner *r) {
    pn_error err = {0};
    pn_model *model = NULL;
    if (pn_model_open(path, &r->model_options, &model, &err) != PN_OK) return cli_fail(&err);
    pn_model_close(model);
    return CLI_OK;
}

int plan_print(const char *path, const runner *r, bool json) {
    pn_error err = {0};
    pn_plan plan;
    pn_memory_set_budget(r->memory_budget > 0 ? r->memory_budget : pn_memory_default_budget());
    if (pn_plan_file(path, &r->model_options, &r->session_options, &plan, &err) != PN_OK)
        return cli_fail(&err);
    if (json)
        print_json(&plan);
    else
        print_table(r, &plan);
    const bool fits = plan.budget_bytes == 0 || plan.total_bytes <= plan.budget_bytes;
    return cli_finish_output(fits ? CLI_OK : say_why(path, r));
}
