/* SPDX-License-Identifier: Apache-2.0 */
/* postern bake: what a system message comes to, computed once for all conversations. */
#include "command.h"
#include "common.h"
#include "conversation.h"
#include "json_out.h"
#include "kv_layers.h"
#include "runner.h"
#include "term.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct bake_args {
    const char *system, *template_path, *out, *kv_layers;
    int64_t now;
    uint64_t memory_budget;
    int n_threads, kv_type, precision;
    bool force, json;
} bake_args;

#define AT(field) offsetof(bake_args, field)

static const cli_option options[] = {
    {CLI_TEXT, 0, "system", "TEXT|@FILE", AT(system), 0, 0, "system message, or the file that holds it"},
    {CLI_TEXT, 'o', "output", "FILE", AT(out), 0, 0,
     "where to write (default: MODEL.kv, which `postern run` finds by itself)"},
    {CLI_ON, 0, "force", NULL, AT(force), 0, 0, "replace the file when it is there already"},
    {CLI_TEXT, 0, "template", "FILE", AT(template_path), 0, 0,
     "Jinja chat template to use instead of the model's"},
    {CLI_TIME, 0, "now", "DATE", AT(now), 0, 0, RUNNER_NOW_HELP},
    {CLI_CHOICE, 0, "kv-type", RUNNER_KV_TYPES, AT(kv_type), 0, 0, RUNNER_KV_TYPES_HELP},
    {CLI_TEXT, 0, "kv-layers", "LIST", AT(kv_layers), 0, 0, KV_LAYERS_HELP},
    {CLI_CHOICE, 0, "precision", RUNNER_PRECISIONS, AT(precision), 0, 0, RUNNER_PRECISION_HELP},
    {CLI_BYTES, 0, "memory-budget", "SIZE", AT(memory_budget), 0, 0, RUNNER_BUDGET_HELP},
    {CLI_INT, 0, "threads", "N", AT(n_threads), 1, 1024, RUNNER_THREADS_HELP},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object with what was written"},
    {.kind = CLI_END},
};

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

static void print_result(const bake_args *a, const char *out, size_t n_tokens) {
    struct stat st = {0};
    char size[TERM_BYTES_MAX];
    stat(out, &st);
    if (a->json) {
        json_t *object =
            json_need(json_pack("{s:o, s:I, s:I}", "file", json_from_text(out, strlen(out)), "bytes",
                                (json_int_t)st.st_size, "tokens", (json_int_t)n_tokens));
        json_print(object);
        json_decref(object);
    } else if (term_is_tty(stdout)) {
        term_print_escaped(stdout, out, strlen(out));
        printf(": the %zu tokens that conversations begin with, %s\n", n_tokens,
               term_bytes((uint64_t)st.st_size, size));
    }
}

/* The session has just the room for the text. */
static int compute(runner *r, const bake_args *a, const pn_tokens *tokens, const char *out) {
    pn_error err = {0};
    term_progress progress;
    r->session_options.n_ctx = tokens->n < INT_MAX ? (int)tokens->n : INT_MAX;
    int code = runner_start(r, false);
    if (code != CLI_OK) return code;
    term_progress_begin(&progress, "reading the system message");
    pn_status status = pn_session_sync(r->session, tokens->ids, tokens->n, on_progress, &progress, &err);
    term_progress_end(&progress);
    if (status == PN_OK) status = pn_session_save(r->session, out, &err);
    if (status != PN_OK) return cli_fail(&err);
    print_result(a, out, tokens->n);
    return cli_finish_output(CLI_OK);
}

static int bake(runner *r, const bake_args *a, const cli_text *system, const pn_chat_options *render,
                const char *out) {
    pn_error err = {0};
    pn_tokens tokens = {0};
    conversation c;
    conversation_init(&c);
    conversation_set_system(&c, system->data, system->len);
    const pn_status status = conversation_begin(&c, r->model, render, &tokens, &err);
    conversation_done(&c);
    int code = status == PN_OK ? compute(r, a, &tokens, out) : cli_fail_template(&err, a->template_path);
    pn_tokens_free(&tokens);
    return code;
}

static int bake_model(const char *path, const bake_args *a, const char *out) {
    cli_text system = {0}, template_source = {0};
    runner r = {.model_options = {.n_threads = a->n_threads},
                .session_options = {.kv_type = (pn_kv_type)a->kv_type,
                                    .precision = (pn_precision)a->precision,
                                    .lookup = PN_LOOKUP_OFF},
                .memory_budget = a->memory_budget};
    kv_layers layers;
    int code = kv_layers_set(&layers, a->kv_layers, &r.model_options);
    if (code == CLI_OK) code = cli_read_given(a->system, &system);
    if (code == CLI_OK && a->template_path != NULL)
        code = cli_read_source(a->template_path, &template_source);
    if (code == CLI_OK) code = runner_open(&r, path);
    const pn_chat_options render = {.template_source = template_source.data, .now = a->now};
    if (code == CLI_OK) code = bake(&r, a, &system, &render, out);
    runner_close(&r);
    cli_text_free(&system);
    cli_text_free(&template_source);
    return code;
}

static int run(void *args, const cli_texts *operands) {
    const bake_args *a = args;
    struct stat st;
    if (a->system == NULL)
        return cli_error(CLI_USAGE,
                         "nothing to bake: give the system message with --system TEXT or --system @FILE");
    char *out = a->out != NULL ? cli_format("%s", a->out) : runner_baked_path(operands->items[0]);
    int code;
    if (!a->force && stat(out, &st) == 0)
        code = cli_error(CLI_USAGE, "%s is there already: give another name, or --force to replace it", out);
    else
        code = bake_model(operands->items[0], a, out);
    free(out);
    return code;
}

const cli_command cmd_bake = {
    .name = "bake",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "compute a system message once for all conversations",
    .description =
        "Writes the keys and values of a system message beside the model. `postern run` with the same model, "
        "--system, --kv-type and --precision then begins to answer as if it had read the message before. The "
        "file is of use on machines with the same instruction set only, and says so elsewhere.",
    .options = options,
    .args_size = sizeof(bake_args),
    .run = run,
};
