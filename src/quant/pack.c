/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/pack.h"

#include "quant/split.h"

bool pn_pack_bytes(pn_panel_kind kind, uint64_t n_row, uint64_t n_col, uint64_t *out) {
    const pn_qtype *type = pn_panel_type(kind, 0);
    uint64_t n_panel = n_row / PN_PANEL_ROWS + (n_row % PN_PANEL_ROWS != 0), bytes;
    return !__builtin_mul_overflow(n_col / type->block_len, type->block_bytes, &bytes) &&
           !__builtin_add_overflow(bytes, type->row_bytes, &bytes) &&
           !__builtin_mul_overflow(n_panel, bytes, out);
}

void pn_pack_panel(const pn_qtype *type, pn_panel_kind kind, const uint8_t *data, size_t n_row, size_t n_col,
                   size_t panel, uint8_t *place) {
    size_t row_bytes = n_col / type->block_len * type->block_bytes, row = panel * PN_PANEL_ROWS;
    size_t left = n_row - row, n = left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
    const uint8_t *rows = data + row * row_bytes;
    if (kind == PN_PANEL_SPLIT_Q8_0)
        pn_split_pack(rows, row_bytes, n, (n_row + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS, n_col, panel, place);
    else
        pn_panel_pack(type, rows, row_bytes, n, n_col,
                      place + panel * pn_panel_bytes(kind, (pn_panel_shape){n_col, n_col}));
}

void pn_pack_matrix(const pn_qtype *type, pn_panel_kind kind, const uint8_t *data, size_t n_row, size_t n_col,
                    uint8_t *place) {
    for (size_t panel = 0; panel * PN_PANEL_ROWS < n_row; panel++)
        pn_pack_panel(type, kind, data, n_row, n_col, panel, place);
}
