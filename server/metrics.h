/* SPDX-License-Identifier: Apache-2.0 */
/* What the server counts, as Prometheus reads it, and the line of the log that each request leaves. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "buffer.h"

#include <postern.h>

#include <pthread.h>

/* What became of the context in an answer, and what of it was there before. */
typedef struct context_record {
    pn_cache_cause cause; /* why not more was reused */
    size_t n_restored;    /* from disk */
    size_t n_recomputed;
    double recomputed_seconds;
    size_t n_slides, cut_from, cut_to; /* tokens that were cut out of the text */
    pn_kv_type kv_type;                /* that keys and values are packed to now */
    size_t n_step_downs, n_packed;
} context_record;

/* One request, from its first header to its last byte. */
typedef struct request_record {
    const char *method, *path; /* the route's; "-" where there is none */
    int status;                /* 499: the client left before the answer was whole */
    double seconds;
    bool generated; /* the model worked on it: the rest is known */
    double queue_seconds, ttft_seconds, prefill_seconds, decode_seconds;
    size_t n_prompt, n_reused, n_prefilled, n_completion;
    context_record context; /* of its first choice */
    const char *finish;     /* "stop" and the like; NULL: it did not come to that */
} request_record;

#define METRICS_BUCKETS  14 /* the last is without bound */
#define METRICS_STATUSES 12

typedef struct histogram {
    uint64_t counts[METRICS_BUCKETS];
    double sum;
} histogram;

typedef struct metrics {
    pthread_mutex_t lock;
    uint64_t *requests; /* [n_paths, METRICS_STATUSES] */
    const char *const *paths;
    size_t n_paths; /* and one more, for all else */
    histogram ttft, token, queue, request;
    uint64_t n_prompt, n_reused, n_prefilled, n_completion, n_evicted;
    uint64_t n_restored, n_recomputed[PN_CACHE_CAUSE_COUNT], n_slides, n_cut, n_step_downs;
    uint64_t kv_bytes, prefix_cache_bytes;
    uint64_t n_sessions, budget_bytes;
} metrics;

/* paths [n_paths] outlive the metrics. */
bool metrics_init(metrics *m, const char *const *paths, size_t n_paths);
void metrics_done(metrics *m);
void metrics_count(metrics *m, const request_record *record);
/* What sessions hold now; n_evicted is of all time. */
void metrics_set_memory(metrics *m, uint64_t kv_bytes, uint64_t prefix_cache_bytes, uint64_t n_evicted,
                        size_t n_sessions);
void metrics_set_budget(metrics *m, uint64_t bytes);
/* Mean seconds of the requests that the model worked on; 0 when there was none. */
double metrics_mean_seconds(metrics *m);
/* Appends everything in Prometheus' text format, with n_waiting, and n_running 0 or 1. */
void metrics_print(metrics *m, size_t n_waiting, size_t n_running, buffer *out);

#endif
