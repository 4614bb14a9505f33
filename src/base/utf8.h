/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, strictly (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
#ifndef PN_BASE_UTF8_H
#define PN_BASE_UTF8_H

#include "base/slice.h"

/* Decodes the character at text[0..len): its length 1..4 and code point; 0 when the bytes are not UTF-8 (or
   len is 0). code_point may be NULL. */
size_t pn_utf8_decode(const char *text, size_t len, uint32_t *code_point);
/* Writes 1..4 bytes; U+FFFD for what is not a character. */
size_t pn_utf8_encode(uint32_t code_point, char out[4]);
bool pn_utf8_valid(const char *text, size_t len);

/* How many of the first len bytes can be shown now: all but an incomplete character at the end that later
   bytes may still complete. Invalid bytes count as complete. */
size_t pn_utf8_complete(const char *text, size_t len);

/* Appends text with every maximal subpart of an invalid sequence replaced by one U+FFFD (Unicode
   standard, 3.9, and WHATWG practice): a broken-off character gives one, a stray byte gives one. */
pn_status pn_utf8_append_clean(pn_buf *buf, const char *text, size_t len);

#endif
