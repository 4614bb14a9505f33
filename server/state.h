/* SPDX-License-Identifier: Apache-2.0 */
/* The server from inside: what its threads share. */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include "metrics.h"
#include "queue.h"
#include "server.h"
#include "sessions.h"
#include "watch.h"

typedef enum server_phase { PHASE_LOADING, PHASE_READY, PHASE_DRAINING } server_phase;

struct server {
    server_options options;
    _Atomic server_phase phase;
    _Atomic(pn_model *) model; /* NULL until it is open */
    int listener, port;
    int events[2]; /* a pipe of server_event, a byte each */
    struct MHD_Daemon *daemon;
    queue queue;
    watch watch;
    metrics metrics;
    sessions sessions; /* the worker's */
    pn_error error;
    pthread_t worker;
    bool has_worker;
};

/* A request is over: counts it, and writes its line of the log. */
void server_record(server *s, const request_record *record);
void server_notify(server *s, server_event event);

#endif
