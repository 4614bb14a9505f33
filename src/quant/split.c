/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/split.h"

#include "quant/blocks.h"

#include <math.h>

#define HALVES_BYTES (2 * PN_PANEL_ROWS)
#define MEAN_LOW     (-7.53125f) /* (7.5 - 128) / 16 */

static const pn_panel_format whole = {8, 32, 128, 0, 0, 0, 0}, high_format = {4, 32, 0, 0, 1, 0, 0};

/* Two vectors of codes become four bits of each in one: the first in the low nibbles. */
static void split_vectors(const uint8_t *first, const uint8_t *second, uint8_t *high, uint8_t *low) {
    for (size_t b = 0; b < 64; b++) {
        high[b] = (uint8_t)(first[b] >> 4 | (second[b] & 0xf0));
        low[b] = (uint8_t)((first[b] & 15) | second[b] << 4);
    }
}

static void split_scales(const uint8_t *d, uint8_t *out) {
    memcpy(out, d, HALVES_BYTES);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
        uint16_t offset = pn_f32_to_f16(MEAN_LOW * pn_block_half(d + 2 * r));
        memcpy(out + HALVES_BYTES + 2 * r, &offset, sizeof offset);
    }
}

/* Adds the squares of what the high part leaves of 16 rows x 32 weights: d * (l - 128) - 16 m of each. */
static void add_squares(const uint8_t *low, const uint8_t *d, const uint8_t *m, double *squares) {
    int sums[PN_PANEL_ROWS] = {0}, sums_of_squares[PN_PANEL_ROWS] = {0};
    for (size_t b = 0; b < PN_SPLIT_LOW_BYTES; b++) {
        int first = low[b] & 15, second = low[b] >> 4;
        sums[b % 64 / 4] += first + second;
        sums_of_squares[b % 64 / 4] += first * first + second * second;
    }
    for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
        double slope = (double)pn_block_half(d + 2 * r),
               at_zero = -128 * slope - 16 * (double)pn_block_half(m + 2 * r);
        squares[r] +=
            slope * slope * sums_of_squares[r] + 2 * slope * at_zero * sums[r] + PN_STEP * at_zero * at_zero;
    }
}

void pn_split_pack(const void *rows, size_t row_bytes, size_t n_row, size_t n_col, uint8_t *high,
                   uint8_t *low, float *residual) {
    const pn_qtype *type = pn_qtype_find(PN_QTYPE_ID_Q8_0);
    double squares[PN_PANEL_ROWS] = {0};
    for (size_t s = 0; s < n_col / PN_STEP; s++, high += PN_SPLIT_HIGH_BYTES, low += PN_SPLIT_LOW_BYTES) {
        uint8_t unit[PN_SPLIT_HIGH_BYTES + PN_SPLIT_LOW_BYTES]; /* a panel of 32 columns is one unit */
        uint8_t *scales = high + pn_panel_scale_offset(high_format);
        pn_panel_pack(type, (const uint8_t *)rows + s * type->block_bytes, row_bytes, n_row, PN_STEP, unit);
        for (size_t j = 0; j < 4; j++)
            split_vectors(unit + 64 * j, unit + 64 * (j + 4), high + 64 * j, low + 64 * j);
        split_scales(unit + pn_panel_scale_offset(whole), scales);
        add_squares(low, scales, scales + HALVES_BYTES, squares);
    }
    for (size_t r = 0; r < PN_PANEL_ROWS; r++)
        residual[r] = (float)sqrt(squares[r] > 0 ? squares[r] : 0);
}

bool pn_split_pays(pn_panel_kind kind, uint64_t n_row) {
    return kind == PN_PANEL_Q8_0 && n_row >= 8192;
}

size_t pn_split_low_offset(size_t n_panel, size_t n_col) {
    return n_panel * (n_col / PN_STEP) * PN_SPLIT_HIGH_BYTES;
}

size_t pn_split_residual_offset(size_t n_panel, size_t n_col) {
    return pn_split_low_offset(n_panel, n_col) + n_panel * (n_col / PN_STEP) * PN_SPLIT_LOW_BYTES;
}

size_t pn_split_bytes(size_t n_panel, size_t n_col) {
    return pn_split_residual_offset(n_panel, n_col) + n_panel * PN_PANEL_ROWS * sizeof(float);
}

void pn_split_decode_row(const uint8_t *high, const uint8_t *low, size_t row, size_t n_col, float *dst) {
    for (size_t s = 0; s < n_col / PN_STEP; s++) {
        float d = pn_panel_scale_of(high_format, high + pn_panel_scale_offset(high_format), row, 0).scale;
        for (size_t c = 0; c < PN_STEP; c++) {
            int code =
                16 * pn_panel_code(high_format, high, row, c) + pn_panel_code(high_format, low, row, c);
            dst[s * PN_STEP + c] = d * (float)(code - whole.zero);
        }
        high += PN_SPLIT_HIGH_BYTES;
        low += PN_SPLIT_LOW_BYTES;
    }
}
