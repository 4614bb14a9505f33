/* SPDX-License-Identifier: Apache-2.0 */
/* Layers whose keys and values keep more bits than the others'. */
#include "engine/engine.h"

#include <xxhash.h>

static pn_status check(const pn_kv_layers *l, int n_layer, pn_error *err) {
    if (l->first < 0 || l->last < l->first || l->last >= n_layer)
        return pn_fail(err, PN_ERR_ARGUMENT, "layers %d to %d were named: this model has 0 to %d", l->first,
                       l->last, n_layer - 1);
    if (l->type != PN_KV_F16 && l->type != PN_KV_Q8 && l->type != PN_KV_K8V4)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "layers can keep the bits of f16, q8 or k8v4, and of no other type");
    return PN_OK;
}

pn_status pn_kv_layers_init(pn_model *m, const pn_model_options *o, pn_error *err) {
    const int n_layer = m->decoder->h.n_layer;
    if (o->n_kv_layers == 0) return PN_OK;
    pn_kv_type *floors = pn_arena_alloc(&m->strings, (size_t)n_layer * sizeof *floors);
    if (!floors) return pn_fail_memory(err, "types of layers", (size_t)n_layer * sizeof *floors);
    for (int i = 0; i < n_layer; i++)
        floors[i] = PN_KV_Q4; /* the fewest there are */
    for (size_t i = 0; i < o->n_kv_layers; i++) {
        PN_TRY(check(&o->kv_layers[i], n_layer, err));
        for (int layer = o->kv_layers[i].first; layer <= o->kv_layers[i].last; layer++)
            floors[layer] = o->kv_layers[i].type;
    }
    m->decoder->kv_floors = floors;
    return PN_OK;
}

uint64_t pn_kv_layers_hash(const pn_model *m, uint64_t seed) {
    const size_t n = m->decoder->kv_floors ? (size_t)m->decoder->h.n_layer : 0;
    return XXH3_64bits_withSeed(m->decoder->kv_floors, n * sizeof *m->decoder->kv_floors, seed);
}
