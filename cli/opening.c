/* SPDX-License-Identifier: Apache-2.0 */
#include "opening.h"

#include <stdlib.h>

void opening_init(opening *o, pn_session *session, const pn_chat_options *render) {
    *o = (opening){.session = session, .render = render};
    pthread_mutex_init(&o->lock, NULL);
}

void opening_done(opening *o) {
    opening_stop(o);
    pthread_mutex_destroy(&o->lock);
}

static void *compute(void *arg) {
    opening *o = arg;
    const pn_status status = pn_session_start_chat(o->session, o->messages, o->render, NULL, NULL, NULL);
    pthread_mutex_lock(&o->lock);
    o->done = true;
    const bool cancelled = o->cancelled;
    pthread_mutex_unlock(&o->lock);
    /* A cancel that came too late would stop the answer: this call, which has nothing to compute, takes it.
     */
    if (cancelled && status == PN_OK)
        pn_session_start_chat(o->session, o->messages, o->render, NULL, NULL, NULL);
    return NULL;
}

void opening_start(opening *o, const conversation *c) {
    opening_stop(o);
    o->messages = conversation_begin_json(c);
    o->done = o->cancelled = false;
    if (pthread_create(&o->thread, NULL, compute, o) == 0) return;
    free(o->messages); /* the answer computes it */
    o->messages = NULL;
}

void opening_stop(opening *o) {
    if (o->messages == NULL) return;
    pthread_mutex_lock(&o->lock);
    if (!o->done) {
        pn_session_cancel(o->session);
        o->cancelled = true;
    }
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    free(o->messages);
    o->messages = NULL;
}
