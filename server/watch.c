/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "clock.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

/* How often it looks: as a rule, and while a request waits or runs. */
#define TICK_SECONDS 1.0
#define BUSY_SECONDS 0.05

/* A client that has closed its sending half has gone: HTTP clients do that only at the end. */
static bool has_left(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* With the lock held. */
static void look(watch *w) {
    const double now = clock_seconds();
    for (connection *c = w->first; c != NULL; c = c->next) {
        if (c->job != NULL && has_left(c->fd))
            w->on_gone(w->user, c->job);
        else if (c->job == NULL && now - c->since > w->timeout)
            shutdown(c->fd, SHUT_RDWR);
    }
}

static void wait_a_little(watch *w) {
    struct timespec until;
    const double at = clock_seconds() + (w->n_jobs > 0 ? BUSY_SECONDS : TICK_SECONDS);
    until.tv_sec = (time_t)at;
    until.tv_nsec = (long)((at - floor(at)) * 1e9);
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
}

static void *run(void *arg) {
    watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->ended) {
        if (w->first == NULL)
            pthread_cond_wait(&w->changed, &w->lock);
        else
            wait_a_little(w);
        look(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool watch_start(watch *w, double timeout, void (*on_gone)(void *user, job *j), void *user) {
    pthread_condattr_t attributes;
    *w = (watch){.timeout = timeout, .on_gone = on_gone, .user = user};
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    w->running = pthread_create(&w->thread, NULL, run, w) == 0;
    return w->running;
}

void watch_stop(watch *w) {
    if (!w->running) return;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    w->running = false;
}

connection *watch_add(watch *w, int fd) {
    connection *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->fd = fd;
    c->since = clock_seconds();
    pthread_mutex_lock(&w->lock);
    c->next = w->first;
    c->at = &w->first;
    if (c->next != NULL) c->next->at = &c->next;
    w->first = c;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return c;
}

void watch_remove(watch *w, connection *c) {
    if (c == NULL) return;
    pthread_mutex_lock(&w->lock);
    if (c->job != NULL) w->n_jobs--;
    *c->at = c->next;
    if (c->next != NULL) c->next->at = c->at;
    pthread_mutex_unlock(&w->lock);
    free(c);
}

static void set_job(watch *w, connection *c, job *j) {
    if (c == NULL) return;
    pthread_mutex_lock(&w->lock);
    if (c->job != NULL) w->n_jobs--;
    if (j != NULL) w->n_jobs++;
    c->job = j;
    c->since = clock_seconds();
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void watch_receive(watch *w, connection *c) {
    set_job(w, c, NULL);
}

void watch_answer(watch *w, connection *c, job *j) {
    set_job(w, c, j);
}

size_t watch_count_jobs(watch *w) {
    pthread_mutex_lock(&w->lock);
    const size_t n = w->n_jobs;
    pthread_mutex_unlock(&w->lock);
    return n;
}

void watch_drop_all(watch *w) {
    pthread_mutex_lock(&w->lock);
    for (connection *c = w->first; c != NULL; c = c->next)
        if (c->job != NULL) w->on_gone(w->user, c->job);
    pthread_mutex_unlock(&w->lock);
}
