/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow. Without memory it stops growing and says so: callers may append much and look once. */
#ifndef SERVER_BUFFER_H
#define SERVER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct buffer {
    char *data; /* NULL as long as nothing was appended */
    size_t len, cap;
    bool failed; /* an append found no memory */
} buffer;

bool buffer_append(buffer *b, const void *data, size_t len);
bool buffer_printf(buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends text with U+FFFD in place of what is not UTF-8. */
bool buffer_append_clean(buffer *b, const char *text, size_t len);
/* Removes the first n bytes. */
void buffer_drop(buffer *b, size_t n);
void buffer_free(buffer *b);

#endif
