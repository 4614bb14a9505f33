/* SPDX-License-Identifier: Apache-2.0 */
/* Text from a file made fit for a message: one line, printable, of bounded length. */
#ifndef PN_BASE_QUOTE_H
#define PN_BASE_QUOTE_H

#include "base/slice.h"

typedef struct pn_quoted {
    char text[112]; /* NUL-terminated */
} pn_quoted;

/* Control characters, bytes that are not UTF-8, quotes and backslashes become \xNN; characters that reorder
   or break a line too; what is too long ends in "...". Meant for pn_quote(name).text in the argument list of
   a message. */
pn_quoted pn_quote(pn_str text);

#endif
