/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void format_time(char *text, size_t size) {
    struct timespec now;
    struct tm utc;
    char seconds[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, size, "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
}

static void print_json(const request_record *r, const char *time, buffer *line) {
    buffer_printf(line, "{\"time\":\"%s\",\"method\":\"%s\",\"path\":\"%s\",\"status\":%d,\"ms\":%.1f", time,
                  r->method, r->path, r->status, r->seconds * 1e3);
    if (r->generated)
        buffer_printf(
            line,
            ",\"prompt_tokens\":%zu,\"cached_tokens\":%zu,\"completion_tokens\":%zu,\"queue_ms\":%.1f,"
            "\"ttft_ms\":%.1f,\"prefill_ms\":%.1f,\"decode_ms\":%.1f",
            r->n_prompt, r->n_reused, r->n_completion, r->queue_seconds * 1e3, r->ttft_seconds * 1e3,
            r->prefill_seconds * 1e3, r->decode_seconds * 1e3);
    if (r->finish != NULL) buffer_printf(line, ",\"finish\":\"%s\"", r->finish);
    buffer_printf(line, "}\n");
}

static void print_text(const request_record *r, const char *time, buffer *line) {
    buffer_printf(line, "%s %s %s %d %.1f ms", time, r->method, r->path, r->status, r->seconds * 1e3);
    if (r->generated)
        buffer_printf(
            line, ", %zu prompt tokens (%zu cached), %zu generated, waited %.1f ms, first token %.1f ms",
            r->n_prompt, r->n_reused, r->n_completion, r->queue_seconds * 1e3, r->ttft_seconds * 1e3);
    if (r->finish != NULL) buffer_printf(line, ", %s", r->finish);
    buffer_printf(line, "\n");
}

void log_request(const request_record *r, bool json) {
    char time[48];
    buffer line = {0};
    format_time(time, sizeof time);
    if (json)
        print_json(r, time, &line);
    else
        print_text(r, time, &line);
    /* In one piece, so that lines of several threads do not mix. */
    if (!line.failed && write(STDERR_FILENO, line.data, line.len) < 0) line.failed = true;
    buffer_free(&line);
}
