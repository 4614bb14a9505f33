/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

void pn_buf_init(pn_buf *buf, size_t max_len) {
    *buf = (pn_buf){.max_len = max_len};
}

void pn_buf_done(pn_buf *buf) {
    pn_free(buf->data);
    *buf = (pn_buf){.max_len = buf->max_len};
}

void pn_buf_clear(pn_buf *buf) {
    buf->len = 0;
    buf->status = PN_OK;
    if (buf->data) buf->data[0] = '\0';
}

static pn_status reserve(pn_buf *buf, size_t more) {
    if (buf->status != PN_OK) return buf->status;
    if (more > buf->max_len || buf->len > buf->max_len - more) return buf->status = PN_ERR_LIMIT;
    size_t need;
    if (__builtin_add_overflow(buf->len + more, 1, &need)) return buf->status = PN_ERR_LIMIT;
    if (need <= buf->cap) return PN_OK;
    size_t cap = buf->cap ? buf->cap : 64;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *data = pn_realloc(buf->data, cap, 1);
    if (!data) return buf->status = PN_ERR_MEMORY;
    buf->data = data;
    buf->cap = cap;
    return PN_OK;
}

pn_status pn_buf_append(pn_buf *buf, const void *data, size_t len) {
    PN_TRY(reserve(buf, len));
    if (len) memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return PN_OK;
}

pn_status pn_buf_append_str(pn_buf *buf, const char *text) {
    return pn_buf_append(buf, text, strlen(text));
}

pn_status pn_buf_append_fmt(pn_buf *buf, const char *fmt, ...) {
    if (buf->status != PN_OK) return buf->status;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        buf->status = PN_ERR_ARGUMENT;
    } else if (reserve(buf, (size_t)n) == PN_OK) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
    }
    va_end(again);
    return buf->status;
}

char *pn_buf_take(pn_buf *buf, size_t *len) {
    if (reserve(buf, 0) != PN_OK) return NULL;
    buf->data[buf->len] = '\0';
    char *data = buf->data;
    if (len) *len = buf->len;
    *buf = (pn_buf){.max_len = buf->max_len};
    return data;
}
