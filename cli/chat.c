/* SPDX-License-Identifier: Apache-2.0 */
#include "chat.h"

#include "common.h"
#include "editor.h"
#include "opening.h"
#include "options.h"
#include "term.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct chat_state {
    runner *runner;
    conversation *conversation;
    const chat_options *options;
    opening opening;
    pn_generate_result last;  /* for /stats; without text when nothing was answered yet */
    pn_cache_explanation why; /* of the last prompt, where it is asked for */
    bool answered, quit;
    uint64_t n_regenerated; /* added to a fixed seed, which would only repeat the answer */
} chat_state;

static void note(const char *text) {
    fprintf(stderr, "%s%s%s\n", term_dim(stderr), text, term_plain(stderr));
}

static bool slides(const chat_state *chat) {
    return chat->runner->session_options.overflow == PN_OVERFLOW_SLIDE;
}

static size_t context_size(const chat_state *chat) {
    pn_session_stats stats;
    pn_session_get_stats(chat->runner->session, &stats);
    return (size_t)stats.n_ctx;
}

static void note_context_full(const chat_state *chat, const char *what) {
    int n_ctx = (int)context_size(chat), n_most = chat->runner->info.n_ctx_train;
    char *more = n_ctx < n_most ? cli_format(", /tier long up to %d tokens", n_most) : cli_format("%s", "");
    char *text = cli_format("(%s: the context of %d tokens is full. /reset makes room%s; --overflow slide "
                            "goes on without the middle)",
                            what, n_ctx, more);
    note(text);
    free(text);
    free(more);
}

/* Full when the answer's last token, which is not yet in the cache, takes the last place. */
static bool context_is_full(const chat_state *chat) {
    pn_session_stats stats;
    pn_session_get_stats(chat->runner->session, &stats);
    return stats.n_tokens + 1 >= (size_t)stats.n_ctx;
}

/* Takes the answer into the conversation and says how it ended, where that is not plain. */
static void finish_answer(chat_state *chat) {
    const pn_generate_result *last = &chat->last;
    if (last->text.len == 0 || last->text.data[last->text.len - 1] != '\n') putchar('\n');
    fflush(stdout);
    conversation_add(chat->conversation, "assistant", last->text.data, last->text.len);
    runner_note_pressure(chat->runner, last);
    if (last->finish == PN_FINISH_CANCELLED)
        note("(stopped; the part above stays in the conversation)");
    else if (last->finish == PN_FINISH_LENGTH && context_is_full(chat) && !slides(chat))
        note_context_full(chat, "the answer was cut");
    else if (last->finish == PN_FINISH_LENGTH)
        note("(the answer was cut at --max-tokens)");
    if (chat->options->stats) runner_print_stats(chat->runner, last);
    if (chat->options->explain_cache) runner_print_cache(chat->runner, &chat->why, last);
    /* Now, so that a chat that is killed is found again as far as it came. */
    if (chat->runner->model_options.cache_dir != NULL) pn_session_save(chat->runner->session, NULL, NULL);
}

/* Answers the conversation as it stands. The user's message is taken back when no answer came. */
static void answer(chat_state *chat) {
    pn_error err = {0};
    pn_tokens prompt = {0};
    pn_generate_result result = {0};
    pn_generate_options generate = chat->options->generate;
    generate.sampling.seed += chat->n_regenerated;

    pn_status status =
        conversation_tokenize(chat->conversation, chat->runner->model, &chat->options->render, &prompt, &err);
    bool too_long = status == PN_OK && prompt.n > context_size(chat) && !slides(chat);
    if (status == PN_OK && !too_long && chat->options->explain_cache)
        status = conversation_explain(chat->conversation, chat->runner->session, &chat->options->render,
                                      &chat->why, &err);
    if (status == PN_OK && !too_long)
        status = runner_answer(chat->runner, &prompt, &generate, stdout, false, &result, &err);
    pn_tokens_free(&prompt);
    if (too_long) {
        note_context_full(chat, "not answered");
    } else if (status != PN_OK) {
        cli_fail(&err);
        chat->quit = status == PN_ERR_IO; /* nobody reads the answers any more */
    } else {
        pn_generate_result_free(&chat->last);
        chat->last = result;
        chat->answered = true;
        if (result.finish != PN_FINISH_CANCELLED || result.text.len > 0) {
            finish_answer(chat);
            return;
        }
        note("\n(stopped before the answer began; the message is dropped)");
    }
    conversation_drop_last(chat->conversation);
}

static void command_help(chat_state *chat, const char *argument);

static void command_reset(chat_state *chat, const char *argument) {
    (void)argument;
    conversation_reset(chat->conversation);
    pn_session_finish_chat(chat->runner->session);
    note(conversation_system(chat->conversation) != NULL ? "(a new conversation; the system message stays)"
                                                         : "(a new conversation)");
}

static void command_system(chat_state *chat, const char *argument) {
    const char *system = conversation_system(chat->conversation);
    if (argument[0] != '\0') {
        bool none = strcmp(argument, "none") == 0;
        conversation_set_system(chat->conversation, argument, none ? 0 : strlen(argument));
        note(none ? "(no system message)" : "(system message set; it counts from the next answer)");
    } else if (system != NULL) {
        term_print_answer(stderr, system, strlen(system));
        fputc('\n', stderr);
    } else {
        note("(no system message)");
    }
}

static void command_save(chat_state *chat, const char *argument) {
    if (argument[0] == '\0') {
        cli_error(CLI_USAGE, "/save needs a file name");
    } else if (conversation_save(chat->conversation, argument) == CLI_OK) {
        char *text =
            cli_format("(%zu messages saved to %s)", conversation_length(chat->conversation), argument);
        note(text);
        free(text);
    }
}

