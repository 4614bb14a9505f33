/* SPDX-License-Identifier: Apache-2.0 */
/* Packing a matrix, panel by panel, into any of its packed forms. */
#ifndef PN_QUANT_PACK_H
#define PN_QUANT_PACK_H

#include "quant/panel.h"

/* Bytes of a matrix of at least one row packed as `kind`; false on overflow. n_col is a multiple of the
   kind's block. */
bool pn_pack_bytes(pn_panel_kind kind, uint64_t n_row, uint64_t n_col, uint64_t *out);

/* Packs rows 16 * panel .. of `type` (not a packed one), which lie one after the other from data on, to where
   they belong in the packed matrix at `place`. kind is that of the type, or PN_PANEL_SPLIT_Q8_0 for Q8_0.
   Panels may be packed in any order and at the same time. */
void pn_pack_panel(const pn_qtype *type, pn_panel_kind kind, const uint8_t *data, size_t n_row, size_t n_col,
                   size_t panel, uint8_t *place);

/* All panels of it. */
void pn_pack_matrix(const pn_qtype *type, pn_panel_kind kind, const uint8_t *data, size_t n_row, size_t n_col,
                    uint8_t *place);

#endif
