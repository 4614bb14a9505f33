/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/integer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LEAST_SCALE FLT_EPSILON /* 2^-23: also a half, if one with few bits */

static float levels(pn_panel_format f) {
    return (float)(1 << f.bits);
}

/* The range of ASYM codes, or of SYM ones from the end of greater magnitude. */
static float scale_of_range(pn_panel_format f, float least, float greatest) {
    if (f.min) return ((greatest > 0 ? greatest : 0) - (least < 0 ? least : 0)) / (levels(f) - 1);
    return (fabsf(least) >= greatest ? fabsf(least) : -greatest) / (levels(f) / 2);
}

void pn_integer_find_range(const float *weights, size_t n, float range[2]) {
    float least = weights[0], greatest = weights[0], nothing = 0;
    for (size_t i = 0; i < n; i++) {
        const float w = weights[i];
        nothing += w - w; /* an infinity or a NaN less itself is a NaN */
        least = w < least ? w : least;
        greatest = w > greatest ? w : greatest;
    }
    range[0] = least + nothing;
    range[1] = greatest + nothing;
}

pn_integer_range pn_integer_find_scale(pn_panel_kind kind, const float range[2], pn_integer_scale *out) {
    const pn_panel_format f = pn_panel_formats[kind];
    const float least = range[0];
    if (isnan(least)) return PN_INTEGER_RANGE_NOT_FINITE;
    const float exact = scale_of_range(f, least, range[1]);
    const uint16_t half = pn_f32_to_f16(fabsf(exact) < LEAST_SCALE ? LEAST_SCALE : exact);
    const float d = pn_f16_to_f32(half);
    if (isinf(d)) return PN_INTEGER_RANGE_TOO_LARGE;
    float zero = f.min && least < 0 ? rintf(-least / d) : 0;
    zero = zero < levels(f) - 1 ? zero : levels(f) - 1;
    *out = (pn_integer_scale){half, (uint8_t)zero};
    return PN_INTEGER_RANGE_OK;
}

float pn_integer_round(pn_panel_kind kind, pn_integer_scale scale, const float *weights, size_t n,
                       uint8_t *codes) {
    const pn_integer_grid g = pn_integer_grid_of(kind, scale);
    float lost = 0;
    for (size_t i = 0; i < n; i++) {
        float code = weights[i] / g.d + g.inside;
        code = code > g.first ? code : g.first;
        code = code < g.last ? code : g.last;
        code = rintf(code);
        codes[i] = (uint8_t)(code + g.outside);
        const float error = weights[i] - g.d * (code - g.inside);
        lost += error * error;
    }
    return lost;
}

static void put_scale(pn_panel_format f, pn_integer_scale scale, size_t row, uint8_t *dst) {
    memcpy(dst + 2 * row, &scale.d, sizeof scale.d);
    if (!f.min) return;
    uint8_t *zeros = dst + 2 * PN_PANEL_ROWS;
    if (f.bits == 4)
        zeros[row % 8] = (uint8_t)(zeros[row % 8] | scale.zero << (row / 8 * 4));
    else
        zeros[row] = scale.zero;
}

void pn_integer_pack(pn_panel_kind kind, pn_panel_shape shape, const uint8_t *codes,
                     const pn_integer_scale *scales, size_t n_row, uint8_t *panel) {
    const pn_panel_format f = pn_panel_formats[kind];
    const size_t n_group = shape.n_col / shape.group;
    for (size_t c = 0; c < shape.n_col; c += PN_STEP)
        panel = pn_panel_put_step(f, codes + c, shape.n_col, n_row, panel);
    memset(panel, 0, n_group * pn_panel_group_bytes(f));
    for (size_t g = 0; g < n_group; g++, panel += pn_panel_group_bytes(f))
        for (size_t r = 0; r < n_row; r++)
            put_scale(f, scales[r * n_group + g], r, panel);
}
