/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

/* Upper bounds in seconds, fit for a token of a fast machine and the prompt of a slow one. */
static const double bounds[METRICS_BUCKETS - 1] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                   0.25,  0.5,    1,     2.5,  10,    60};

static const int statuses[METRICS_STATUSES] = {200, 400, 401, 404, 405, 408, 413, 415, 499, 500, 503, 0};

bool metrics_init(metrics *m, const char *const *paths, size_t n_paths) {
    *m = (metrics){.paths = paths, .n_paths = n_paths};
    m->requests = calloc((n_paths + 1) * METRICS_STATUSES, sizeof *m->requests);
    if (m->requests == NULL) return false;
    pthread_mutex_init(&m->lock, NULL);
    return true;
}

void metrics_done(metrics *m) {
    if (m->requests == NULL) return;
    pthread_mutex_destroy(&m->lock);
    free(m->requests);
    m->requests = NULL;
}

static void add(histogram *h, double seconds, uint64_t n) {
    size_t i = 0;
    while (i < METRICS_BUCKETS - 1 && seconds > bounds[i])
        i++;
    h->counts[i] += n;
    h->sum += seconds * (double)n;
}

static size_t find_path(const metrics *m, const char *path) {
    size_t i = 0;
    while (i < m->n_paths && strcmp(m->paths[i], path) != 0)
        i++;
    return i;
}

static void count_context(metrics *m, const context_record *c) {
    m->n_restored += c->n_restored;
    m->n_recomputed[c->cause] += c->n_recomputed;
    m->n_slides += c->n_slides;
    m->n_cut += c->cut_to - c->cut_from;
    m->n_step_downs += c->n_step_downs;
}

void metrics_count(metrics *m, const request_record *r) {
    size_t status = 0;
    while (statuses[status] != 0 && statuses[status] != r->status)
        status++;
    pthread_mutex_lock(&m->lock);
    m->requests[find_path(m, r->path) * METRICS_STATUSES + status]++;
    if (r->generated) {
        add(&m->request, r->seconds, 1);
        add(&m->queue, r->queue_seconds, 1);
        if (r->ttft_seconds > 0) add(&m->ttft, r->ttft_seconds, 1);
        if (r->n_completion > 1)
            add(&m->token, r->decode_seconds / (double)(r->n_completion - 1), r->n_completion - 1);
        m->n_prompt += r->n_prompt;
        m->n_reused += r->n_reused;
        m->n_prefilled += r->n_prefilled;
        m->n_completion += r->n_completion;
        count_context(m, &r->context);
    }
    pthread_mutex_unlock(&m->lock);
}

void metrics_set_memory(metrics *m, uint64_t kv_bytes, uint64_t prefix_cache_bytes, uint64_t n_evicted,
                        size_t n_sessions) {
    pthread_mutex_lock(&m->lock);
    m->kv_bytes = kv_bytes;
    m->prefix_cache_bytes = prefix_cache_bytes;
    m->n_evicted = n_evicted;
    m->n_sessions = n_sessions;
    pthread_mutex_unlock(&m->lock);
}

void metrics_set_budget(metrics *m, uint64_t bytes) {
    pthread_mutex_lock(&m->lock);
    m->budget_bytes = bytes;
    pthread_mutex_unlock(&m->lock);
}

static uint64_t total(const histogram *h) {
    uint64_t n = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        n += h->counts[i];
    return n;
}

double metrics_mean_seconds(metrics *m) {
    pthread_mutex_lock(&m->lock);
    const uint64_t n = total(&m->request);
    const double mean = n > 0 ? m->request.sum / (double)n : 0;
    pthread_mutex_unlock(&m->lock);
    return mean;
}

static void print_head(buffer *out, const char *name, const char *type, const char *help) {
    buffer_printf(out, "# HELP postern_%s %s\n# TYPE postern_%s %s\n", name, help, name, type);
}

static void print_one(buffer *out, const char *name, const char *type, const char *help, uint64_t value) {
    print_head(out, name, type, help);
    buffer_printf(out, "postern_%s %llu\n", name, (unsigned long long)value);
}

