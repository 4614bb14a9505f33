/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds-checked little-endian reader. The first read past the end sticks: later reads give zeros and do not
   move, so a parser may read a whole record and check once. */
#ifndef PN_BASE_CURSOR_H
#define PN_BASE_CURSOR_H

#include "base/slice.h"

typedef struct pn_cursor {
    const uint8_t *data;
    uint64_t len, pos;
    bool failed;          /* sticky */
    uint64_t failed_pos;  /* where the read that failed began */
    uint64_t failed_want; /* how many bytes it wanted */
} pn_cursor;

static inline pn_cursor pn_cursor_make(const void *data, uint64_t len) {
    return (pn_cursor){.data = data, .len = len};
}
static inline uint64_t pn_cursor_left(const pn_cursor *c) {
    return c->failed ? 0 : c->len - c->pos;
}

uint8_t pn_cursor_u8(pn_cursor *c);
uint16_t pn_cursor_u16(pn_cursor *c);
uint32_t pn_cursor_u32(pn_cursor *c);
uint64_t pn_cursor_u64(pn_cursor *c);
float pn_cursor_f32(pn_cursor *c);
double pn_cursor_f64(pn_cursor *c);
/* Borrows the next n bytes; an empty slice on failure. */
pn_str pn_cursor_bytes(pn_cursor *c, uint64_t n);
bool pn_cursor_skip(pn_cursor *c, uint64_t n);

/* PN_OK, or PN_ERR_FORMAT at failed_pos saying that `what` needs n bytes and only m are left. */
pn_status pn_cursor_check(const pn_cursor *c, const char *what, pn_error *err);

#endif
