/* SPDX-License-Identifier: Apache-2.0 */
/* What a conversation begins with is computed while the user types. */
#ifndef CLI_OPENING_H
#define CLI_OPENING_H

#include "conversation.h"

#include <pthread.h>

typedef struct opening {
    pn_session *session;
    const pn_chat_options *render; /* outlives it */
    char *messages;                /* of the beginning, as JSON; NULL: nothing is running */
    pthread_t thread;
} opening;

/* Begins to compute the beginning of a conversation. The session is not to be used until opening_stop. */
void opening_start(opening *o, const conversation *c);
/* Stops, so that the session can be used; what was computed stays. Errors are left to the answer, which meets
   them again. */
void opening_stop(opening *o);

#endif
