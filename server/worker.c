/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include "answer.h"
#include "clock.h"
#include "state.h"

static pn_status pin(pn_session *session, const server_options *o, pn_error *err) {
    for (size_t i = 0; i < o->n_pinned; i++) {
        pn_status status = pn_session_start_chat(session, o->pinned[i], NULL, NULL, NULL, err);
        if (status == PN_OK) status = pn_session_pin(session, err);
        if (status != PN_OK) return status;
        pn_session_finish_chat(session);
    }
    return PN_OK;
}

static pn_status load(server *s) {
    pn_model *model = NULL;
    pn_status status = pn_model_open(s->options.model_path, &s->options.model, &model, &s->error);
    if (status == PN_OK)
        status = sessions_init(&s->sessions, model, &s->options.session, s->options.n_sessions, &s->error);
    if (status == PN_OK) status = pin(s->sessions.slots[0].session, &s->options, &s->error);
    if (status != PN_OK) {
        sessions_done(&s->sessions);
        pn_model_close(model);
        return status;
    }
    pn_plan plan;
    if (pn_session_plan(model, &s->options.session, &plan, NULL) == PN_OK)
        metrics_set_budget(&s->metrics, plan.budget_bytes);
    atomic_store(&s->model, model);
    return PN_OK;
}

static void measure(server *s) {
    uint64_t kv, cache, n_evicted;
    sessions_measure(&s->sessions, &kv, &cache, &n_evicted);
    metrics_set_memory(&s->metrics, kv, cache, n_evicted, s->sessions.n);
}

/* It is counted before it ends: who then asks for the metrics finds it there. */
static void work(server *s, job *j) {
    request_record record;
    answer_job(j, &s->sessions, s->options.model_name, &record);
    measure(s);
    record.method = "POST";
    record.path = j->path;
    record.status = job_status(j);
    record.seconds = clock_seconds() - j->arrived;
    server_record(s, &record);
    queue_finish(&s->queue);
    job_end(j);
    job_release(j);
}

void *worker_run(void *arg) {
    server *s = arg;
    if (load(s) != PN_OK) {
        server_notify(s, SERVER_FAILED);
        return NULL;
    }
    measure(s);
    server_phase loading = PHASE_LOADING;
    atomic_compare_exchange_strong(&s->phase, &loading, PHASE_READY);
    server_notify(s, SERVER_READY);
    for (job *j; (j = queue_pop(&s->queue)) != NULL;)
        work(s, j);
    sessions_done(&s->sessions);
    server_notify(s, SERVER_FINISHED);
    return NULL;
}
