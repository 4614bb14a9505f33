/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: one table says name, value, range, help text and where the value goes. The parser
   fills the command's argument struct from it, the help page prints it, and shell completion reads that page.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <postern.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What an option's value is, and the type of the field at its offset. */
typedef enum cli_kind {
    CLI_END = 0, /* last row of a table */
    CLI_GROUP,   /* no option: a heading of the help page */
    CLI_ON,      /* bool, set to true */
    CLI_OFF,     /* bool, set to false */
    CLI_INT,     /* int in [min, max] */
    CLI_FLOAT,   /* float in [min, max] */
    CLI_BYTES,   /* uint64_t, a size such as 900M or 1.2G (powers of 1024) */
    CLI_TEXT,    /* const char * */
    CLI_CHOICE,  /* int, the index in the placeholder's "a|b|c" */
    CLI_SEED,    /* cli_seed */
    CLI_TIME,    /* int64_t, Unix seconds */
    CLI_TEXTS,   /* cli_texts; repeat the option for more */
    CLI_INTS,    /* cli_ints, comma-separated, each in [min, max] */
    CLI_BIASES   /* cli_biases, comma-separated ID=BIAS */
} cli_kind;

typedef struct cli_seed {
    uint64_t value;
    bool given;
} cli_seed;

/* Lists grow while parsing and are freed by cli_options_free; the texts themselves are argv's. */
typedef struct cli_texts {
    const char **items;
    size_t n;
} cli_texts;

typedef struct cli_ints {
    int *items;
    size_t n;
} cli_ints;

typedef struct cli_biases {
    pn_logit_bias *items;
    size_t n;
} cli_biases;

typedef struct cli_option {
    cli_kind kind;
    char letter; /* short name, or 0 */
    const char *name;
    const char *placeholder; /* of the value; NULL for switches */
    size_t offset;           /* of the field in the command's argument struct */
    double min, max;
    const char *help;
} cli_option;

typedef struct cli_command {
    const char *name;
    const char *operands; /* as the usage line shows them */
    size_t min_operands, max_operands;
    const char *summary; /* for the list of commands */
    const char *description;
    const cli_option *options;
    size_t args_size;
    void (*set_defaults)(void *args); /* args come zeroed; may be NULL */
    int (*run)(void *args, const cli_texts *operands);
} cli_command;

#define CLI_OPERANDS_ANY SIZE_MAX

typedef enum cli_parse {
    CLI_PARSE_OK,
    CLI_PARSE_HELP, /* --help was among the options */
    CLI_PARSE_BAD   /* the error has been printed */
} cli_parse;

/* Parses argv[0..argc), which does not hold the command's name. Options and operands may be mixed; "--" ends
   options; values may follow as --name=V, --name V, -nV or -n V; the last of a repeated option counts. */
cli_parse cli_options_parse(const cli_command *command, int argc, char **argv, void *args,
                            cli_texts *operands);
void cli_options_free(const cli_command *command, void *args, cli_texts *operands);

/* The help page; the defaults it names are read from args as set_defaults leaves them. */
void cli_options_help(const cli_command *command, const void *args, FILE *file);

/* Remembers the offered name that is nearest to `given`, if it is near enough to be a slip of the fingers. */
typedef struct cli_nearest {
    const char *given, *best;
    size_t distance;
} cli_nearest;
void cli_nearest_offer(cli_nearest *nearest, const char *name);

#endif
