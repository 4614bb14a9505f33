/* SPDX-License-Identifier: Apache-2.0 */
/* What `few`, `expand` and matmul_codes mean, step by step. */
#ifndef PN_KERNELS_SCALAR_CODED_H
#define PN_KERNELS_SCALAR_CODED_H

#include "kernels/kernels.h"
#include "quant/blocks.h"

#include <math.h>
#include <stdbool.h>

#define PN_STEP_CODES (PN_STEP * PN_PANEL_ROWS)
#define PN_GROUPS_MAX (PN_SUPER / 16) /* of a unit */

/* The 512 codes of a step, as eight vectors of 64. */
static inline void pn_unpack_step_scalar(pn_panel_format f, const uint8_t *step,
                                         int8_t codes[PN_STEP_CODES]) {
    const uint8_t *pairs = f.bits == 6 ? step + 256 : step, *words = step + (f.bits == 5 ? 256 : 128);
    for (size_t v = 0; v < 8; v++) {
        for (size_t b = 0; b < 64; b++) {
            unsigned code = 0;
            if (f.bits == 8) code = step[64 * v + b];
            if (f.bits >= 4 && f.bits <= 6) code = (unsigned)step[v % 4 * 64 + b] >> (v / 4 * 4) & 15u;
            if (f.bits == 2 || f.bits == 3) code = (unsigned)pairs[v / 4 * 64 + b] >> (v % 4 * 2) & 3u;
            if (f.bits == 6) code |= ((unsigned)pairs[v / 4 * 64 + b] >> (v % 4 * 2) & 3u) << 4;
            if (f.bits == 3) code |= ((unsigned)words[8 * v + b / 8] >> (b % 8) & 1u) << 2;
            if (f.bits == 5) code |= ((unsigned)words[8 * v + b / 8] >> (b % 8) & 1u) << 4;
            codes[64 * v + b] = (int8_t)(f.codebook ? pn_iq4_values[code] : (int)code - f.zero);
        }
    }
}

/* [groups of a unit][16] scales, and offsets where the format has them, from d on. */
static inline void pn_unpack_scales_scalar(pn_panel_format f, const uint8_t *d, float *scale, float *offset) {
    const uint8_t *m = d + 2 * PN_PANEL_ROWS;
    const int8_t *small = (const int8_t *)(f.min ? m + 2 * PN_PANEL_ROWS : m);
    size_t n = pn_panel_unit_columns(f) / f.group * PN_PANEL_ROWS;
    for (size_t i = 0; i < n; i++) {
        size_t row = i % PN_PANEL_ROWS;
        scale[i] = pn_block_half(d + 2 * row);
        if (f.super) scale[i] *= (float)small[i];
        if (!f.min) continue;
        if (f.apart) {
            offset[i] = -(scale[i] * (float)(pn_panel_zero(f, m, row) - f.zero));
            continue;
        }
        offset[i] = pn_block_half(m + 2 * row);
        if (f.super) offset[i] = -(offset[i] * (float)small[n + i]);
    }
}

/* Adds one step of one token to acc [16]. */
static inline void pn_add_step_scalar(const int8_t *codes, int group, const float *scale, const float *offset,
                                      const pn_inputs *x, size_t token, size_t step, float *acc) {
    const int8_t *low = x->codes + token * (size_t)x->n_plane * x->n_step * PN_STEP + step * PN_STEP;
    const int8_t *high = low + x->n_step * PN_STEP;
    size_t at = token * x->n_step + step;
    for (size_t c = 0; c < PN_STEP; c += (size_t)group, scale += PN_PANEL_ROWS) {
        int32_t sums[PN_PANEL_ROWS] = {0};
        for (size_t i = c; i < c + (size_t)group; i++) {
            int32_t value = x->n_plane == 2 ? low[i] + 256 * high[i] : low[i];
            for (size_t r = 0; r < PN_PANEL_ROWS; r++)
                sums[r] += codes[i / 4 * 64 + 4 * r + i % 4] * value;
        }
        for (size_t r = 0; r < PN_PANEL_ROWS; r++)
            acc[r] = fmaf((float)sums[r], scale[r] * x->scale[at], acc[r]);
        if (!offset) continue;
        const float sum =
            group == PN_STEP ? x->sum[at] : x->scale[at] * (float)(x->half[2 * at + c / 16] / -128);
        for (size_t r = 0; r < PN_PANEL_ROWS; r++)
            acc[r] = fmaf(offset[r], sum, acc[r]);
        offset += PN_PANEL_ROWS;
    }
}

#endif
