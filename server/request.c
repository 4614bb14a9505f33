/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include "clock.h"
#include "keys.h"
#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RETRY_LOADING 2         /* seconds */
#define VALUES_MAX    (1 << 18) /* of JSON in a body; punctuation in texts counts too */

/* ---- answers ---- */

static void send_response(request *r, int status, const char *type, struct MHD_Response *response,
                          const api_error *error) {
    char retry[16];
    if (response == NULL) return; /* without an answer the connection is closed */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (error != NULL && error->retry_after > 0) {
        snprintf(retry, sizeof retry, "%u", error->retry_after);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, retry);
    }
    if (status == 401) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == 405) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, error->param);
    if (MHD_queue_response(r->connection, (unsigned)status, response) == MHD_YES) r->status = status;
    MHD_destroy_response(response);
}

static void send_json(request *r, int status, json_t *json, const api_error *error) {
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(8)) : NULL;
    json_decref(json);
    if (text == NULL) return;
    send_response(r, status, "application/json",
                  MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE), error);
}

void request_answer(request *r, int status, json_t *json) {
    send_json(r, status, json, NULL);
}

void request_answer_text(request *r, int status, const char *content_type, buffer *text) {
    if (!text->failed)
        send_response(r, status, content_type,
                      MHD_create_response_from_buffer(text->len, text->data, MHD_RESPMEM_MUST_FREE), NULL);
    else
        buffer_free(text);
    *text = (buffer){0};
}

void request_fail(request *r, const api_error *error) {
    send_json(r, error->status, api_error_json(error), error);
}

/* ---- jobs ---- */

static unsigned guess_wait(server *s) {
    size_t n_waiting, n_running;
    queue_count(&s->queue, &n_waiting, &n_running);
    const double seconds = (double)(n_waiting + n_running) * metrics_mean_seconds(&s->metrics);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (unsigned)seconds;
}

void request_submit(request *r, generation *work, const api_error *error) {
    if (work == NULL) {
        request_fail(r, error);
        return;
    }
    api_error full = {.retry_after = guess_wait(r->server)};
    job *j = job_create(work, r->route->path);
    if (j == NULL) return;
    r->job = j;
    if (queue_push(&r->server->queue, j)) {
        watch_answer(&r->server->watch, r->watched, j);
        return;
    }
    job_release(j); /* for the queue, which did not take it */
    job_release(j);
    r->job = NULL;
    api_error_set(&full, 503, "queue_full", NULL, "too many requests are waiting: try again in %u s",
                  full.retry_after);
    request_fail(r, &full);
}

static ssize_t read_stream(void *user, uint64_t position, char *to, size_t max) {
    request *r = user;
    (void)position;
    const ssize_t n = job_read(r->job, r->connection, to, max);
    return n >= 0 ? n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void send_stream(request *r) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 8192, read_stream, r, NULL);
    if (response == NULL) return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* proxies pass events on at once */
    send_response(r, 200, "text/event-stream", response, NULL);
}

/* False: not answered, since nobody waits for it or it is not there. */
static bool answer_by_job(request *r) {
    job *j = r->job;
    if (!job_await(j, r->connection)) return true;
    pthread_mutex_lock(&j->lock);
    const int status = j->status;
    const bool stream = j->stream, gone = j->gone;
    const api_error error = {.retry_after = j->retry_after};
    buffer whole = {0};
    if (!stream && !gone) {
        whole = j->out;
        j->out = (buffer){0};
    }
    pthread_mutex_unlock(&j->lock);
    if (gone || status == 0 || whole.failed) {
        buffer_free(&whole);
        return false;
    }
    if (stream)
        send_stream(r);
    else
        send_response(r, status, "application/json",
                      MHD_create_response_from_buffer(whole.len, whole.data, MHD_RESPMEM_MUST_FREE), &error);
    return r->status != 0;
}

/* ---- requests ---- */

