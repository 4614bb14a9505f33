/* SPDX-License-Identifier: Apache-2.0 */
/* One block of one row, taken apart: what all types with integer codes have in common. */
#ifndef PN_QUANT_UNIT_H
#define PN_QUANT_UNIT_H

#include "quant/panel.h"

typedef struct pn_unit {
    uint8_t codes[PN_SUPER]; /* in order of columns; the first 32 without `super` */
    uint16_t d, m;           /* halves, as in pn_panel_format */
    int8_t scale[16], min[16];
} pn_unit;

typedef void (*pn_unit_read_fn)(const void *block, pn_unit *out);

/* pn_unit_read_NAME for every line of block_panels.inc; block is a pn_block of the type. */
#define PN_PANEL(name, ...) void pn_unit_read_##name(const void *block, pn_unit *out);
#include "quant/block_panels.inc"
#undef PN_PANEL

#endif
