/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that wait: first come, first served, and no more than a given number. */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include "job.h"

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    job *first, **end;
    size_t n, max;
    size_t n_running; /* taken out and not finished */
    bool closed;
} queue;

void queue_init(queue *q, size_t max);
void queue_done(queue *q);
/* False when it is full or closed. The queue takes one owner's reference. */
bool queue_push(queue *q, job *j);
/* Waits for a job; NULL when the queue is closed and empty. */
job *queue_pop(queue *q);
/* The job that was taken out last is finished. */
void queue_finish(queue *q);
/* Takes a waiting job out; false when it is not waiting. The reference is the caller's then. */
bool queue_remove(queue *q, job *j);
/* Nothing more comes in. */
void queue_close(queue *q);
void queue_count(queue *q, size_t *n_waiting, size_t *n_running);

#endif
