/* SPDX-License-Identifier: Apache-2.0 */
/* postern serve: one model behind HTTP. A thread of HTTP takes requests and sends answers, a worker has the
   model and answers one request after the other, and a watch sees who left. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <postern.h>

typedef struct server_options {
    const char *model_path;
    const char *model_name; /* what clients see */
    pn_model_options model;
    pn_session_options session;
    const char *host;        /* name or address to listen at */
    int port;                /* 0: one that is free */
    const char *const *keys; /* [n_keys] of which a request must have one; none: all may come */
    size_t n_keys;
    const char *const *pinned; /* [n_pinned] messages, each a JSON array, that conversations begin with:
                                  computed before the first request, and kept */
    size_t n_pinned;
    size_t n_sessions; /* most timelines that are kept */
    size_t max_queue;  /* requests that may wait, 1 or more */
    size_t max_body;   /* bytes */
    int timeout;       /* seconds in which a request's header, and its body, must have come */
    bool log_json;     /* lines of the log as JSON objects */
} server_options;

typedef struct server server;

/* Listens, and begins to open the model. What options point to outlives the server. PN_ERR_IO, PN_ERR_MEMORY.
 */
pn_status server_start(const server_options *options, server **out, pn_error *err);

typedef enum server_event {
    SERVER_READY,   /* the model is there */
    SERVER_FAILED,  /* it could not be opened: server_error says why */
    SERVER_WAKEN,   /* server_wake was called */
    SERVER_FINISHED /* all is answered after server_drain */
} server_event;
/* Waits for what happens next. */
server_event server_wait(server *s);
/* Async-signal-safe. */
void server_wake(server *s);

const pn_error *server_error(const server *s);
int server_port(const server *s);

/* No request is taken any more; those that wait or run are answered. */
void server_drain(server *s);
/* They are not: all of them end within a step. */
void server_cancel(server *s);
/* After SERVER_FAILED or SERVER_FINISHED. */
void server_stop(server *s);

#endif
