/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/layout.h"

#include "base/mem.h"

pn_kv_type pn_kv_fresh_type(pn_kv_type type) {
    return type == PN_KV_F32 ? PN_KV_F32 : PN_KV_F16;
}

pn_kv_type pn_kv_key_type(pn_kv_type type) {
    return type == PN_KV_K8V4 ? PN_KV_Q8 : type;
}

pn_kv_type pn_kv_value_type(pn_kv_type type) {
    return type == PN_KV_K8V4 ? PN_KV_Q4 : type;
}

int pn_kv_code_bits(pn_kv_type type) {
    return type == PN_KV_Q8 ? 8 : type == PN_KV_Q4 ? 4 : 0;
}

pn_kv_type pn_kv_layer_type(const pn_kv_shape *shape, int layer, pn_kv_type type) {
    static const int bits[PN_KV_TYPE_COUNT] = {
        [PN_KV_Q4] = 0, [PN_KV_K8V4] = 1, [PN_KV_Q8] = 2, [PN_KV_F16] = 3, [PN_KV_F32] = 4};
    return shape->floors && bits[shape->floors[layer]] > bits[type] ? shape->floors[layer] : type;
}

bool pn_kv_keeps_first(pn_kv_type type) {
    return pn_kv_value_type(type) == PN_KV_Q4;
}

bool pn_kv_type_fits(pn_kv_type type, size_t head_dim) {
    return pn_kv_fresh_type(type) == type || pn_kv_run_group(head_dim) > 0;
}

pn_kv_run_shape pn_kv_keys_shape(pn_kv_type type, size_t head_dim) {
    return (pn_kv_run_shape){head_dim, PN_KV_BLOCK, pn_kv_code_bits(pn_kv_key_type(type))};
}

pn_kv_run_shape pn_kv_values_shape(pn_kv_type type, size_t head_dim) {
    const size_t group = pn_kv_run_group(head_dim);
    return (pn_kv_run_shape){group ? PN_KV_BLOCK * (head_dim / group) : 0, group,
                             pn_kv_code_bits(pn_kv_value_type(type))};
}

static size_t run_bytes(pn_kv_run_shape shape, pn_kv_type type, size_t head_dim) {
    if (shape.bits > 0) return pn_kv_run_size(&shape);
    return PN_KV_BLOCK * head_dim * (type == PN_KV_F32 ? sizeof(float) : sizeof(uint16_t));
}

size_t pn_kv_key_bytes(pn_kv_type type, size_t head_dim) {
    return run_bytes(pn_kv_keys_shape(type, head_dim), type, head_dim);
}

size_t pn_kv_value_bytes(pn_kv_type type, size_t head_dim) {
    return run_bytes(pn_kv_values_shape(type, head_dim), type, head_dim);
}

bool pn_kv_block_bytes(const pn_kv_shape *shape, pn_kv_lane lane, pn_kv_type type, uint64_t *out) {
    const size_t dim = (size_t)shape->head_dim;
    uint64_t sum = 0;
    for (int i = 0; i < shape->n_layer; i++) {
        const pn_kv_type own = pn_kv_layer_type(shape, i, type);
        uint64_t bytes = pn_kv_key_bytes(own, dim) + pn_kv_value_bytes(own, dim);
        if (pn_kv_lane_of(shape, i) != lane) continue;
        if (!pn_mul_u64(bytes, (uint64_t)shape->n_head_kv, &bytes) || !pn_add_u64(sum, bytes, &sum))
            return false;
    }
    *out = sum;
    return true;
}

pn_status pn_kv_layout_init(pn_kv_layout *layout, const pn_kv_shape *shape, pn_kv_type type, pn_error *err) {
    pn_kv_layout fresh = {0};
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        if (!pn_kv_block_bytes(shape, (pn_kv_lane)lane, type, &fresh.block_bytes[lane]))
            return pn_fail(err, PN_ERR_LIMIT, "the KV cache of this model does not fit in 64 bits");
    const size_t n_layer = (size_t)shape->n_layer, n_head = (size_t)shape->n_head_kv,
                 dim = (size_t)shape->head_dim;
    fresh.places = pn_alloc(PN_MEM_OTHER, n_layer, sizeof *fresh.places);
    if (!fresh.places) return pn_fail_memory(err, "KV layout", n_layer * sizeof *fresh.places);
    size_t end[PN_KV_LANES] = {0};
    for (int i = 0; i < shape->n_layer; i++) {
        pn_kv_place *p = &fresh.places[i];
        p->lane = pn_kv_lane_of(shape, i);
        size_t *at = &end[p->lane];
        p->type = pn_kv_layer_type(shape, i, type);
        p->key_type = pn_kv_key_type(p->type);
        p->value_type = pn_kv_value_type(p->type);
        p->key_bytes = pn_kv_key_bytes(p->type, dim);
        p->value_bytes = pn_kv_value_bytes(p->type, dim);
        p->keys = *at;
        p->values = p->keys + n_head * p->key_bytes;
        *at = p->values + n_head * p->value_bytes;
    }
    *layout = fresh;
    return PN_OK;
}

void pn_kv_layout_done(pn_kv_layout *layout) {
    pn_free(layout->places);
    *layout = (pn_kv_layout){0};
}
