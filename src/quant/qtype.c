/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/qtype.h"

#include "quant/blocks.h"
#include "quant/panel.h"
#include "quant/split.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const pn_qtype qtypes[] = {
#define PN_QTYPE(id, name, block_len, block, decode)                                                         \
    {id, #name, block_len, sizeof(block), 1, 0, PN_PANEL_##name, decode},
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

/* ---- packed types ---- */

/* Their numbers, which files hold: only ever to be appended to. */
enum {
#define PN_PANEL(name, ...) NUMBER_##name,
#include "quant/block_panels.inc"
#undef PN_PANEL
    NUMBER_F32,
    NUMBER_F16,
    NUMBER_BF16,
    NUMBER_SPLIT_Q8_0,
    NUMBER_INT4_SYM,
    NUMBER_INT8_SYM = NUMBER_INT4_SYM + 2, /* the one before was INT4_ASYM with zeros of 8 bits */
    NUMBER_INT8_ASYM,
    NUMBER_INT4_ASYM,
    NUMBER_SPLIT_INT8_SYM,
    NUMBER_SPLIT_INT8_ASYM,
};

#define CODES(bits, n_col) ((n_col)*PN_PANEL_ROWS * (bits) / 8)
#define UNIT(super)        ((super) ? PN_SUPER : PN_STEP)
#define UNIT_BYTES(bits, group, min, super)                                                                  \
    (CODES(bits, UNIT(super)) +                                                                              \
     ((min) ? 2 : 1) * (2 * PN_PANEL_ROWS + ((super) ? PN_SUPER / (group)*PN_PANEL_ROWS : 0)))

#define PACKED(number, name, block_len, block_bytes, row_bytes, kind)                                        \
    {                                                                                                        \
        PN_QTYPE_PACKED + (uint32_t)(number), name, block_len, block_bytes, PN_PANEL_ROWS, row_bytes, kind,  \
            NULL                                                                                             \
    }
#define OF_FLOATS(name, bytes)                                                                               \
    PACKED(NUMBER_##name, #name "_R16", 1, (bytes)*PN_PANEL_ROWS, 0, PN_PANEL_##name)

/* Kinds with `apart`. With one scale per row, "channel", what 16 rows have besides their codes is no part of
   a block. With groups of columns a group is a block, and the binary logarithm of its length stands in the
   number's second byte. */
#define PER_CHANNEL(name, bits, scales)                                                                      \
    PACKED(NUMBER_##name, #name "_CH_R16", PN_STEP, CODES(bits, PN_STEP), scales, PN_PANEL_##name)
#define PER_GROUP(name, bits, scales, n, log2)                                                               \
    PACKED(NUMBER_##name | (log2) << 8, #name "_G" #n "_R16", n, CODES(bits, n) + (scales), 0,               \
           PN_PANEL_##name)
#define PER_GROUP_OF(n, log2)                                                                                \
    PER_GROUP(INT4_SYM, 4, 32, n, log2), PER_GROUP(INT8_SYM, 8, 32, n, log2),                                \
        PER_GROUP(INT8_ASYM, 8, 48, n, log2), PER_GROUP(INT4_ASYM, 4, 40, n, log2)

/* In two parts: bytes of scales per step, and of each row besides its steps. */
#define SPLIT(name, text, scales, row_bytes)                                                                 \
    PACKED(NUMBER_SPLIT_##name, text, PN_STEP, 2 * PN_SPLIT_CODES + (scales), (row_bytes)*PN_PANEL_ROWS,     \
           PN_PANEL_SPLIT_##name)

static const pn_qtype packed_types[] = {
#define PN_PANEL(name, bits, group, zero, codebook, min, super, apart)                                       \
    PACKED(NUMBER_##name, #name "_R16", UNIT(super), UNIT_BYTES(bits, group, min, super), 0, PN_PANEL_##name),
#include "quant/block_panels.inc"
#undef PN_PANEL
    OF_FLOATS(F32, 4),
    OF_FLOATS(F16, 2),
    OF_FLOATS(BF16, 2),
    SPLIT(Q8_0, "Q8_0_R16_SPLIT", 2 * sizeof(uint16_t) * PN_PANEL_ROWS, sizeof(float)),
    PER_CHANNEL(INT4_SYM, 4, 32),
    PER_CHANNEL(INT8_SYM, 8, 32),
    PER_CHANNEL(INT8_ASYM, 8, 48),
    PER_CHANNEL(INT4_ASYM, 4, 40),
    SPLIT(INT8_SYM, "INT8_SYM_CH_R16_SPLIT", 0, sizeof(uint16_t) + sizeof(float)),
    SPLIT(INT8_ASYM, "INT8_ASYM_CH_R16_SPLIT", 0, sizeof(uint16_t) + sizeof(float) + 1),
    PER_GROUP_OF(32, 5),
    PER_GROUP_OF(64, 6),
    PER_GROUP_OF(128, 7),
};

const pn_qtype *pn_qtype_at(size_t i) {
    if (i < COUNT(qtypes)) return &qtypes[i];
    i -= COUNT(qtypes);
    return i < COUNT(packed_types) ? &packed_types[i] : NULL;
}

const pn_qtype *pn_qtype_find(uint32_t id) {
    const pn_qtype *type;
    for (size_t i = 0; (type = pn_qtype_at(i)); i++)
        if (type->id == id) return type;
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
