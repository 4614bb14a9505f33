/* SPDX-License-Identifier: Apache-2.0 */
#include "term.h"

#include "common.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define PROGRESS_DELAY_SECONDS  0.5
#define PROGRESS_PERIOD_SECONDS 0.1
#define PROGRESS_LEFT_SECONDS   2 /* before that the time left is a guess */

bool term_is_tty(FILE *file) {
    return isatty(fileno(file)) == 1;
}

static const char *style(FILE *file, const char *sequence) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool refused = (no_color != NULL && no_color[0] != '\0') || term == NULL || strcmp(term, "dumb") == 0;
    return refused || !term_is_tty(file) ? "" : sequence;
}

const char *term_bold(FILE *file) {
    return style(file, "\033[1m");
}

const char *term_dim(FILE *file) {
    return style(file, "\033[2m");
}

const char *term_plain(FILE *file) {
    return style(file, "\033[0m");
}

int term_columns(FILE *file) {
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

/* Length of the UTF-8 sequence that the first byte announces, 0 for a byte that cannot begin one. */
static size_t sequence_length(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return 2;
    if (first >= 0xE0 && first <= 0xEF) return 3;
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

size_t term_decode(const char *text, size_t len, int32_t *code_point) {
    static const unsigned char first_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    static const int32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    size_t n = sequence_length(byte[0]);
    *code_point = -1;
    if (n == 0 || n > len) return 1;
    int32_t c = byte[0] & first_bits[n];
    for (size_t i = 1; i < n; i++) {
        if ((byte[i] & 0xC0) != 0x80) return 1;
        c = (c << 6) | (byte[i] & 0x3F);
    }
    if (c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 1;
    *code_point = c;
    return n;
}

/* C0, DEL and C1 controls, and the marks that reorder a line of text. */
static bool steers_terminal(int32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* One character as it is shown when escaped: writes it to out (at least 16 bytes) and returns its columns. */
static size_t escape_one(const char *text, size_t n, int32_t c, char *out) {
    if (c == '\n' || c == '\t' || c == '\r') {
        snprintf(out, 16, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
    } else if (c < 0) {
        snprintf(out, 16, "\\x%02X", (unsigned char)text[0]);
    } else if (steers_terminal(c)) {
        snprintf(out, 16, c < 0x80 ? "\\x%02X" : "\\u%04X", (unsigned)c);
    } else {
        memcpy(out, text, n);
        out[n] = '\0';
        int columns = wcwidth((wchar_t)c);
        return columns > 0 ? (size_t)columns : 0;
    }
    return strlen(out);
}

size_t term_width(const char *text, size_t len) {
    size_t columns = 0;
    for (size_t i = 0, n; i < len; i += n) {
        char shown[16];
        int32_t c;
        n = term_decode(text + i, len - i, &c);
        columns += escape_one(text + i, n, c, shown);
    }
    return columns;
}

void term_print_escaped(FILE *file, const char *text, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        char shown[16];
        int32_t c;
        n = term_decode(text + i, len - i, &c);
        escape_one(text + i, n, c, shown);
        fputs(shown, file);
    }
}

void term_print_shortened(FILE *file, const char *text, size_t len, size_t columns) {
    size_t end = 0, used = 0, n;
    for (size_t i = 0; i < len; i += n) {
        char shown[16];
        int32_t c;
        n = term_decode(text + i, len - i, &c);
        used += escape_one(text + i, n, c, shown);
        if (used > columns) {
            term_print_escaped(file, text, end);
            fputs("…", file);
            return;
        }
        if (used < columns) /* one column is kept for the ellipsis */
            end = i + n;
    }
    term_print_escaped(file, text, len);
}

void term_print_answer(FILE *file, const char *text, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        int32_t c;
        n = term_decode(text + i, len - i, &c);
        if (c != '\n' && c != '\t' && (c < 0x20 || (c >= 0x7F && c < 0xA0)))
            fputs("\xEF\xBF\xBD", file);
        else
            fwrite(text + i, 1, n, file);
    }
}

const char *term_bytes(uint64_t n, char buf[TERM_BYTES_MAX]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (n < 1024) {
        snprintf(buf, TERM_BYTES_MAX, "%d B", (int)n);
        return buf;
    }
    double value = (double)n / 1024;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(buf, TERM_BYTES_MAX, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return buf;
}

void term_print_bar(FILE *file, double share, int columns) {
    int filled = (int)(share * columns + 0.5);
    fputc('[', file);
    for (int i = 0; i < columns; i++)
        fputc(i < filled ? '#' : '-', file);
    fputc(']', file);
}

void term_progress_begin(term_progress *progress, const char *label) {
    *progress = (term_progress){.label = label, .started = cli_now()};
}

/* By the time that this share of the work took. */
static void print_time_left(double elapsed, double share) {
    double left = share > 0 ? elapsed * (1 - share) / share : 0;
    if (elapsed < PROGRESS_LEFT_SECONDS || left < 0.5) return;
    if (left < 100)
        fprintf(stderr, ", %.0f s left", left);
    else if (left < 100 * 60)
        fprintf(stderr, ", %.0f min left", left / 60);
    else
        fprintf(stderr, ", %.1f h left", left / 3600);
}

void term_progress_update(term_progress *progress, size_t n_done, size_t n_total) {
    double now = cli_now();
    if (n_total == 0 || now - progress->started < PROGRESS_DELAY_SECONDS ||
        now - progress->drawn < PROGRESS_PERIOD_SECONDS || !term_is_tty(stderr))
        return;
    double share = (double)n_done / (double)n_total;
    fprintf(stderr, "\r%s %3.0f%% ", progress->label, share * 100);
    term_print_bar(stderr, share, 24);
    fprintf(stderr, " %zu/%zu", n_done, n_total);
    print_time_left(now - progress->started, share);
    fputs("\033[K", stderr); /* what a longer line before left */
    fflush(stderr);
    progress->drawn = now;
    progress->visible = true;
}

void term_progress_end(term_progress *progress) {
    if (progress->visible) {
        fprintf(stderr, "\r%*s\r", term_columns(stderr) - 1, "");
        fflush(stderr);
    }
    progress->visible = false;
}
