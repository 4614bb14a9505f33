/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages from the terminal: line editing and history by libedit, several lines by a trailing
   backslash, by triple quotes, or by pasting. */
#ifndef CLI_EDITOR_H
#define CLI_EDITOR_H

#include "common.h"

typedef struct editor editor;

/* NULL when the terminal cannot be used; the error has been printed. */
editor *editor_create(void);
void editor_free(editor *e);

typedef enum editor_event {
    EDITOR_MESSAGE, /* *out holds it */
    EDITOR_CLEARED, /* Ctrl-C: what was typed is dropped */
    EDITOR_END      /* Ctrl-D, or the terminal is gone */
} editor_event;

/* Replaces the contents of *out. */
editor_event editor_read(editor *e, cli_text *out);
/* Puts the message into the history and its file; both are bounded. */
void editor_remember(editor *e, const char *message);

#endif