static const char *header(const request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static bool check_key(request *r) {
    const server_options *o = &r->server->options;
    const char *given = header(r, MHD_HTTP_HEADER_AUTHORIZATION);
    if (o->n_keys == 0 || (r->route->flags & ROUTE_OPEN) != 0) return true;
    if (given != NULL && strncasecmp(given, "Bearer ", 7) == 0)
        given += 7;
    else
        given = header(r, "x-api-key");
    if (given != NULL && keys_have(o->keys, o->n_keys, given)) return true;
    return api_error_set(&r->error, 401, "invalid_api_key", NULL,
                         "a valid API key is needed: send it as 'Authorization: Bearer KEY'");
}

static bool check_phase(request *r) {
    const server_phase phase = atomic_load(&r->server->phase);
    if ((r->route->flags & ROUTE_MODEL) == 0 || phase == PHASE_READY) return true;
    r->error.retry_after = RETRY_LOADING;
    return phase == PHASE_LOADING
               ? api_error_set(&r->error, 503, "loading", NULL, "the model is being loaded")
               : api_error_set(&r->error, 503, "draining", NULL, "the server is shutting down");
}

static bool check_body(request *r) {
    const char *type = header(r, MHD_HTTP_HEADER_CONTENT_TYPE),
               *length = header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (strcmp(r->route->method, "POST") != 0) return true;
    if (type != NULL && strncasecmp(type, "application/json", strlen("application/json")) != 0)
        return api_error_set(&r->error, 415, "unsupported_media_type", NULL,
                             "the body must be JSON: send 'Content-Type: application/json'");
    if (length != NULL && strtoull(length, NULL, 10) > r->server->options.max_body)
        return api_error_set(&r->error, 413, "body_too_large", NULL, "the body has more than %zu bytes",
                             r->server->options.max_body);
    return true;
}

void request_begin(request *r, const char *method, const char *path) {
    r->began = clock_seconds();
    watch_receive(&r->server->watch, r->watched);
    r->route = routes_find(method, path, &r->error);
    if (r->route != NULL && check_key(r) && check_phase(r)) check_body(r);
}

void request_receive(request *r, const char *data, size_t len) {
    if (r->error.status != 0) return; /* read on, so that the client gets to reading the answer */
    if (r->body.len + len > r->server->options.max_body) {
        buffer_free(&r->body);
        api_error_set(&r->error, 413, "body_too_large", NULL, "the body has more than %zu bytes",
                      r->server->options.max_body);
    } else if (!buffer_append(&r->body, data, len)) {
        buffer_free(&r->body);
        api_error_set(&r->error, 503, "out_of_memory", NULL, "there is no memory for the request");
    }
}

/* A parsed value takes some hundred bytes, a comma one: values are bounded as bytes are. And a NUL, which the
   parser passes over after a number, is no JSON. */
static bool check_text(const char *text, size_t len, api_error *error) {
    size_t n_values = 1;
    for (size_t i = 0; i < len; i++) {
        n_values += text[i] == ',' || text[i] == '[' || text[i] == '{';
        if (text[i] == '\0')
            return api_error_set(error, 400, "invalid_json", NULL,
                                 "the body is not valid JSON: a NUL at byte %zu", i);
    }
    return n_values <= VALUES_MAX ||
           api_error_set(error, 413, "body_too_large", NULL, "the body has more than %d values", VALUES_MAX);
}

static void parse_body(request *r) {
    json_error_t error;
    if (strcmp(r->route->method, "POST") != 0) return;
    const char *text = r->body.data != NULL ? r->body.data : "";
    if (!check_text(text, r->body.len, &r->error)) return;
    r->json = json_loadb(text, r->body.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (r->json == NULL)
        api_error_set(&r->error, 400, "invalid_json", NULL, "the body is not valid JSON: %s, at byte %d",
                      error.text, error.position);
    else if (!json_is_object(r->json))
        api_error_set(&r->error, 400, "invalid_json", NULL, "the body is not a JSON object");
    buffer_free(&r->body);
}

bool request_proceed(request *r) {
    if (r->job != NULL) return answer_by_job(r);
    if (r->error.status == 0) parse_body(r);
    if (r->error.status != 0)
        request_fail(r, &r->error);
    else
        r->route->answer(r);
    return r->job != NULL ? answer_by_job(r) : r->status != 0;
}

void request_end(request *r) {
    watch_receive(&r->server->watch, r->watched);
    if (r->job != NULL) {
        job_abandon(r->job); /* which does nothing to one that has ended */
        job_release(r->job);
    } else {
        const request_record record = {.method = r->route != NULL ? r->route->method : "-",
                                       .path = r->route != NULL ? r->route->path : "-",
                                       .status = r->status != 0 ? r->status : 499,
                                       .seconds = clock_seconds() - r->began};
        server_record(r->server, &record);
    }
    json_decref(r->json);
    buffer_free(&r->body);
    free(r);
}
