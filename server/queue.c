/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

void queue_init(queue *q, size_t max) {
    *q = (queue){.max = max};
    q->end = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
}

void queue_done(queue *q) {
    pthread_cond_destroy(&q->more);
    pthread_mutex_destroy(&q->lock);
}

bool queue_push(queue *q, job *j) {
    pthread_mutex_lock(&q->lock);
    const bool room = !q->closed && q->n < q->max;
    if (room) {
        j->next = NULL;
        *q->end = j;
        q->end = &j->next;
        q->n++;
        pthread_cond_signal(&q->more);
    }
    pthread_mutex_unlock(&q->lock);
    return room;
}

/* With the lock held: takes out what *at points to. */
static job *take(queue *q, job **at) {
    job *j = *at;
    *at = j->next;
    if (q->end == &j->next) q->end = at;
    q->n--;
    return j;
}

job *queue_pop(queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->first == NULL && !q->closed)
        pthread_cond_wait(&q->more, &q->lock);
    job *j = q->first != NULL ? take(q, &q->first) : NULL;
    if (j != NULL) q->n_running++;
    pthread_mutex_unlock(&q->lock);
    return j;
}

void queue_finish(queue *q) {
    pthread_mutex_lock(&q->lock);
    q->n_running--;
    pthread_mutex_unlock(&q->lock);
}

bool queue_remove(queue *q, job *j) {
    pthread_mutex_lock(&q->lock);
    job **at = &q->first;
    while (*at != NULL && *at != j)
        at = &(*at)->next;
    const bool found = *at != NULL;
    if (found) take(q, at);
    pthread_mutex_unlock(&q->lock);
    return found;
}

void queue_close(queue *q) {
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->more);
    pthread_mutex_unlock(&q->lock);
}

void queue_count(queue *q, size_t *n_waiting, size_t *n_running) {
    pthread_mutex_lock(&q->lock);
    *n_waiting = q->n;
    *n_running = q->n_running;
    pthread_mutex_unlock(&q->lock);
}
