/* SPDX-License-Identifier: Apache-2.0 */
#include "opening.h"

#include <stdlib.h>

static void *compute(void *arg) {
    opening *o = arg;
    pn_session_start_chat(o->session, o->messages, o->render, NULL, NULL, NULL);
    return NULL;
}

void opening_start(opening *o, const conversation *c) {
    opening_stop(o);
    o->messages = conversation_begin_json(c);
    if (pthread_create(&o->thread, NULL, compute, o) == 0) return;
    free(o->messages); /* the answer computes it */
    o->messages = NULL;
}

void opening_stop(opening *o) {
    if (o->messages == NULL) return;
    pn_session_cancel(o->session);
    pthread_join(o->thread, NULL);
    pn_session_take_cancel(o->session); /* if it came too late */
    free(o->messages);
    o->messages = NULL;
}
