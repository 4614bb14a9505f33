/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"

/* The next n bytes, or NULL; the first failure is the one that is kept. */
static const uint8_t *take(pn_cursor *c, uint64_t n) {
    if (c->failed) return NULL;
    if (n > c->len - c->pos) {
        c->failed = true;
        c->failed_pos = c->pos;
        c->failed_want = n;
        return NULL;
    }
    const uint8_t *at = c->data + c->pos;
    c->pos += n;
    return at;
}

/* The machine is little-endian, as base/file.c makes sure. */
static inline uint64_t take_uint(pn_cursor *c, unsigned n) {
    const uint8_t *at = take(c, n);
    uint64_t value = 0;
    if (at) memcpy(&value, at, n);
    return value;
}

uint8_t pn_cursor_u8(pn_cursor *c) {
    return (uint8_t)take_uint(c, 1);
}

uint16_t pn_cursor_u16(pn_cursor *c) {
    return (uint16_t)take_uint(c, 2);
}

uint32_t pn_cursor_u32(pn_cursor *c) {
    return (uint32_t)take_uint(c, 4);
}

uint64_t pn_cursor_u64(pn_cursor *c) {
    return take_uint(c, 8);
}

float pn_cursor_f32(pn_cursor *c) {
    uint32_t bits = pn_cursor_u32(c);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double pn_cursor_f64(pn_cursor *c) {
    uint64_t bits = pn_cursor_u64(c);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

pn_str pn_cursor_bytes(pn_cursor *c, uint64_t n) {
    const uint8_t *at = take(c, n);
    return at ? (pn_str){(const char *)at, (size_t)n} : (pn_str){"", 0};
}

bool pn_cursor_skip(pn_cursor *c, uint64_t n) {
    return take(c, n) != NULL;
}

pn_status pn_cursor_check(const pn_cursor *c, const char *what, pn_error *err) {
    if (!c->failed) return PN_OK;
    return pn_fail_at(err, PN_ERR_FORMAT, c->failed_pos,
                      "%s at byte %llu needs %llu bytes, only %llu are left", what,
                      (unsigned long long)c->failed_pos, (unsigned long long)c->failed_want,
                      (unsigned long long)(c->len - c->failed_pos));
}
