/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(buffer *b, size_t more) {
    if (more > SIZE_MAX / 2 - b->len) b->failed = true;
    if (b->failed) return false;
    if (b->len + more <= b->cap) return true;
    size_t cap = b->cap > 0 ? b->cap : 256;
    while (cap < b->len + more)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

bool buffer_append(buffer *b, const void *data, size_t len) {
    if (!reserve(b, len)) return false;
    if (len > 0) memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

bool buffer_printf(buffer *b, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    const bool fits = len >= 0 && reserve(b, (size_t)len + 1);
    if (fits) {
        vsnprintf(b->data + b->len, (size_t)len + 1, fmt, again);
        b->len += (size_t)len;
    }
    va_end(again);
    return fits;
}

/* Length of the UTF-8 character at the beginning of text [len > 0]; 0 when there is none. */
static size_t character(const unsigned char *text, size_t len) {
    const unsigned first = text[0];
    if (first < 0x80) return 1;
    const size_t n = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || n > len) return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    /* Longer than need be, a surrogate, or past the last code point. */
    if ((first == 0xE0 && text[1] < 0xA0) || (first == 0xED && text[1] > 0x9F) ||
        (first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] > 0x8F))
        return 0;
    return n;
}

bool buffer_append_clean(buffer *b, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        const size_t n = character((const unsigned char *)text + i, len - i);
        if (!(n > 0 ? buffer_append(b, text + i, n) : buffer_append(b, "\xEF\xBF\xBD", 3))) return false;
        i += n > 0 ? n : 1;
    }
    return true;
}

void buffer_drop(buffer *b, size_t n) {
    b->len -= n;
    if (b->len > 0) memmove(b->data, b->data + n, b->len);
}

void buffer_free(buffer *b) {
    free(b->data);
    *b = (buffer){0};
}
