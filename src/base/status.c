/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *pn_status_name(pn_status status) {
    switch (status) {
    case PN_OK:
        return "ok";
    case PN_ERR_ARGUMENT:
        return "argument";
    case PN_ERR_MEMORY:
        return "memory";
    case PN_ERR_IO:
        return "io";
    case PN_ERR_FORMAT:
        return "format";
    case PN_ERR_UNSUPPORTED:
        return "unsupported";
    case PN_ERR_LIMIT:
        return "limit";
    case PN_ERR_TEMPLATE:
        return "template";
    case PN_ERR_NUMERIC:
        return "numeric";
    case PN_ERR_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

const char *pn_version(void) {
    return PN_VERSION_STRING;
}

/* A message is one line whatever the names in it hold: file names and metadata keys are not ours. */
static void keep_one_line(char *message) {
    for (char *c = message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
}

/* What was cut must not end in a part of a character. */
static void drop_broken_end(char *message) {
    message[pn_utf8_complete(message, strlen(message))] = '\0';
}

static void set_va(pn_error *err, pn_status code, uint64_t position, const char *fmt, va_list args) {
    err->code = code;
    err->position = position;
    vsnprintf(err->message, sizeof err->message, fmt, args);
    keep_one_line(err->message);
    drop_broken_end(err->message);
}

void pn_error_set(pn_error *err, pn_status code, uint64_t position, const char *fmt, ...) {
    if (!err) return;
    va_list args;
    va_start(args, fmt);
    set_va(err, code, position, fmt, args);
    va_end(args);
}

/* Appends as much of text to the message as fits. */
static void append(pn_error *err, const char *text) {
    size_t used = strlen(err->message), room = sizeof err->message - 1 - used, n = strlen(text);
    if (n > room) n = room;
    memcpy(err->message + used, text, n);
    err->message[used + n] = '\0';
}

void pn_error_prefix(pn_error *err, const char *fmt, ...) {
    if (!err) return;
    pn_error old = *err;
    va_list args;
    va_start(args, fmt);
    set_va(err, old.code, old.position, fmt, args);
    va_end(args);
    append(err, ": ");
    append(err, old.message);
    drop_broken_end(err->message);
}
