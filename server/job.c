/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

job *job_create(generation *work, const char *path) {
    job *j = calloc(1, sizeof *j);
    if (j == NULL) {
        generation_free(work);
        return NULL;
    }
    j->work = work;
    j->path = path;
    j->arrived = clock_seconds();
    atomic_init(&j->owners, 2);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&j->room, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&j->lock, NULL);
    return j;
}

void job_release(job *j) {
    if (j == NULL || atomic_fetch_sub(&j->owners, 1) > 1) return;
    generation_free(j->work);
    buffer_free(&j->out);
    pthread_cond_destroy(&j->room);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

/* With the lock held. */
static void wake(job *j) {
    if (j->sleeping != NULL) MHD_resume_connection(j->sleeping);
    j->sleeping = NULL;
}

bool job_enter(job *j, pn_session *session) {
    pthread_mutex_lock(&j->lock);
    const bool wanted = !j->gone;
    if (wanted) j->session = session;
    pthread_mutex_unlock(&j->lock);
    return wanted;
}

void job_leave(job *j) {
    pthread_mutex_lock(&j->lock);
    pn_session *session = j->session;
    j->session = NULL;
    pthread_mutex_unlock(&j->lock);
    if (session != NULL) pn_session_take_cancel(session);
}

bool job_is_gone(job *j) {
    pthread_mutex_lock(&j->lock);
    const bool gone = j->gone;
    pthread_mutex_unlock(&j->lock);
    return gone;
}

bool job_begin(job *j, int status, bool stream) {
    pthread_mutex_lock(&j->lock);
    if (j->status == 0) {
        j->status = status;
        j->stream = stream;
        if (stream) wake(j);
    }
    const bool wanted = !j->gone;
    pthread_mutex_unlock(&j->lock);
    return wanted;
}

/* With the lock held: until the buffer has room, or the reader has had its time. */
static void await_room(job *j) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += JOB_SLOW_READER_MS / 1000;
    while (j->stream && !j->gone && j->out.len > JOB_UNREAD_MAX)
        if (pthread_cond_timedwait(&j->room, &j->lock, &until) == ETIMEDOUT) j->gone = true;
}

bool job_write(job *j, const void *data, size_t len) {
    pthread_mutex_lock(&j->lock);
    await_room(j);
    const bool wanted = !j->gone && buffer_append(&j->out, data, len);
    if (wanted && j->stream) wake(j);
    pthread_mutex_unlock(&j->lock);
    return wanted;
}

void job_answer(job *j, int status, json_t *json) {
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(8)) : NULL;
    json_decref(json);
    job_begin(j, text != NULL ? status : 503, false);
    const char *plain =
        "{\"error\":{\"message\":\"there is no memory for the answer\",\"type\":\"server_error\","
        "\"param\":null,\"code\":\"out_of_memory\"}}";
    job_write(j, text != NULL ? text : plain, strlen(text != NULL ? text : plain));
    free(text);
}

void job_fail(job *j, const api_error *error) {
    pthread_mutex_lock(&j->lock);
    const bool begun = j->status != 0;
    j->retry_after = error->retry_after;
    pthread_mutex_unlock(&j->lock);
    if (!begun) {
        job_answer(j, error->status, api_error_json(error));
        return;
    }
    /* The status is on its way: clients look for an event of this form. */
    json_t *json = api_error_json(error);
    char *text = json_dumps(json, JSON_COMPACT);
    buffer event = {0};
    if (text != NULL && buffer_printf(&event, "data: %s\n\n", text)) job_write(j, event.data, event.len);
    buffer_free(&event);
    free(text);
    json_decref(json);
}

int job_status(job *j) {
    pthread_mutex_lock(&j->lock);
    const int status = j->gone || j->status == 0 ? 499 : j->status;
    pthread_mutex_unlock(&j->lock);
    return status;
}

void job_end(job *j) {
    pthread_mutex_lock(&j->lock);
    j->ended = true;
    wake(j);
    pthread_mutex_unlock(&j->lock);
}

bool job_await(job *j, struct MHD_Connection *connection) {
    pthread_mutex_lock(&j->lock);
    const bool begun = j->ended || (j->status != 0 && j->stream);
    if (!begun) {
        MHD_suspend_connection(connection);
        j->sleeping = connection;
    }
    pthread_mutex_unlock(&j->lock);
    return begun;
}

ssize_t job_read(job *j, struct MHD_Connection *connection, char *to, size_t max) {
    ssize_t n = 0;
    pthread_mutex_lock(&j->lock);
    if (j->out.len > 0 && !j->gone) {
        n = (ssize_t)(j->out.len < max ? j->out.len : max);
        memcpy(to, j->out.data, (size_t)n);
        buffer_drop(&j->out, (size_t)n);
        pthread_cond_signal(&j->room);
    } else if (j->ended || j->gone) {
        n = -1;
    } else {
        MHD_suspend_connection(connection);
        j->sleeping = connection;
    }
    pthread_mutex_unlock(&j->lock);
    return n;
}

void job_abandon(job *j) {
    pthread_mutex_lock(&j->lock);
    j->gone = true;
    if (j->session != NULL) pn_session_cancel(j->session);
    pthread_cond_signal(&j->room);
    wake(j);
    pthread_mutex_unlock(&j->lock);
}
