/* SPDX-License-Identifier: Apache-2.0 */
/* The command postern: finds the command, parses its options by its table, runs it. */
#include "command.h"
#include "common.h"
#include "term.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_command *const commands[] = {&cmd_run,        &cmd_serve, &cmd_inspect,  &cmd_tokenize,
                                              &cmd_template,   &cmd_bake,  &cmd_compress, &cmd_pack,
                                              &cmd_perplexity, &cmd_bench};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print_overview(FILE *file) {
    fprintf(file,
            "postern %s: large language models on devices with little memory\n\n"
            "usage: postern COMMAND [operands] [options]\n\ncommands:\n",
            pn_version());
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(file, "  %-10s the page of one command\n\n", "help");
    fputs("options:\n  -h, --help     this page; after a command, that command's\n"
          "  -V, --version  the version\n\n"
          "exit codes:\n"
          "  0    done\n"
          "  1    failed while running\n"
          "  2    wrong usage\n"
          "  3    a file is missing, broken or of an unknown kind\n"
          "  4    a limit was reached: context or memory\n"
          "  130  interrupted\n",
          file);
}

static const cli_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    cli_nearest nearest = {.given = name + strspn(name, "-")};
    cli_nearest_offer(&nearest, "help");
    if (name[0] == '-') cli_nearest_offer(&nearest, "version");
    for (size_t i = 0; i < N_COMMANDS && name[0] != '-'; i++)
        cli_nearest_offer(&nearest, commands[i]->name);
    const char *kind = name[0] == '-' ? "option" : "command";
    if (nearest.best != NULL)
        cli_error(CLI_USAGE, "unknown %s '%s'; did you mean '%s%s'?", kind, name, name[0] == '-' ? "--" : "",
                  nearest.best);
    else
        cli_error(CLI_USAGE, "unknown %s '%s'; see postern --help", kind, name);
    return NULL;
}

static void *make_args(const cli_command *command) {
    void *args = cli_realloc(NULL, command->args_size, 1);
    memset(args, 0, command->args_size);
    if (command->set_defaults != NULL) command->set_defaults(args);
    return args;
}

static int print_help(const cli_command *command) {
    void *defaults = make_args(command);
    cli_options_help(command, defaults, stdout);
    free(defaults);
    return cli_finish_output(CLI_OK);
}

static int run_command(const cli_command *command, int argc, char **argv) {
    void *args = make_args(command);
    cli_texts operands = {0};
    int code = CLI_USAGE;
    cli_parse parsed = cli_options_parse(command, argc, argv, args, &operands);
    if (parsed == CLI_PARSE_HELP)
        code = print_help(command);
    else if (parsed == CLI_PARSE_OK)
        code = command->run(args, &operands);
    cli_options_free(command, args, &operands);
    free(args);
    return code;
}

static int run_help(int argc, char **argv) {
    if (argc < 3) {
        print_overview(stdout);
        return cli_finish_output(CLI_OK);
    }
    const cli_command *command = find_command(argv[2]);
    return command != NULL ? print_help(command) : CLI_USAGE;
}

/* A model file must not become descriptor 1 because the caller closed standard output: answers would be
   written to it. What is closed is taken by /dev/null. */
static void fill_standard_descriptors(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
    fill_standard_descriptors();
    signal(SIGPIPE,
           SIG_DFL); /* a reader that left ends us quietly, also under a parent that ignores the signal */
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE,
                  "C.UTF-8"); /* text is UTF-8 whatever the locale: widths and line editing depend on it */
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return run_help(argc, argv);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("postern %s\n", pn_version());
        return cli_finish_output(CLI_OK);
    }
    const cli_command *command = find_command(argv[1]);
    return command != NULL ? run_command(command, argc - 2, argv + 2) : CLI_USAGE;
}
