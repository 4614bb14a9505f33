/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and a thread that looks after them: whoever leaves while its request waits or runs is noticed
   although HTTP does not read from it then, and whoever takes too long to send a request is cut off. */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include "queue.h"

typedef struct connection {
    struct connection *next, **at;
    int fd;
    double since; /* it sends a request, seconds of the monotonic clock */
    job *job;     /* that answers it, or NULL */
} connection;

typedef struct watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    connection *first;
    size_t n_jobs;
    double timeout; /* seconds */
    bool ended;
    void (*on_gone)(void *user, job *j); /* the client of a job left */
    void *user;
    pthread_t thread;
    bool running;
} watch;

/* False without memory or threads. on_gone is called with the lock held. */
bool watch_start(watch *w, double timeout, void (*on_gone)(void *user, job *j), void *user);
void watch_stop(watch *w);
/* NULL without memory: it is not watched then. */
connection *watch_add(watch *w, int fd);
void watch_remove(watch *w, connection *c);
/* The connection sends a request from now on; or waits for what the job answers. */
void watch_receive(watch *w, connection *c);
void watch_answer(watch *w, connection *c, job *j);
size_t watch_count_jobs(watch *w);
/* As if every client that waits for a job had left. */
void watch_drop_all(watch *w);

#endif
