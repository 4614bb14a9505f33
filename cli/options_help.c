/* SPDX-License-Identifier: Apache-2.0 */
/* The help page of a command, and the guess at what a misspelt name meant. */
#include "options.h"

#include "term.h"

#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN  30
#define HELP_WIDTH   100
#define NAME_MAX_LEN 64

/* "  (default 0.8)" for numbers whose default is a value the option could be given; others say it in words.
 */
static void format_default(const cli_option *option, const void *args, char *buf, size_t size) {
    const void *field = (const char *)args + option->offset;
    buf[0] = '\0';
    if (option->kind == CLI_INT) {
        int value = *(const int *)field;
        if (value >= option->min && value <= option->max) snprintf(buf, size, " (default %d)", value);
    } else if (option->kind == CLI_FLOAT) {
        snprintf(buf, size, " (default %g)", (double)*(const float *)field);
    }
}

/* Writes text in lines of at most HELP_WIDTH columns, each after the first indented. */
static void print_wrapped(FILE *file, const char *text, int column, int indent) {
    while (*text != '\0') {
        int len = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + len > HELP_WIDTH) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', file);
            column++;
        }
        fwrite(text, 1, (size_t)len, file);
        column += len;
        text += len;
        if (*text == '\n') {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        }
        text += *text != '\0';
    }
    fputc('\n', file);
}

static void print_option(const cli_option *option, const void *args, FILE *file) {
    char letter[4] = "   ", note[48];
    if (option->letter != 0) snprintf(letter, sizeof letter, "-%c,", option->letter);
    int column = fprintf(file, "  %s --%s%s%s", letter, option->name, option->placeholder != NULL ? " " : "",
                         option->placeholder != NULL ? option->placeholder : "");
    if (column + 2 > HELP_COLUMN) {
        fputc('\n', file);
        column = 0;
    }
    fprintf(file, "%*s", HELP_COLUMN - column, "");
    format_default(option, args, note, sizeof note);
    char text[1024];
    snprintf(text, sizeof text, "%s%s", option->help, note);
    print_wrapped(file, text, HELP_COLUMN, HELP_COLUMN);
}

void cli_options_help(const cli_command *command, const void *args, FILE *file) {
    fprintf(file, "usage: postern %s %s [options]\n\n", command->name, command->operands);
    print_wrapped(file, command->description, 0, 0);
    bool any_group = false;
    for (const cli_option *o = command->options; o->kind != CLI_END; o++) {
        if (o->kind == CLI_GROUP || !any_group)
            fprintf(file, "\n%s%s:%s\n", term_bold(file), o->kind == CLI_GROUP ? o->help : "options",
                    term_plain(file));
        any_group = true;
        if (o->kind != CLI_GROUP) print_option(o, args, file);
    }
    fprintf(file, "  -h, --help%*sthis page\n", HELP_COLUMN - 12, "");
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours (optimal string alignment), by three rolling rows. */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), rows[3][NAME_MAX_LEN + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    if (n > NAME_MAX_LEN || m > NAME_MAX_LEN) return NAME_MAX_LEN;
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

void cli_nearest_offer(cli_nearest *nearest, const char *name) {
    size_t len = strlen(nearest->given);
    bool is_prefix = len >= 2 && strncmp(name, nearest->given, len) == 0;
    size_t d = is_prefix ? 1 : distance(nearest->given, name);
    size_t near_enough = len <= 3 ? 1 : len <= 6 ? 2 : 3;
    if (d > near_enough || (nearest->best != NULL && d >= nearest->distance)) return;
    nearest->best = name;
    nearest->distance = d;
}
