/* SPDX-License-Identifier: Apache-2.0 */
/* Texts whose keys and values stay in memory for as long as the model is open. */
#include "engine/engine.h"

struct pn_pin {
    pn_kv_snapshot snapshot;
    pn_kv_need need; /* of the store's room */
    struct pn_pin *next;
};

static bool is_pinned(const pn_model *m, const pn_kv_snapshot *s) {
    for (const struct pn_pin *pin = m->pins; pin; pin = pin->next)
        if (pin->snapshot.end == s->end) return true;
    return false;
}

static pn_status hold(pn_model *m, pn_kv_snapshot *snapshot, pn_error *err) {
    struct pn_pin *pin = pn_alloc(PN_MEM_KV, 1, sizeof *pin);
    if (!pin) return pn_fail_memory(err, "pinned text", sizeof *pin);
    const uint64_t bytes = pn_kv_snapshot_bytes(snapshot);
    pin->need = pn_kv_snapshot_need(snapshot);
    pn_status status = pn_kv_store_join(snapshot->store, &pin->need, err);
    if (status == PN_OK) {
        status = pn_plan_claim_pin(m, bytes, err);
        if (status != PN_OK) pn_kv_store_leave(snapshot->store, &pin->need);
    }
    if (status != PN_OK) {
        pn_free(pin);
        return status;
    }
    pin->snapshot = *snapshot;
    *snapshot = (pn_kv_snapshot){0};
    pin->next = m->pins;
    m->pins = pin;
    m->pinned_bytes += bytes;
    return PN_OK;
}

pn_status pn_session_pin(pn_session *s, pn_error *err) {
    pn_kv_snapshot snapshot;
    pn_kv_publish(&s->kv, s->tokens);
    if (s->kv.n_path == 0)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "the text has %zu tokens, and it takes a whole block of %d to be pinned",
                       s->kv.n_tokens, PN_KV_BLOCK);
    PN_TRY(pn_kv_snapshot_take(&s->kv, &snapshot, err));
    pn_kv_snapshot_trim(&snapshot);
    pthread_mutex_lock(&s->model->stores_lock);
    const pn_status status = is_pinned(s->model, &snapshot) ? PN_OK : hold(s->model, &snapshot, err);
    pthread_mutex_unlock(&s->model->stores_lock);
    pn_kv_snapshot_done(&snapshot);
    return status;
}

void pn_model_free_pins(pn_model *m) {
    while (m->pins) {
        struct pn_pin *pin = m->pins;
        pn_kv_store *store = pin->snapshot.store;
        m->pins = pin->next;
        pn_kv_snapshot_done(&pin->snapshot);
        pn_kv_store_leave(store, &pin->need);
        pn_free(pin);
    }
}
