/* SPDX-License-Identifier: Apache-2.0 */
/* What the weights of a file would take compressed, tensor by tensor, as `postern compress` plans them
   without being told otherwise. */
#include "engine/engine.h"

#include "quant/panel.h"
#include "quant/split.h"

#include <string.h>

#define LAYERS_IN_4_BITS 0.9 /* share of their weights; the rest, embedding and head have 8 */
#define GROUP            128

static bool is_float(const pn_gguf_tensor *t) {
    return t->type == PN_QTYPE_ID_F32 || t->type == PN_QTYPE_ID_F16 || t->type == PN_QTYPE_ID_BF16;
}

static bool is_layer(const pn_gguf_tensor *t) {
    return t->name.len > 4 && memcmp(t->name.data, "blk.", 4) == 0;
}

/* One scale per row; the head in two parts where that is worth it. */
static uint64_t bytes_in_8_bits(const pn_gguf_tensor *t, bool is_head) {
    const pn_panel_kind kind = is_head ? pn_split_kind(PN_PANEL_INT8_ASYM, t->dims[1]) : PN_PANEL_INT8_ASYM;
    return pn_qtype_bytes(pn_panel_type(kind, 0), t->dims);
}

/* In groups that divide the rows, of 128 or less. */
static uint64_t bytes_in_4_bits(const pn_gguf_tensor *t) {
    size_t group = GROUP;
    while (t->dims[0] % group != 0)
        group /= 2;
    return pn_qtype_bytes(pn_panel_type(PN_PANEL_INT4_ASYM, group), t->dims);
}

uint64_t pn_plan_compressed_bytes(const pn_gguf *file, int bits) {
    const pn_gguf_tensor *head = pn_gguf_find_tensor(file, "output.weight");
    if (!head) head = pn_gguf_find_tensor(file, "token_embd.weight");
    const double share = bits == 4 ? LAYERS_IN_4_BITS : 0;
    uint64_t fixed = 0, in_4 = 0, in_8 = 0;
    for (size_t i = 0; i < pn_gguf_n_tensors(file); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(file, i);
        if (t->n_dims != 2) continue; /* vectors count as tables */
        if (!is_float(t)) return UINT64_MAX;
        if (t->dims[0] % PN_STEP != 0) {
            fixed += t->n_bytes;
        } else if (is_layer(t)) {
            in_8 += bytes_in_8_bits(t, false);
            in_4 += bytes_in_4_bits(t);
        } else {
            fixed += bytes_in_8_bits(t, t == head);
        }
    }
    return fixed + (uint64_t)(share * (double)in_4 + (1 - share) * (double)in_8);
}
