/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include "term.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READ_MAX_BYTES ((size_t)64 << 20)

static void print_message(const char *lead, const char *fmt, va_list args) {
    char message[1024];
    vsnprintf(message, sizeof message, fmt, args);
    fflush(stdout); /* what was answered so far comes before the complaint */
    fputs(lead, stderr);
    term_print_escaped(stderr, message, strlen(message));
    fputc('\n', stderr);
}

int cli_error(int code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    print_message("postern: ", fmt, args);
    va_end(args);
    return code;
}

void cli_warn(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    print_message("postern: warning: ", fmt, args);
    va_end(args);
}

static int exit_code(pn_status status) {
    switch (status) {
    case PN_OK:
        return CLI_OK;
    case PN_ERR_ARGUMENT:
        return CLI_USAGE;
    case PN_ERR_MEMORY:
    case PN_ERR_LIMIT:
        return CLI_LIMIT;
    case PN_ERR_IO:
    case PN_ERR_FORMAT:
    case PN_ERR_UNSUPPORTED:
        return CLI_FILE;
    case PN_ERR_CANCELLED:
        return CLI_INTERRUPTED;
    case PN_ERR_TEMPLATE:
    case PN_ERR_NUMERIC:
        break;
    }
    return CLI_FAILED;
}

int cli_fail(const pn_error *err) {
    return cli_error(exit_code(err->code), "%s", err->message);
}

int cli_fail_template(const pn_error *err, const char *path) {
    if (path == NULL || (err->code != PN_ERR_TEMPLATE && err->code != PN_ERR_FORMAT)) return cli_fail(err);
    return cli_error(exit_code(err->code), "%s: %s", path, err->message);
}

void *cli_realloc(void *block, size_t n, size_t size) {
    void *grown = NULL;
    if (size == 0 || n <= SIZE_MAX / size) grown = realloc(block, n * size > 0 ? n * size : 1);
    if (grown == NULL) exit(cli_error(CLI_LIMIT, "out of memory"));
    return grown;
}

char *cli_format(const char *fmt, ...) {
    va_list args;
    char *text = NULL;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) exit(cli_error(CLI_LIMIT, "out of memory"));
    return text;
}

const char *cli_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

double cli_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_text_append(cli_text *text, const char *data, size_t len) {
    /* Doubling by the bits of the length: one realloc per power of two without a stored capacity. */
    size_t need = text->len + len + 1, cap = 64;
    while (cap < need)
        cap *= 2;
    if (text->data == NULL || text->len + 1 <= cap / 2) text->data = cli_realloc(text->data, cap, 1);
    if (len > 0) memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void cli_text_free(cli_text *text) {
    free(text->data);
    *text = (cli_text){0};
}

static int read_stream(FILE *file, const char *name, cli_text *out) {
    char chunk[16384];
    size_t n;
    cli_text_append(out, "", 0);
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0) {
        if (out->len + n > READ_MAX_BYTES)
            return cli_error(CLI_LIMIT, "%s: more than %zu MiB of text", name, READ_MAX_BYTES >> 20);
        cli_text_append(out, chunk, n);
    }
    return ferror(file) ? cli_error(CLI_FILE, "%s: %s", name, strerror(errno)) : CLI_OK;
}

int cli_read_file(const char *path, cli_text *out) {
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (file == NULL) return cli_error(CLI_FILE, "%s: %s", path, strerror(errno));
    int code = read_stream(file, is_stdin ? "standard input" : path, out);
    if (!is_stdin) fclose(file);
    return code;
}

void cli_text_drop_bom(cli_text *text) {
    static const char bom[] = "\xEF\xBB\xBF";
    size_t len = sizeof bom - 1;
    if (text->len < len || memcmp(text->data, bom, len) != 0) return;
    text->len -= len;
    memmove(text->data, text->data + len, text->len + 1);
}

int cli_read_source(const char *path, cli_text *out) {
    int code = cli_read_file(path, out);
    if (code == CLI_OK) cli_text_drop_bom(out);
    if (code == CLI_OK && strlen(out->data) != out->len)
        return cli_error(CLI_FILE, "%s: a NUL byte at %zu; text was expected", path, strlen(out->data));
    return code;
}

int cli_read_given(const char *given, cli_text *out) {
    if (given[0] != '@') {
        cli_text_append(out, given, strlen(given));
        return CLI_OK;
    }
    int code = cli_read_file(given + 1, out);
    if (code == CLI_OK) cli_text_drop_bom(out);
    return code;
}

int cli_finish_output(int code) {
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_error(CLI_FAILED, "cannot write standard output: %s",
                         errno != 0 ? strerror(errno) : "error");
    return code;
}
