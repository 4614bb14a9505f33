/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quote.h"

#include "base/utf8.h"

#include <stdio.h>

/* U+2000..U+206F holds line separators and all the marks that change the direction of writing. */
static bool is_plain(uint32_t code_point) {
    if (code_point < 0x80)
        return code_point >= 0x20 && code_point != 0x7f && code_point != '"' && code_point != '\\';
    return code_point >= 0xa0 && (code_point < 0x2000 || code_point > 0x206f) && code_point != 0xfeff;
}

pn_quoted pn_quote(pn_str text) {
    pn_quoted out;
    const size_t room = sizeof out.text - sizeof "..."; /* what a piece may not pass, so that the dots fit */
    size_t len = 0, at = 0;
    while (at < text.len) {
        uint32_t code_point = 0;
        size_t step = pn_utf8_decode(text.data + at, text.len - at, &code_point);
        bool plain = step > 0 && is_plain(code_point);
        if (step == 0) step = 1;
        size_t need = plain ? step : 4 * step;
        if (len + need > room) {
            memcpy(out.text + len, "...", 3);
            len += 3;
            break;
        }
        if (plain) {
            memcpy(out.text + len, text.data + at, step);
            len += step;
        } else {
            for (size_t i = 0; i < step; i++, len += 4)
                snprintf(out.text + len, 5, "\\x%02x", (unsigned char)text.data[at + i]);
        }
        at += step;
    }
    out.text[len] = '\0';
    return out;
}
