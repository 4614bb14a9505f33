/* SPDX-License-Identifier: Apache-2.0 */
/* A request that the model works on: what the thread of HTTP and the worker share. The worker writes the
   answer into a bounded buffer; HTTP reads it from there, and its connection sleeps where there is nothing to
   read. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "buffer.h"
#include "generation.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

/* Bytes of an answer that may lie there unread, and how long the worker waits for more room. */
#define JOB_UNREAD_MAX     ((size_t)1 << 20)
#define JOB_SLOW_READER_MS 30000

typedef struct job {
    struct job *next; /* in the queue */
    generation *work; /* the worker's */
    const char *path; /* of the route */
    double arrived;   /* seconds of the monotonic clock */
    atomic_int owners;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t room;
    struct MHD_Connection *sleeping; /* until there is something to do for it, or NULL */
    pn_session *session;             /* that works on it, or NULL */
    int status;                      /* of HTTP; 0: the answer has not begun */
    bool stream;                     /* server-sent events; else all of it is there at once */
    unsigned retry_after;            /* seconds; 0: not said */
    bool ended, gone;                /* the answer is whole; nobody waits for it any more */
    buffer out;
} job;

/* Takes over the work. Two owners: the one who created it, and another. NULL without memory; the work is
 * freed then. */
job *job_create(generation *work, const char *path);
void job_release(job *j);

/* ---- by the worker ---- */

/* The session begins to work on it; false: nobody waits for it any more. */
bool job_enter(job *j, pn_session *session);
/* And no longer; the session has no cancel left that was meant for it. */
void job_leave(job *j);
/* Whether nobody waits for it any more. */
bool job_is_gone(job *j);
/* Begins the answer, once, and adds to it. A stream waits while too much of it lies unread. False: nobody
   waits for it, or there is no memory. */
bool job_begin(job *j, int status, bool stream);
bool job_write(job *j, const void *data, size_t len);
/* The whole answer as JSON, and its end; takes the reference. NULL: no memory for it. */
void job_answer(job *j, int status, json_t *json);
void job_fail(job *j, const api_error *error);
void job_end(job *j);
/* Of HTTP, as far as there is an answer; 499: nobody waits for it. */
int job_status(job *j);

/* ---- by HTTP ---- */

/* Puts the connection to sleep until the answer has begun; true when it has. */
bool job_await(job *j, struct MHD_Connection *connection);
/* The next bytes of a stream, at most max; 0 after putting the connection to sleep, -1 at the end. */
ssize_t job_read(job *j, struct MHD_Connection *connection, char *to, size_t max);
/* Nobody waits for the answer any more: cancels what works on it, and wakes the connection. */
void job_abandon(job *j);

#endif
