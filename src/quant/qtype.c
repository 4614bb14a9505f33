/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/qtype.h"

#include "quant/blocks.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const pn_qtype qtypes[] = {
#define PN_QTYPE(id, name, block_len, block, decode) {id, #name, block_len, sizeof(block), decode},
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

const pn_qtype *pn_qtype_at(size_t i) {
    return i < COUNT(qtypes) ? &qtypes[i] : NULL;
}

const pn_qtype *pn_qtype_find(uint32_t id) {
    for (size_t i = 0; i < COUNT(qtypes); i++) {
        if (qtypes[i].id == id) return &qtypes[i];
    }
    return NULL;
}

const char *pn_qtype_name(uint32_t id) {
    for (size_t i = 0; i < COUNT(names); i++) {
        if (names[i].id == id) return names[i].name;
    }
    return NULL;
}
