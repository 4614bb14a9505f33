/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request, from its header to the end of its answer; and what endpoints do with it. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "api_error.h"
#include "state.h"

struct request;

enum {
    ROUTE_OPEN = 1 << 0,  /* answers without an API key */
    ROUTE_MODEL = 1 << 1, /* needs the model: 503 while it loads */
};

typedef struct route {
    const char *method, *path;
    void (*answer)(struct request *r);
    unsigned flags;
} route;

typedef struct request {
    server *server;
    const route *route; /* NULL: there is none, and `error` says so */
    struct MHD_Connection *connection;
    connection *watched; /* or NULL */
    double began;
    api_error error; /* found in the header: the body is not looked at */
    buffer body;
    json_t *json; /* of the body, for POST */
    job *job;     /* or NULL */
    int status;   /* of the answer; 0: none yet */
} request;

/* ---- for endpoints: each calls one of these, once ---- */

/* Takes the reference; NULL is no memory. */
void request_answer(request *r, int status, json_t *json);
/* Takes over the text. */
void request_answer_text(request *r, int status, const char *content_type, buffer *text);
void request_fail(request *r, const api_error *error);
/* Puts the work into the queue, and its answer is the request's; takes it over. NULL: `error` says why not.
 */
void request_submit(request *r, generation *work, const api_error *error);

/* ---- for HTTP ---- */

/* What the header says of the request: its route, or r->error. */
void request_begin(request *r, const char *method, const char *path);
/* More of the body. */
void request_receive(request *r, const char *data, size_t len);
/* All of it is there: answers, or puts the connection to sleep until there is an answer; false: close it. */
bool request_proceed(request *r);
/* It is over, for whatever reason. */
void request_end(request *r);

#endif
