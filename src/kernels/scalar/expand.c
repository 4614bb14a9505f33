/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/scalar/coded.h"

static inline void expand(pn_panel_format f, const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {
    size_t steps = pn_panel_unit_columns(f) / PN_STEP;
    size_t scales = pn_panel_unit_columns(f) / f.group * PN_PANEL_ROWS;
    for (size_t u = 0; u < shape.n_col / pn_panel_unit_columns(f); u++) {
        const uint8_t *unit = panel + u * pn_panel_unit_bytes(f);
        for (size_t s = 0; s < steps; s++)
            pn_unpack_step_scalar(f, unit + s * pn_panel_step_bytes(f),
                                  w->codes + (u * steps + s) * PN_STEP_CODES);
        pn_unpack_scales_scalar(f, panel + pn_panel_scales_at(f, shape, u), w->scale + u * scales,
                                f.min ? w->offset + u * scales : NULL);
    }
    w->n_step = shape.n_col / PN_STEP;
    w->group = f.group;
    w->least = f.codebook ? 127 : f.zero;
    w->bits = f.codebook ? 8 : f.bits;
    if (!f.min) w->offset = NULL;
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_expand_##name##_scalar(const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {                \
        expand((const pn_panel_format){__VA_ARGS__}, panel, shape, w);                                       \
    }
#include "quant/panels.inc"
#undef PN_PANEL

void pn_codes_to_f32_scalar(const pn_codes *w, size_t step, size_t n_step, float *out) {
    for (size_t c = step * PN_STEP; c < (step + n_step) * PN_STEP; c++, out += PN_PANEL_ROWS) {
        const int8_t *codes = w->codes + c / 4 * 64 + c % 4;
        size_t at = c / (size_t)w->group * PN_PANEL_ROWS;
        for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
            float value = w->scale[at + r] * (float)codes[4 * r];
            out[r] = w->offset ? value + w->offset[at + r] : value;
        }
    }
}

void pn_f16_to_f32_scalar(const uint16_t *x, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = pn_f16_to_f32(x[i]);
}

void pn_bf16_to_f32_scalar(const uint16_t *x, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = pn_bf16_to_f32(x[i]);
}
