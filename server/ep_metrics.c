/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics, for Prometheus. */
#include "routes.h"

void ep_metrics(request *r);

void ep_metrics(request *r) {
    size_t n_waiting, n_running;
    buffer text = {0};
    queue_count(&r->server->queue, &n_waiting, &n_running);
    metrics_print(&r->server->metrics, n_waiting, n_running, &text);
    request_answer_text(r, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
}
