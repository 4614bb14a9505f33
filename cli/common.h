/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the command share: exit codes, one-line messages, memory, time, whole files. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include <postern.h>

#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define CLI_PRINTF(fmt, args)
#endif

/* Exit codes; the help of the command and the man page list them. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,        /* run-time failure: a template's exception, a NaN, standard output not writable */
    CLI_USAGE = 2,         /* wrong option, operand or value */
    CLI_FILE = 3,          /* a file is missing, broken, or of a kind this version does not know */
    CLI_LIMIT = 4,         /* context or memory is not enough */
    CLI_INTERRUPTED = 130, /* Ctrl-C, as shells report it */
};

/* Prints "postern: <message>" as one line on standard error, control characters escaped, and returns code. */
int cli_error(int code, const char *fmt, ...) CLI_PRINTF(2, 3);
/* The same for an error of the library, with the exit code that its status stands for. */
int cli_fail(const pn_error *err);
/* The same for what may be the fault of a template that the user gave (path, or NULL): such errors name the
 * file. */
int cli_fail_template(const pn_error *err, const char *path);
/* Prints "postern: warning: <message>". */
void cli_warn(const char *fmt, ...) CLI_PRINTF(1, 2);

/* realloc of n * size bytes. A command that cannot get the few bytes it needs for itself ends here with
 * CLI_LIMIT. */
void *cli_realloc(void *block, size_t n, size_t size);
/* A formatted string of its own, for free(). */
char *cli_format(const char *fmt, ...) CLI_PRINTF(1, 2);

/* What follows the last slash of a path. */
const char *cli_file_name(const char *path);

/* Seconds of the monotonic clock. */
double cli_now(void);

/* Bytes that a command read from a file or built up; data is NUL-terminated, and the NUL is not counted. */
typedef struct cli_text {
    char *data;
    size_t len;
} cli_text;
void cli_text_append(cli_text *text, const char *data, size_t len);
void cli_text_free(cli_text *text);
/* Removes the byte order mark that some editors put before UTF-8: it is no part of what was written. */
void cli_text_drop_bom(cli_text *text);

/* Reads path whole ("-" is standard input), at most 64 MiB. Prints the error and returns CLI_FILE or
 * CLI_LIMIT. */
int cli_read_file(const char *path, cli_text *out);
/* The same without a byte order mark, and refuses NUL bytes, for what the library wants NUL-terminated. */
int cli_read_source(const char *path, cli_text *out);

/* What an option TEXT|@FILE says: the text, or what the file holds. */
int cli_read_given(const char *given, cli_text *out);

/* Flushes standard output and reports what could not be written; passes code on when all went well. */
int cli_finish_output(int code);

#endif
