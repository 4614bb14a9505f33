/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys and values of PN_KV_BLOCK positions lie. Layers whose queries see equally far form a lane: the
   blocks of a lane hold the keys and values of its layers and of no other, so that those of windowed layers
   can be given back while the others' stay.

   In a block one (layer, head) has its keys in one run, transposed: [head_dim, PN_KV_BLOCK], and its values
   in another: [PN_KV_BLOCK, head_dim], so that attention reads linear memory and both of its products have
   their results side by side. Each layer has the keys of all heads, then the values.

   A block is of one type, but for layers that are to have more bits (floors). Only those of halves or floats
   take single positions; those of fewer bits are made of full blocks of halves. */
#ifndef PN_KV_LAYOUT_H
#define PN_KV_LAYOUT_H

#include "kernels/kernels.h"

#include "base/status.h"

#define PN_KV_BLOCK PN_ATTN_KEYS

typedef enum pn_kv_lane { PN_KV_FULL, PN_KV_WINDOWED, PN_KV_LANES } pn_kv_lane;

typedef struct pn_kv_shape {
    int n_layer, n_head_kv, head_dim;
    pn_kv_type type; /* of full blocks */
    int window; /* positions that a query of a windowed layer sees, its own among them; 0: no such layers */
    int window_pattern; /* layers i with (i + 1) % window_pattern != 0 are windowed; of meaning with a window
                         */
    const pn_kv_type *floors; /* [n_layer] what a layer's keys and values have at least the bits of; NULL: all
                                 are as their block */
} pn_kv_shape;

static inline pn_kv_lane pn_kv_lane_of(const pn_kv_shape *shape, int layer) {
    return shape->window > 0 && (layer + 1) % shape->window_pattern != 0 ? PN_KV_WINDOWED : PN_KV_FULL;
}

/* The runs of one layer in a block of its lane. */
typedef struct pn_kv_place {
    pn_kv_lane lane;
    size_t keys, values;           /* byte offsets of head 0's */
    size_t key_bytes, value_bytes; /* of one head's run */
    pn_kv_type type, key_type, value_type;
} pn_kv_place;

typedef struct pn_kv_layout {
    pn_kv_place *places; /* [n_layer] */
    uint64_t block_bytes[PN_KV_LANES];
} pn_kv_layout;

/* What the keys and the values of a block are: F16, F32, Q8 or Q4. */
pn_kv_type pn_kv_key_type(pn_kv_type type);
pn_kv_type pn_kv_value_type(pn_kv_type type);
/* Bits of a code; 0 for halves and floats. */
int pn_kv_code_bits(pn_kv_type type);
/* Of the run of one head's keys or values of a block of the type, in codes. */
pn_kv_run_shape pn_kv_keys_shape(pn_kv_type type, size_t head_dim);
pn_kv_run_shape pn_kv_values_shape(pn_kv_type type, size_t head_dim);
/* Its bytes. */
size_t pn_kv_key_bytes(pn_kv_type type, size_t head_dim);
size_t pn_kv_value_bytes(pn_kv_type type, size_t head_dim);
/* What the keys and values of a layer are in a block of a type. */
pn_kv_type pn_kv_layer_type(const pn_kv_shape *shape, int layer, pn_kv_type type);
/* Whether heads of the size can be of the type. */
bool pn_kv_type_fits(pn_kv_type type, size_t head_dim);
/* The type of blocks that are being filled. */
pn_kv_type pn_kv_fresh_type(pn_kv_type type);
/* Whether the block with the first positions, on which much attention rests (Xiao et al., "Efficient
   Streaming Language Models with Attention Sinks", 2023), stays as it was filled. */
bool pn_kv_keeps_first(pn_kv_type type);

/* Bytes of a block; false when they do not fit in 64 bits. */
bool pn_kv_block_bytes(const pn_kv_shape *shape, pn_kv_lane lane, pn_kv_type type, uint64_t *out);
/* Of blocks of a type, which need not be the shape's. PN_ERR_LIMIT, PN_ERR_MEMORY. */
pn_status pn_kv_layout_init(pn_kv_layout *layout, const pn_kv_shape *shape, pn_kv_type type, pn_error *err);
void pn_kv_layout_done(pn_kv_layout *layout);

#endif
