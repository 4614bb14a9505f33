/* SPDX-License-Identifier: Apache-2.0 */
/* postern pack: a file that opens without work. */
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "term.h"

#include <string.h>
#include <sys/stat.h>

typedef struct pack_args {
    bool force, json;
} pack_args;

static const cli_option options[] = {
    {CLI_ON, 0, "force", NULL, offsetof(pack_args, force), 0, 0, "replace OUT when it is there already"},
    {CLI_ON, 0, "json", NULL, offsetof(pack_args, json), 0, 0,
     "one JSON object with the name and the bytes written"},
    {.kind = CLI_END},
};

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

static void print_result(const pack_args *a, const char *out) {
    struct stat st = {0};
    char size[TERM_BYTES_MAX];
    stat(out, &st);
    if (a->json) {
        json_t *object = json_need(json_pack("{s:o, s:I}", "file", json_from_text(out, strlen(out)), "bytes",
                                             (json_int_t)st.st_size));
        json_print(object);
        json_decref(object);
    } else if (term_is_tty(stdout)) {
        term_print_escaped(stdout, out, strlen(out));
        printf(": %s\n", term_bytes((uint64_t)st.st_size, size));
    }
}

static int run(void *args, const cli_texts *operands) {
    const pack_args *a = args;
    const char *in = operands->items[0], *out = operands->items[1];
    struct stat st;
    if (!a->force && stat(out, &st) == 0)
        return cli_error(CLI_USAGE, "%s is there already: give another name, or --force to replace it", out);
    pn_error err = {0};
    term_progress progress;
    term_progress_begin(&progress, "packing");
    pn_status status = pn_pack_file(in, out, on_progress, &progress, &err);
    term_progress_end(&progress);
    if (status != PN_OK) return cli_fail(&err);
    print_result(a, out);
    return cli_finish_output(CLI_OK);
}

const cli_command cmd_pack = {
    .name = "pack",
    .operands = "MODEL OUT",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "write a model in the form that is mapped and run as it lies",
    .description =
        "Writes a GGUF file whose matrices are laid out as the kernels read them. The numbers are the same. "
        "Other files are rearranged in memory each time they are opened; this one is mapped at once, its "
        "memory can be shared by several processes, and other programs refuse it by its type numbers.",
    .options = options,
    .args_size = sizeof(pack_args),
    .run = run,
};
