/* SPDX-License-Identifier: Apache-2.0 */
/* postern tokenize: text to tokens and back. */
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "numbers.h"
#include "tokens_out.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct tokenize_args {
    const char *file;
    bool bos, control, json, count, decode;
} tokenize_args;

#define AT(field) offsetof(tokenize_args, field)

static const cli_option options[] = {
    {CLI_TEXT, 'f', "file", "FILE", AT(file), 0, 0,
     "the text, or the ids of --decode; - reads standard input"},
    {CLI_ON, 0, "bos", NULL, AT(bos), 0, 0, "put the BOS token first where the model wants one (default)"},
    {CLI_OFF, 0, "no-bos", NULL, AT(bos), 0, 0, "do not"},
    {CLI_ON, 0, "control", NULL, AT(control), 0, 0,
     "text that spells a control token becomes that token; with --decode, show control tokens"},
    {CLI_ON, 0, "decode", NULL, AT(decode), 0, 0,
     "the other way: the operands are ids, separated by blanks or commas, and the text is printed"},
    {CLI_ON, 0, "count", NULL, AT(count), 0, 0, "print only how many tokens there are"},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object: n, ids and pieces, or text"},
    {.kind = CLI_END},
};

static void set_defaults(void *args) {
    ((tokenize_args *)args)->bos = true;
}

/* The operands joined by blanks, or the file, or standard input. */
static int read_text(const tokenize_args *a, const cli_texts *operands, cli_text *out) {
    if (a->file != NULL && operands->n > 1)
        return cli_error(CLI_USAGE, "--file and '%s' exclude each other", operands->items[1]);
    if (a->file == NULL && operands->n < 2 && isatty(STDIN_FILENO))
        return cli_error(CLI_USAGE, "no text: give it as operand, with -f FILE or on standard input");
    if (a->file != NULL || operands->n < 2) return cli_read_file(a->file != NULL ? a->file : "-", out);
    for (size_t i = 1; i < operands->n; i++) {
        if (i > 1) cli_text_append(out, " ", 1);
        cli_text_append(out, operands->items[i], strlen(operands->items[i]));
    }
    return CLI_OK;
}

static int parse_ids(const char *text, pn_tokens *out) {
    static const char separators[] = ", \t\r\n[]";
    for (text += strspn(text, separators); *text != '\0'; text += strspn(text, separators)) {
        size_t len = strcspn(text, separators);
        int id;
        if (!number_int(text, len, 0, INT_MAX, &id))
            return cli_error(CLI_USAGE, "--decode: '%.*s' is not a token id", (int)(len < 40 ? len : 40),
                             text);
        out->ids = cli_realloc(out->ids, out->n + 1, sizeof *out->ids);
        out->ids[out->n++] = id;
        text += len;
    }
    return CLI_OK;
}

static int print_decoded(const pn_model *model, const tokenize_args *a, const char *ids_text) {
    pn_tokens tokens = {0};
    pn_text text = {0};
    pn_error err = {0};
    int code = parse_ids(ids_text, &tokens);
    if (code == CLI_OK && pn_detokenize(model, tokens.ids, tokens.n, a->control, &text, &err) != PN_OK)
        code = cli_fail(&err);
    if (code == CLI_OK && a->json) {
        json_t *object = json_need(json_pack("{s:o}", "text", json_from_text(text.data, text.len)));
        json_print(object);
        json_decref(object);
    } else if (code == CLI_OK) {
        fwrite(text.data, 1, text.len, stdout);
        putchar('\n');
    }
    free(tokens.ids); /* made here, not by the library */
    pn_text_free(&text);
    return code;
}

static int print_tokens(const pn_model *model, const tokenize_args *a, const cli_text *text) {
    unsigned flags =
        (a->bos ? (unsigned)PN_TOKENIZE_BOS : 0) | (a->control ? (unsigned)PN_TOKENIZE_CONTROL : 0);
    pn_tokens tokens = {0};
    pn_error err = {0};
    pn_status status = pn_tokenize(model, text->data, text->len, flags, &tokens, &err);
    if (status == PN_OK && a->count) {
        printf("%zu\n", tokens.n);
    } else if (status == PN_OK && a->json) {
        json_t *object = json_need(json_object());
        status = tokens_to_json(model, &tokens, object, &err);
        if (status == PN_OK) json_print(object);
        json_decref(object);
    } else if (status == PN_OK) {
        status = tokens_print(model, &tokens, &err);
    }
    pn_tokens_free(&tokens);
    return status == PN_OK ? CLI_OK : cli_fail(&err);
}

static int run(void *args, const cli_texts *operands) {
    const tokenize_args *a = args;
    cli_text text = {0};
    pn_model *model = NULL;
    pn_error err = {0};
    int code = read_text(a, operands, &text);
    if (code == CLI_OK &&
        pn_model_open(operands->items[0], &(pn_model_options){.n_threads = 1}, &model, &err) != PN_OK)
        code = cli_fail(&err);
    if (code == CLI_OK) code = a->decode ? print_decoded(model, a, text.data) : print_tokens(model, a, &text);
    pn_model_close(model);
    cli_text_free(&text);
    return code == CLI_OK ? cli_finish_output(code) : code;
}

const cli_command cmd_tokenize = {
    .name = "tokenize",
    .operands = "MODEL [TEXT...]",
    .min_operands = 1,
    .max_operands = CLI_OPERANDS_ANY,
    .summary = "show how a text becomes tokens",
    .description =
        "Prints one line per token, its id and its piece; the text is the operands, a file, or standard "
        "input. Control characters in pieces are escaped as \\n or \\xNN.",
    .options = options,
    .args_size = sizeof(tokenize_args),
    .set_defaults = set_defaults,
    .run = run,
};
