/* SPDX-License-Identifier: Apache-2.0 */
/* The interactive chat of `postern run`. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "conversation.h"
#include "runner.h"

typedef struct chat_options {
    pn_chat_options render;
    pn_generate_options generate;
    bool pin;                  /* the system message is computed at once, and kept in memory */
    bool stats, explain_cache; /* after each answer */
} chat_options;

/* Talks until Ctrl-D or /quit. The conversation may hold a system message already. Returns the exit code. */
int chat_run(runner *r, conversation *c, const chat_options *options);

#endif
