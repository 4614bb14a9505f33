/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/models, /health. */
#include "routes.h"

void ep_models(request *r);
void ep_health(request *r);

void ep_models(request *r) {
    pn_model *model = atomic_load(&r->server->model);
    json_t *entry = json_pack("{s:s, s:s, s:i, s:s}", "id", r->server->options.model_name, "object", "model",
                              "created", 0, "owned_by", "postern");
    if (entry != NULL && model != NULL) {
        pn_model_info info;
        pn_model_get_info(model, &info);
        json_object_set_new(entry, "meta",
                            json_pack("{s:s, s:i, s:i, s:I}", "architecture", info.architecture, "n_vocab",
                                      info.n_vocab, "n_ctx_train", info.n_ctx_train, "weights_bytes",
                                      (json_int_t)info.weights_bytes));
    }
    request_answer(r, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", entry));
}

void ep_health(request *r) {
    static const char *const names[] = {
        [PHASE_LOADING] = "loading", [PHASE_READY] = "ready", [PHASE_DRAINING] = "draining"};
    const server_phase phase = atomic_load(&r->server->phase);
    request_answer(r, phase == PHASE_READY ? 200 : 503, json_pack("{s:s}", "status", names[phase]));
}