static void command_tier(chat_state *chat, const char *argument) {
    pn_error err = {0};
    if (argument[0] != '\0' && pn_session_set_tier(chat->runner->session, argument, &err) != PN_OK) {
        cli_fail(&err);
        return;
    }
    pn_session_stats stats;
    pn_session_get_stats(chat->runner->session, &stats);
    char *text = cli_format("(%s: a context of %d tokens, of which %zu are used)",
                            stats.tier != NULL ? stats.tier : "no tier", stats.n_ctx, stats.n_tokens);
    note(text);
    free(text);
}

static void command_stats(chat_state *chat, const char *argument) {
    (void)argument;
    if (chat->answered)
        runner_print_stats(chat->runner, &chat->last);
    else
        note("(nothing was answered yet)");
}

static void command_regenerate(chat_state *chat, const char *argument) {
    (void)argument;
    if (strcmp(conversation_last_role(chat->conversation), "assistant") != 0) {
        note("(there is no answer to replace)");
        return;
    }
    conversation_drop_last(chat->conversation);
    chat->n_regenerated++;
    answer(chat);
}

static void command_quit(chat_state *chat, const char *argument) {
    (void)argument;
    chat->quit = true;
}

static const struct command {
    const char *name, *argument, *help;
    void (*run)(chat_state *chat, const char *argument);
} commands[] = {
    {"help", "", "this list", command_help},
    {"reset", "", "begin a new conversation; the system message stays", command_reset},
    {"system", "[TEXT]", "show the system message, or set it; \"none\" takes it away", command_system},
    {"regenerate", "", "replace the last answer by another", command_regenerate},
    {"tier", "[NAME]", "show the size of the context, or change it: short, long", command_tier},
    {"save", "FILE", "write the conversation as JSON", command_save},
    {"stats", "", "times and memory of the last answer", command_stats},
    {"quit", "", "leave, as Ctrl-D does", command_quit},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void command_help(chat_state *chat, const char *argument) {
    (void)chat, (void)argument;
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, "  /%s %-*s %s\n", commands[i].name, (int)(14 - strlen(commands[i].name)),
                commands[i].argument, commands[i].help);
    fputs("  A line that ends with \\ goes on; \"\"\" begins and ends a text of several lines;\n"
          "  pasted lines are one message. Ctrl-C stops an answer or clears the line;\n"
          "  Ctrl-R searches the history.\n",
          stderr);
}

/* "/name" or "/name argument": one line, a name of letters. "/usr/bin" and the like are messages. */
static bool run_command(chat_state *chat, const char *message) {
    if (message[0] != '/' || strchr(message, '\n') != NULL) return false;
    size_t len = 0;
    while (islower((unsigned char)message[1 + len]))
        len++;
    const char *argument = message + 1 + len;
    if (len == 0 || (*argument != '\0' && *argument != ' ')) return false;
    argument += strspn(argument, " ");
    char *name = cli_format("%.*s", (int)len, message + 1);
    cli_nearest nearest = {.given = name};
    const struct command *found = NULL;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) found = &commands[i];
        cli_nearest_offer(&nearest, commands[i].name);
    }
    if (found != NULL)
        found->run(chat, argument);
    else if (nearest.best != NULL)
        cli_error(CLI_USAGE, "unknown command /%s; did you mean /%s?", name, nearest.best);
    else
        cli_error(CLI_USAGE, "unknown command /%s; see /help", name);
    free(name);
    return true;
}

static void on_progress(void *user, size_t n_done, size_t n_total) {
    term_progress_update(user, n_done, n_total);
}

/* Before the first message is asked for. */
static void pin_system(chat_state *chat) {
    pn_error err = {0};
    term_progress progress;
    pn_session *session = chat->runner->session;
    char *messages = conversation_begin_json(chat->conversation);
    term_progress_begin(&progress, "reading the system message");
    pn_status status =
        pn_session_start_chat(session, messages, &chat->options->render, on_progress, &progress, &err);
    term_progress_end(&progress);
    if (status == PN_OK) status = pn_session_pin(session, &err);
    if (status != PN_OK) cli_warn("the system message is not pinned: %s", err.message);
    free(messages);
}

int chat_run(runner *r, conversation *c, const chat_options *options) {
    chat_state chat = {.runner = r, .conversation = c, .options = options};
    cli_text message = {0};
    editor *e = editor_create();
    if (e == NULL) return CLI_FAILED;
    /* Ctrl-C is a key at the prompt and stops an answer; in the moments between it must not end the chat. */
    struct sigaction old, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ignore, &old);
    note("Type a message. /help lists the commands, Ctrl-D leaves.");
    chat.opening = (opening){.session = r->session, .render = &options->render};
    if (options->pin) pin_system(&chat);
    while (!chat.quit) {
        if (strcmp(conversation_last_role(c), "assistant") != 0) opening_start(&chat.opening, c);
        editor_event event = editor_read(e, &message);
        opening_stop(&chat.opening);
        if (event == EDITOR_END) break;
        if (event == EDITOR_CLEARED || strspn(message.data, " \t\n") == message.len) continue;
        editor_remember(e, message.data);
        if (run_command(&chat, message.data)) continue;
        conversation_add(c, "user", message.data, message.len);
        answer(&chat);
    }
    opening_stop(&chat.opening);
    sigaction(SIGINT, &old, NULL);
    cli_text_free(&message);
    editor_free(e);
    pn_generate_result_free(&chat.last);
    return cli_finish_output(CLI_OK);
}
