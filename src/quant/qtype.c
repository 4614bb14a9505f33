/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/qtype.h"

#include "quant/blocks.h"
#include "quant/panel.h"
#include "quant/split.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const pn_qtype qtypes[] = {
#define PN_QTYPE(id, name, block_len, block, decode) {id, #name, block_len, sizeof(block), 1, 0, decode},
#define PN_QTYPE_NAMED(id, name)
#include "quant/qtypes.inc"
#undef PN_QTYPE
#undef PN_QTYPE_NAMED
};

static const struct {
    uint32_t id;
    const char *name;
} names[] = {
#define PN_QTYPE(id, name, block_len, block, decode) {id, #name},
#define PN_QTYPE_NAMED(id, name)                     {id, #name},
#include "quant/qtypes.inc"
#undef PN_QTYPE
#undef PN_QTYPE_NAMED
};

#define PACKED_ID(name) (PN_QTYPE_PACKED + (uint32_t)PN_PANEL_##name)
#define UNIT(super)     ((super) ? PN_SUPER : PN_STEP)
#define UNIT_BYTES(bits, group, min, super)                                                                  \
    (UNIT(super) * PN_PANEL_ROWS * (bits) / 8 +                                                              \
     ((min) ? 2 : 1) * (2 * PN_PANEL_ROWS + ((super) ? PN_SUPER / (group)*PN_PANEL_ROWS : 0)))

static const pn_qtype packed_types[] = {
#define PN_PANEL(name, bits, group, zero, codebook, min, super)                                              \
    {PACKED_ID(name), #name "_R16", UNIT(super), UNIT_BYTES(bits, group, min, super), PN_PANEL_ROWS, 0, NULL},
#include "quant/panels.inc"
#undef PN_PANEL
    {PACKED_ID(F32), "F32_R16", 1, 4 * PN_PANEL_ROWS, PN_PANEL_ROWS, 0, NULL},
    {PACKED_ID(F16), "F16_R16", 1, 2 * PN_PANEL_ROWS, PN_PANEL_ROWS, 0, NULL},
    {PACKED_ID(BF16), "BF16_R16", 1, 2 * PN_PANEL_ROWS, PN_PANEL_ROWS, 0, NULL},
    {PACKED_ID(SPLIT), "Q8_0_R16_SPLIT", PN_STEP, PN_SPLIT_HIGH_BYTES + PN_SPLIT_LOW_BYTES, PN_PANEL_ROWS,
     sizeof(float) * PN_PANEL_ROWS, NULL},
};

const pn_qtype *pn_qtype_at(size_t i) {
    return i < COUNT(qtypes) ? &qtypes[i] : NULL;
}

const pn_qtype *pn_qtype_find(uint32_t id) {
    for (size_t i = 0; i < COUNT(qtypes); i++) {
        if (qtypes[i].id == id) return &qtypes[i];
    }
    if (id >= PN_QTYPE_PACKED && id - PN_QTYPE_PACKED < COUNT(packed_types))
        return &packed_types[id - PN_QTYPE_PACKED];
    return NULL;
}

uint64_t pn_qtype_bytes(const pn_qtype *type, const uint64_t dims[4]) {
    uint64_t rows = (dims[1] + type->block_rows - 1) / type->block_rows;
    return (dims[0] / type->block_len * type->block_bytes + type->row_bytes) * rows * dims[2] * dims[3];
}

const char *pn_qtype_name(uint32_t id) {
    for (size_t i = 0; i < COUNT(names); i++) {
        if (names[i].id == id) return names[i].name;
    }
    const pn_qtype *packed = pn_qtype_find(id);
    return packed ? packed->name : NULL;
}
