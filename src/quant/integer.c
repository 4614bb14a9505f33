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
    if (f.min) return (fmaxf(greatest, 0) - fminf(least, 0)) / (levels(f) - 1);
    return (fabsf(least) >= greatest ? fabsf(least) : -greatest) / (levels(f) / 2);
}

pn_integer_range pn_integer_find_scale(pn_panel_kind kind, const float *weights, size_t n,
                                       pn_integer_scale *out) {
    const pn_panel_format f = pn_panel_formats[kind];
    float least = weights[0], greatest = weights[0], nothing = 0;
    for (size_t i = 0; i < n; i++) { /* without calls, since this goes over every weight of a model */
        const float w = weights[i];
        nothing += w - w;
        least = w < least ? w : least;
        greatest = w > greatest ? w : greatest;
    }
    if (nothing != 0) return PN_INTEGER_RANGE_NOT_FINITE; /* an infinity or a NaN less itself is a NaN */
    float exact = scale_of_range(f, least, greatest);
    const uint16_t half = pn_f32_to_f16(fabsf(exact) < LEAST_SCALE ? LEAST_SCALE : exact);
    const float d = pn_f16_to_f32(half);
    if (isinf(d)) return PN_INTEGER_RANGE_TOO_LARGE;
    const float zero = f.min ? fminf(rintf(-fminf(least, 0) / d), levels(f) - 1) : 0;
    *out = (pn_integer_scale){half, (uint8_t)zero};
    return PN_INTEGER_RANGE_OK;
}

void pn_integer_round(pn_panel_kind kind, pn_integer_scale scale, const float *weights, size_t n,
                      uint8_t *codes) {
    const pn_panel_format f = pn_panel_formats[kind];
    const float d = pn_f16_to_f32(scale.d);
    const float inside = f.min ? (float)scale.zero : 0,
                outside = f.min ? 0 : (float)f.zero; /* the rounding */
    const float first = -outside, last = levels(f) - 1 - outside,
                shift = 0x1.8p23f; /* rounds, halves to even */
    for (size_t i = 0; i < n; i++) {
        float code = weights[i] / d + inside;
        code = code > first ? code : first;
        code = code < last ? code : last;
        codes[i] = (uint8_t)((code + shift) - shift + outside);
    }
}

/* Into a group whose bytes are 0. */
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
