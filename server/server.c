/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "http.h"
#include "log.h"
#include "routes.h"
#include "worker.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

void server_record(server *s, const request_record *record) {
    metrics_count(&s->metrics, record);
    log_request(record, s->options.log_json);
}

/* ---- events ---- */

void server_notify(server *s, server_event event) {
    const char byte = (char)event;
    ssize_t n;
    do
        n = write(s->events[1], &byte, 1);
    while (n < 0); /* only a signal can come between: the pipe is empty as good as always */
}

void server_wake(server *s) {
    const char byte = (char)SERVER_WAKEN;
    const ssize_t n = write(s->events[1], &byte, 1);
    (void)n; /* the pipe is full of such: it is woken */
}

/* ThreadSanitizer lets a signal's handler run in poll, in read it does not. */
server_event server_wait(server *s) {
    struct pollfd p = {.fd = s->events[0], .events = POLLIN};
    char byte;
    while (poll(&p, 1, -1) != 1 || read(s->events[0], &byte, 1) != 1)
        ;
    return (server_event)byte;
}

const pn_error *server_error(const server *s) {
    return &s->error;
}

int server_port(const server *s) {
    return s->port;
}

/* ---- the end ---- */

/* A client left: its job ends where it waits, or within a step. */
static void on_gone(void *user, job *j) {
    server *s = user;
    const bool waited = queue_remove(&s->queue, j);
    job_abandon(j);
    if (!waited) return;
    const request_record record = {
        .method = "POST", .path = j->path, .status = 499, .seconds = clock_seconds() - j->arrived};
    server_record(s, &record);
    job_end(j);
    job_release(j);
}

void server_drain(server *s) {
    atomic_store(&s->phase, PHASE_DRAINING);
    queue_close(&s->queue);
}

void server_cancel(server *s) {
    watch_drop_all(&s->watch);
}

/* Answers that are whole are sent to their end, unless nobody reads them. */
static void flush_answers(server *s) {
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int i = 0; i < 500 && watch_count_jobs(&s->watch) > 0; i++)
        nanosleep(&pause, NULL);
}

void server_stop(server *s) {
    if (s == NULL) return;
    if (s->has_worker) {
        queue_close(&s->queue);
        pthread_join(s->worker, NULL);
        flush_answers(s);
    }
    http_stop(s);
    watch_stop(&s->watch);
    pn_model_close(atomic_load(&s->model));
    metrics_done(&s->metrics);
    queue_done(&s->queue);
    close(s->events[0]);
    close(s->events[1]);
    free(s);
}

/* ---- the beginning ---- */

static pn_status start(server *s, pn_error *err) {
    const pn_status status = http_listen(s, err);
    if (status != PN_OK) return status;
    if (!watch_start(&s->watch, s->options.timeout, on_gone, s))
        return http_error(err, "no thread can be started");
    s->has_worker = pthread_create(&s->worker, NULL, worker_run, s) == 0;
    if (!s->has_worker) return http_error(err, "no thread can be started");
    return http_start(s, err);
}

pn_status server_start(const server_options *options, server **out, pn_error *err) {
    size_t n_paths;
    const char *const *paths = routes_paths(&n_paths);
    server *s = calloc(1, sizeof *s);
    if (s == NULL || pipe2(s->events, O_CLOEXEC) != 0) {
        free(s);
        return http_error(err, "the server cannot be started: no memory or no more files");
    }
    s->options = *options;
    s->listener = -1;
    queue_init(&s->queue, options->max_queue);
    const pn_status status =
        metrics_init(&s->metrics, paths, n_paths) ? start(s, err) : http_error(err, "there is no memory");
    if (status == PN_OK)
        *out = s;
    else
        server_stop(s);
    return status;
}
