/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* What a lead byte promises (Unicode standard, table 3-7): only the second byte has a range of its own. */
typedef struct lead {
    size_t len; /* of the whole character; 0: no character begins so */
    uint8_t second_min, second_max;
} lead;

static lead lead_of(uint8_t byte) {
    if (byte < 0x80) return (lead){1, 0, 0};
    if (byte < 0xC2) return (lead){0, 0, 0};
    if (byte < 0xE0) return (lead){2, 0x80, 0xBF};
    if (byte < 0xF0) return (lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    if (byte < 0xF5) return (lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    return (lead){0, 0, 0};
}

/* How many bytes at text[0..len), len > 0, belong together: the whole character, or the longest beginning of
   one
   ("maximal subpart"), at least 1. *need is the length of the whole character, 0 when none begins here. */
static size_t subpart(const char *text, size_t len, size_t *need) {
    const uint8_t *bytes = (const uint8_t *)text;
    lead l = lead_of(bytes[0]);
    *need = l.len;
    if (l.len < 2 || len < 2 || bytes[1] < l.second_min || bytes[1] > l.second_max) return 1;
    size_t n = 2;
    while (n < l.len && n < len && (bytes[n] & 0xC0) == 0x80)
        n++;
    return n;
}

size_t pn_utf8_decode(const char *text, size_t len, uint32_t *code_point) {
    if (len == 0) return 0;
    size_t need, n = subpart(text, len, &need);
    if (n != need) return 0;
    if (code_point) {
        const uint8_t *bytes = (const uint8_t *)text;
        static const uint8_t lead_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
        uint32_t cp = bytes[0] & lead_mask[n];
        for (size_t i = 1; i < n; i++)
            cp = cp << 6 | (bytes[i] & 0x3F);
        *code_point = cp;
    }
    return n;
}

size_t pn_utf8_encode(uint32_t code_point, char out[4]) {
    uint32_t cp = code_point;
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = 0xFFFD;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t lead_bits[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)(lead_bits[n] | cp);
    return n;
}

bool pn_utf8_valid(const char *text, size_t len) {
    for (size_t pos = 0; pos < len;) {
        size_t n = pn_utf8_decode(text + pos, len - pos, NULL);
        if (n == 0) return false;
        pos += n;
    }
    return true;
}

size_t pn_utf8_complete(const char *text, size_t len) {
    /* Only the last three bytes can begin a character that is not all there. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        size_t need, n = subpart(text + len - back, back, &need);
        if (n == back && n < need) return len - back;
    }
    return len;
}

pn_status pn_utf8_append_clean(pn_buf *buf, const char *text, size_t len) {
    size_t good = 0; /* where the run of valid characters that is not appended yet begins */
    for (size_t pos = 0; pos < len;) {
        size_t need, n = subpart(text + pos, len - pos, &need);
        if (n != need) {
            PN_TRY(pn_buf_append(buf, text + good, pos - good));
            PN_TRY(pn_buf_append_str(buf, "\xEF\xBF\xBD"));
            good = pos + n;
        }
        pos += n;
    }
    return pn_buf_append(buf, text + good, len - good);
}
