/* SPDX-License-Identifier: Apache-2.0 */
/* postern inspect: what a file says of itself, as a page or as JSON, and how it was compressed. */
#include "command.h"
#include "common.h"
#include "compression.h"
#include "inspect_page.h"
#include "json_out.h"

#include <string.h>

typedef struct inspect_args {
    bool json, full, force;
    const char *report;
} inspect_args;

#define AT(field) offsetof(inspect_args, field)

static const cli_option options[] = {
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object"},
    {CLI_ON, 0, "full", NULL, AT(full), 0, 0, "long values and arrays whole, and every tensor"},
    {CLI_TEXT, 0, "report", "FILE", AT(report), 0, 0,
     "write what compression did, as a picture (.svg), JSON (.json) or text"},
    {CLI_ON, 0, "force", NULL, AT(force), 0, 0, "replace that file when it is there already"},
    {.kind = CLI_END},
};

static void print_json(json_t *root, const inspect_compression *c) {
    json_t *value = c->status == PN_OK ? compression_json(&c->report) : json_need(json_null());
    if (c->status != PN_OK && c->status != PN_ERR_UNSUPPORTED)
        value = json_need(
            json_pack("{s:o}", "error", json_from_text(c->error.message, strlen(c->error.message))));
    json_object_set_new(root, "compression", value);
    json_dumpf(root, stdout, JSON_REAL_PRECISION(15));
    putchar('\n');
}

static int print_description(const inspect_args *a, const char *path,
                             const inspect_compression *compression) {
    pn_error err = {0};
    pn_text text = {0};
    if (pn_inspect_json(path, a->full, &text, &err) != PN_OK) return cli_fail(&err);
    json_t *root = json_loadb(text.data, text.len, JSON_ALLOW_NUL, NULL);
    pn_text_free(&text);
    json_need(root);
    if (a->json)
        print_json(root, compression);
    else
        inspect_page_print(root, compression, a->full);
    json_decref(root);
    return CLI_OK;
}

/* Before anything is printed, so that a wrong name for it is all that is said. */
static int write_report(const inspect_args *a, const char *path, const inspect_compression *compression) {
    out_file file;
    if (compression->status != PN_OK) return cli_fail(&compression->error);
    int code = out_file_begin(&file, a->report, a->force);
    return code == CLI_OK ? compression_write(&file, &compression->report, cli_file_name(path)) : code;
}

static int run(void *args, const cli_texts *operands) {
    const inspect_args *a = args;
    const char *path = operands->items[0];
    inspect_compression compression = {0};
    compression.status = pn_compress_read_report(path, &compression.report, &compression.error);
    int code = a->report ? write_report(a, path, &compression) : CLI_OK;
    if (code == CLI_OK) code = print_description(a, path, &compression);
    pn_compress_result_free(&compression.report);
    return code == CLI_OK ? cli_finish_output(code) : code;
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "show what a model file holds and what it will take",
    .description =
        "Shows what a file says of itself, and the three walls: the bytes of the weights, of the KV cache at "
        "several lengths, and those that one decoded token reads. Of a file that `postern compress` wrote it "
        "shows also what became of the weights. Works also for architectures that cannot be run.",
    .options = options,
    .args_size = sizeof(inspect_args),
    .run = run,
};
