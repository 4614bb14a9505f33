/* SPDX-License-Identifier: Apache-2.0 */
/* postern template: messages to the prompt that the model is given. */
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "term.h"
#include "tokens_out.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct template_args {
    const char *file, *template_path, *extra;
    cli_texts messages;
    int64_t now;
    bool no_generation_prompt, tokens, json, lint;
} template_args;

#define AT(field) offsetof(template_args, field)

static const cli_option options[] = {
    {CLI_TEXT, 'f', "file", "FILE", AT(file), 0, 0,
     "JSON array of messages with role and content; - reads standard input"},
    {CLI_TEXTS, 'm', "message", "ROLE:TEXT", AT(messages), 0, 0, "one message; repeat for more"},
    {CLI_TEXT, 0, "template", "FILE", AT(template_path), 0, 0,
     "Jinja chat template to use instead of the model's"},
    {CLI_TEXT, 0, "extra", "JSON", AT(extra), 0, 0,
     "object of further variables for the template, such as tools or enable_thinking"},
    {CLI_TIME, 0, "now", "DATE", AT(now), 0, 0,
     "date that the template sees: 2026-01-02, 2026-01-02T03:04:05 or Unix seconds, in UTC (default: the "
     "clock)"},
    {CLI_ON, 0, "no-generation-prompt", NULL, AT(no_generation_prompt), 0, 0,
     "end after the last message instead of where the answer begins"},
    {CLI_ON, 0, "lint", NULL, AT(lint), 0, 0,
     "tell whether prompts only grow at their end as a conversation does; exit code 1 if not"},
    {CLI_ON, 0, "tokens", NULL, AT(tokens), 0, 0, "the tokens, one line each, instead of the text"},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object: text; with --tokens also n, ids and pieces"},
    {.kind = CLI_END},
};

static int messages_from_options(const cli_texts *list, cli_text *out) {
    json_t *messages = json_need(json_array());
    int code = CLI_OK;
    for (size_t i = 0; i < list->n && code == CLI_OK; i++) {
        const char *text = strchr(list->items[i], ':');
        if (text == NULL || text == list->items[i]) {
            code = cli_error(CLI_USAGE, "--message: '%s' is not ROLE:TEXT", list->items[i]);
            break;
        }
        json_t *role = json_from_text(list->items[i], (size_t)(text - list->items[i]));
        json_t *content = json_from_text(text + 1, strlen(text + 1));
        json_array_append_new(messages, json_need(json_pack("{s:o, s:o}", "role", role, "content", content)));
    }
    char *json = json_dumps(messages, JSON_COMPACT);
    if (json != NULL) cli_text_append(out, json, strlen(json));
    free(json);
    json_decref(messages);
    return code;
}

static int read_messages(const template_args *a, cli_text *out) {
    if (a->file != NULL && a->messages.n > 0)
        return cli_error(CLI_USAGE, "--file and --message exclude each other");
    if (a->messages.n > 0) return messages_from_options(&a->messages, out);
    if (a->file == NULL && isatty(STDIN_FILENO))
        return cli_error(CLI_USAGE, "no messages: give -m ROLE:TEXT, -f FILE or JSON on standard input");
    return cli_read_source(a->file != NULL ? a->file : "-", out);
}

static int print_prompt(const pn_model *model, const template_args *a, const char *messages,
                        const pn_chat_options *chat) {
    pn_error err = {0};
    pn_text text = {0};
    pn_tokens tokens = {0};
    json_t *object = json_need(json_object());
    pn_status status = PN_OK;
    if (!a->tokens || a->json) status = pn_chat_render(model, messages, chat, &text, &err);
    if (status == PN_OK && a->tokens) status = pn_chat_tokenize(model, messages, chat, &tokens, &err);
    if (status == PN_OK && a->json) {
        json_object_set_new(object, "text", json_from_text(text.data, text.len));
        if (a->tokens) status = tokens_to_json(model, &tokens, object, &err);
        if (status == PN_OK) json_print(object);
    } else if (status == PN_OK && a->tokens) {
        status = tokens_print(model, &tokens, &err);
    } else if (status == PN_OK) {
        fwrite(text.data, 1, text.len, stdout);
    }
    json_decref(object);
    pn_tokens_free(&tokens);
    pn_text_free(&text);
    if (status == PN_ERR_ARGUMENT && a->file) return cli_error(CLI_FILE, "%s: %s", a->file, err.message);
    return status == PN_OK ? cli_finish_output(CLI_OK) : cli_fail_template(&err, a->template_path);
}

static int lint(const pn_model *model, const template_args *a, const pn_chat_options *chat) {
    pn_error err = {0};
    pn_text text = {0};
    if (pn_chat_lint_json(model, chat, &text, &err) != PN_OK)
        return cli_fail_template(&err, a->template_path);
    json_t *report = json_need(json_loads(text.data, 0, NULL)), *item;
    size_t i;
    pn_text_free(&text);
    if (a->json) json_print(report);
    json_array_foreach(json_object_get(report, "cases"), i, item) {
        if (a->json) break;
        const char *cause = json_string_value(json_object_get(item, "cause"));
        printf("%-16s %s", json_string_value(json_object_get(item, "name")),
               json_string_value(json_object_get(item, "result")));
        if (cause != NULL) {
            const char *old = json_string_value(json_object_get(item, "old_text"));
            const char *new = json_string_value(json_object_get(item, "new_text"));
            printf(" (%s): ", cause);
            term_print_shortened(stdout, old, strlen(old), 40);
            fputs(" became ", stdout);
            term_print_shortened(stdout, new, strlen(new), 40);
        }
        putchar('\n');
    }
    const int code = json_is_true(json_object_get(report, "appends")) ? CLI_OK : CLI_FAILED;
    json_decref(report);
    return cli_finish_output(code);
}

static int run(void *args, const cli_texts *operands) {
    const template_args *a = args;
    cli_text messages = {0}, source = {0};
    pn_model *model = NULL;
    pn_error err = {0};
    int code = a->lint ? CLI_OK : read_messages(a, &messages);
    if (code == CLI_OK && a->template_path != NULL) code = cli_read_source(a->template_path, &source);
    if (code == CLI_OK &&
        pn_model_open(operands->items[0], &(pn_model_options){.n_threads = 1}, &model, &err) != PN_OK)
        code = cli_fail(&err);
    if (code == CLI_OK) {
        pn_chat_options chat = {
            .no_generation_prompt = a->no_generation_prompt,
            .template_source = source.data,
            .extra_json = a->extra,
            .now = a->now,
        };
        code = a->lint ? lint(model, a, &chat) : print_prompt(model, a, messages.data, &chat);
    }
    pn_model_close(model);
    cli_text_free(&messages);
    cli_text_free(&source);
    return code;
}

const cli_command cmd_template = {
    .name = "template",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "show the prompt that the chat template makes of messages",
    .description =
        "Renders messages by the model's chat template and prints the prompt, byte for byte, without a "
        "newline of its own.",
    .options = options,
    .args_size = sizeof(template_args),
    .run = run,
};
