/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed bytes with a length, and a growing buffer with a bound. */
#ifndef PN_BASE_SLICE_H
#define PN_BASE_SLICE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed text: not NUL-terminated, may hold any byte. */
typedef struct pn_str {
    const char *data;
    size_t len;
} pn_str;

#define PN_STR(literal) ((pn_str){(literal), sizeof(literal) - 1})

static inline pn_str pn_str_from(const char *text) {
    return (pn_str){text, strlen(text)};
}

static inline bool pn_str_equal(pn_str a, pn_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* A range of text [begin, end) in bytes. */
typedef struct pn_range {
    size_t begin, end;
} pn_range;

/* Growing byte buffer. data is NUL-terminated whenever it is not NULL; len does not count that NUL.
   An append that would pass max_len gives PN_ERR_LIMIT, one that cannot allocate PN_ERR_MEMORY; the first
   failure sticks in `status`, frees nothing and makes later appends do nothing, so a writer may check once at
   the end. */
typedef struct pn_buf {
    char *data;
    size_t len, cap, max_len;
    pn_status status;
} pn_buf;

#define PN_BUF_NO_BOUND (SIZE_MAX / 2) /* max_len of a buffer that only memory bounds */

void pn_buf_init(pn_buf *buf, size_t max_len);
void pn_buf_done(pn_buf *buf);
void pn_buf_clear(pn_buf *buf); /* len and status back to none, keeps the capacity */
pn_status pn_buf_append(pn_buf *buf, const void *data, size_t len);
pn_status pn_buf_append_str(pn_buf *buf, const char *text);
pn_status pn_buf_append_fmt(pn_buf *buf, const char *fmt, ...) PN_PRINTF(2, 3);
/* Hands the bytes to the caller (freed with pn_free), leaves the buffer empty; NULL when status is set. */
char *pn_buf_take(pn_buf *buf, size_t *len);

#endif