static void print_histogram(buffer *out, const char *name, const char *help, const histogram *h) {
    uint64_t n = 0;
    print_head(out, name, "histogram", help);
    for (size_t i = 0; i < METRICS_BUCKETS - 1; i++) {
        n += h->counts[i];
        buffer_printf(out, "postern_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)n);
    }
    n += h->counts[METRICS_BUCKETS - 1];
    buffer_printf(out, "postern_%s_bucket{le=\"+Inf\"} %llu\npostern_%s_sum %.6f\npostern_%s_count %llu\n",
                  name, (unsigned long long)n, name, h->sum, name, (unsigned long long)n);
}

static void print_requests(const metrics *m, buffer *out) {
    print_head(out, "requests_total", "counter", "Requests by path and HTTP status; 499: the client left.");
    for (size_t i = 0; i < (m->n_paths + 1) * METRICS_STATUSES; i++) {
        const size_t path = i / METRICS_STATUSES;
        const int status = statuses[i % METRICS_STATUSES];
        if (m->requests[i] == 0) continue;
        buffer_printf(out, "postern_requests_total{path=\"%s\",code=\"",
                      path < m->n_paths ? m->paths[path] : "other");
        buffer_printf(out, status != 0 ? "%d" : "other", status);
        buffer_printf(out, "\"} %llu\n", (unsigned long long)m->requests[i]);
    }
}

static void print_context(const metrics *m, buffer *out) {
    print_one(out, "prefix_restored_tokens_total", "counter", "Of those that were there, read from disk.",
              m->n_restored);
    print_head(out, "prefix_miss_tokens_total", "counter",
               "Tokens that had been computed before and were computed again, by cause.");
    for (int i = 0; i < PN_CACHE_CAUSE_COUNT; i++)
        if (m->n_recomputed[i] > 0)
            buffer_printf(out, "postern_prefix_miss_tokens_total{cause=\"%s\"} %llu\n",
                          pn_cache_cause_name((pn_cache_cause)i), (unsigned long long)m->n_recomputed[i]);
    print_one(out, "slides_total", "counter", "How often the middle of a text was cut out.", m->n_slides);
    print_one(out, "cut_tokens_total", "counter", "Tokens that this cut.", m->n_cut);
    print_one(out, "step_downs_total", "counter", "How often keys and values were packed to fewer bits.",
              m->n_step_downs);
}

static void print_memory(const metrics *m, buffer *out) {
    pn_memory_use now, peak;
    pn_memory_get_use(&now, &peak);
    print_one(out, "kv_bytes", "gauge", "Keys and values that sessions hold, after the last request.",
              m->kv_bytes);
    print_one(out, "prefix_cache_bytes", "gauge", "Keys and values of texts that no session has any more.",
              m->prefix_cache_bytes);
    print_one(out, "evictions_total", "counter", "Blocks of such texts that were given up.", m->n_evicted);
    print_one(out, "sessions", "gauge", "Sessions that there are.", m->n_sessions);
    print_head(out, "memory_bytes", "gauge", "Memory that the library holds, by use.");
    buffer_printf(out,
                  "postern_memory_bytes{use=\"weights\"} %llu\npostern_memory_bytes{use=\"kv\"} %llu\n"
                  "postern_memory_bytes{use=\"scratch\"} %llu\npostern_memory_bytes{use=\"tables\"} %llu\n",
                  (unsigned long long)now.weights, (unsigned long long)now.kv,
                  (unsigned long long)now.scratch, (unsigned long long)now.tables);
    print_one(out, "memory_peak_bytes", "gauge", "The most that it held at once.", peak.total);
    print_one(out, "memory_budget_bytes", "gauge", "The most that it may hold; 0: no limit.",
              m->budget_bytes);
}

void metrics_print(metrics *m, size_t n_waiting, size_t n_running, buffer *out) {
    pthread_mutex_lock(&m->lock);
    print_requests(m, out);
    print_histogram(out, "request_seconds", "Requests that the model worked on, whole.", &m->request);
    print_histogram(out, "queue_seconds", "Wait for the requests before.", &m->queue);
    print_histogram(out, "ttft_seconds", "From the end of the wait to the first token.", &m->ttft);
    print_histogram(out, "token_seconds", "Per token after the first: the mean of its request.", &m->token);
    print_one(out, "prompt_tokens_total", "counter", "Tokens of prompts.", m->n_prompt);
    print_one(out, "prefix_hit_tokens_total", "counter", "Of these, tokens whose keys and values were there.",
              m->n_reused);
    print_one(out, "prefill_tokens_total", "counter", "Of these, tokens that were computed.", m->n_prefilled);
    print_one(out, "decode_tokens_total", "counter", "Tokens that were generated.", m->n_completion);
    print_context(m, out);
    print_memory(m, out);
    pthread_mutex_unlock(&m->lock);
    print_one(out, "requests_waiting", "gauge", "Requests in the queue.", n_waiting);
    print_one(out, "requests_running", "gauge", "Requests that the model works on.", n_running);
}
