/* SPDX-License-Identifier: Apache-2.0 */
/* postern inspect: what a file says of itself, as a page or as the library's JSON. */
#include "command.h"
#include "common.h"
#include "inspect_page.h"

typedef struct inspect_args {
    bool json, full;
} inspect_args;

#define AT(field) offsetof(inspect_args, field)

static const cli_option options[] = {
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object"},
    {CLI_ON, 0, "full", NULL, AT(full), 0, 0, "long values and arrays whole, and every tensor"},
    {.kind = CLI_END},
};

static int run(void *args, const cli_texts *operands) {
    const inspect_args *a = args;
    pn_error err = {0};
    pn_text json = {0};
    if (pn_inspect_json(operands->items[0], a->full, &json, &err) != PN_OK) return cli_fail(&err);
    int code = CLI_OK;
    if (a->json) {
        fwrite(json.data, 1, json.len, stdout);
        putchar('\n');
    } else {
        code = inspect_page_print(json.data, json.len, a->full);
    }
    pn_text_free(&json);
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
        "several lengths, and those that one decoded token reads. Works also for architectures that cannot "
        "be run.",
    .options = options,
    .args_size = sizeof(inspect_args),
    .run = run,
};
