/* SPDX-License-Identifier: Apache-2.0 */
/* Where the sessions of a model have their keys and values: a store for each type and precision, so that they
   share what their texts have in common, and nothing else. */
#include "engine/engine.h"

/* By default a quarter of a session's; and, of windowed layers, a window, from which a text can be resumed.
 */
uint64_t pn_prefix_cache_bytes(const pn_model *model, pn_kv_type type, uint64_t session_kv_bytes) {
    if (model->prefix_cache == PN_PREFIX_CACHE_OFF) return 0;
    if (model->prefix_cache > 0) return model->prefix_cache;
    const pn_kv_shape shape = pn_decoder_kv_shape(model->decoder, type);
    uint64_t block = 0;
    if (!pn_kv_block_bytes(&shape, PN_KV_WINDOWED, type, &block)) return session_kv_bytes / 4;
    const uint64_t window = block * ((uint64_t)shape.window / PN_KV_BLOCK + 1);
    return session_kv_bytes / 4 + (window < session_kv_bytes ? window : session_kv_bytes);
}

/* By default the cache follows the largest session so far. */
static pn_status widen(const pn_model *model, pn_kv_type type, pn_kv_store *store, uint64_t session_kv_bytes,
                       pn_error *err) {
    const uint64_t bytes = pn_prefix_cache_bytes(model, type, session_kv_bytes);
    return bytes > store->quota ? pn_kv_store_set_quota(store, bytes, err) : PN_OK;
}

pn_status pn_model_kv_store(pn_model *model, const pn_session_options *o, pn_kv_store **out, pn_error *err) {
    const pn_kv_type type = o->kv_type;
    pthread_mutex_lock(&model->stores_lock);
    pn_kv_store **store = &model->stores[type][o->precision];
    pn_status status = PN_OK;
    if (!*store) {
        const pn_kv_shape shape = pn_decoder_kv_shape(model->decoder, type);
        status = pn_kv_store_create(&shape, store, err);
    }
    if (status == PN_OK) status = widen(model, type, *store, pn_session_kv_bytes(model, o), err);
    if (status == PN_OK) *out = *store;
    pthread_mutex_unlock(&model->stores_lock);
    return status;
}

void pn_model_free_stores(pn_model *model) {
    for (size_t i = 0; i < PN_KV_TYPE_COUNT; i++)
        for (size_t j = 0; j < PN_PRECISIONS; j++)
            pn_kv_store_free(model->stores[i][j]);
    pthread_mutex_destroy(&model->stores_lock);
}
