/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>

size_t pn_jinja_line(pn_str source, size_t position) {
    size_t line = 1;
    for (size_t i = 0; i < position && i < source.len; i++) {
        bool pair = source.data[i] == '\r' && i + 1 < source.len && source.data[i + 1] == '\n';
        if ((source.data[i] == '\n' || source.data[i] == '\r') && !pair) line++;
    }
    return line;
}

static pn_status fail_va(pn_jrun *run, pn_status code, const char *fmt, va_list args) {
    char message[sizeof((pn_error *)0)->message];
    vsnprintf(message, sizeof message, fmt, args);
    run->status = code;
    return pn_fail_at(run->err, code, run->at, "chat template, line %zu: %s",
                      pn_jinja_line(run->source, run->at), message);
}

pn_status pn_jrun_fail(pn_jrun *run, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fail_va(run, PN_ERR_TEMPLATE, fmt, args);
    va_end(args);
    return run->status;
}

pn_status pn_jrun_fail_with(pn_jrun *run, pn_status code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fail_va(run, code, fmt, args);
    va_end(args);
    return run->status;
}

void *pn_jrun_alloc(pn_jrun *run, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > run->bytes_left) {
        pn_jrun_fail_with(run, PN_ERR_LIMIT, "the template's values need too much memory");
        return NULL;
    }
    void *block = pn_arena_alloc(&run->arena, bytes);
    if (!block) {
        run->status = pn_fail_memory(run->err, "values of a chat template", bytes);
        return NULL;
    }
    /* The arena rounds up to 16, which counts when a template makes many small values. */
    size_t rounded = bytes < SIZE_MAX - 15 ? (bytes + 15) / 16 * 16 : bytes;
    run->bytes_left -= rounded < run->bytes_left ? rounded : run->bytes_left;
    return block;
}

pn_status pn_jrun_charge(pn_jrun *run, uint64_t cost) {
    if (cost > run->steps_left)
        return pn_jrun_fail_with(run, PN_ERR_LIMIT, "the template takes too many steps");
    run->steps_left -= cost;
    return PN_OK;
}

pn_status pn_jrun_charge_bytes(pn_jrun *run, size_t n_bytes) {
    return pn_jrun_charge(run, n_bytes / 32);
}

pn_status pn_jrun_enter(pn_jrun *run) {
    if (run->depth >= PN_JINJA_MAX_DEPTH)
        return pn_jrun_fail_with(run, PN_ERR_LIMIT, "nested deeper than %d levels", PN_JINJA_MAX_DEPTH);
    run->depth++;
    return PN_OK;
}

void pn_jrun_leave(pn_jrun *run) {
    run->depth--;
}
