/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal: whether there is one, colour, width of text, safe printing, progress. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

bool term_is_tty(FILE *file);
/* "\033[1m" and the like when file is a terminal that wants colour (NO_COLOR unset, TERM not dumb), else "".
 */
const char *term_bold(FILE *file);
const char *term_dim(FILE *file);
const char *term_plain(FILE *file);
int term_columns(FILE *file); /* 80 when unknown */

/* The character at text: its length in bytes, and the code point, or -1 with length 1 for a byte that is not
   UTF-8. len must not be 0. */
size_t term_decode(const char *text, size_t len, int32_t *code_point);
/* Columns that the text takes on a terminal once escaped as term_print_escaped does. */
size_t term_width(const char *text, size_t len);

/* Writes text that came from a file or the network so that it cannot steer the terminal: control characters
   as \n, \t, \xNN, other bytes that are not UTF-8 as \xNN. */
void term_print_escaped(FILE *file, const char *text, size_t len);
/* The same cut to `columns`, with an ellipsis when cut. */
void term_print_shortened(FILE *file, const char *text, size_t len, size_t columns);
/* For an answer shown on a terminal: lines and tabs stay, other control characters become U+FFFD. */
void term_print_answer(FILE *file, const char *text, size_t len);

/* "93.7 MiB": n bytes in the binary unit that keeps it readable. Returns buf. */
#define TERM_BYTES_MAX 24
const char *term_bytes(uint64_t n, char buf[TERM_BYTES_MAX]);
/* share in [0, 1] as a bar of `columns` characters. */
void term_print_bar(FILE *file, double share, int columns);

/* A progress line on standard error that appears only on a terminal and only after half a second. */
typedef struct term_progress {
    const char *label;
    double started, drawn;
    bool visible;
} term_progress;
void term_progress_begin(term_progress *progress, const char *label);
void term_progress_update(term_progress *progress, size_t n_done, size_t n_total);
void term_progress_end(term_progress *progress); /* wipes the line; may be called more than once */

#endif
