/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/scalar/coded.h"

void pn_matmul_f32_scalar(const float *w, size_t n_row, const float *x, size_t x_stride, size_t n_tok,
                          size_t k, float *out, size_t out_stride) {
    for (size_t t = 0; t < n_tok; t++) {
        float acc[PN_PANEL_ROWS] = {0};
        memcpy(acc, out + t * out_stride, n_row * sizeof *acc);
        for (size_t c = 0; c < k; c++)
            for (size_t r = 0; r < PN_PANEL_ROWS; r++)
                acc[r] += w[c * PN_PANEL_ROWS + r] * x[t * x_stride + c];
        memcpy(out + t * out_stride, acc, n_row * sizeof *acc);
    }
}

void pn_matmul_codes_scalar(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                            size_t n_tok, float *out, size_t out_stride) {
    size_t groups = (size_t)(PN_STEP / w->group) * PN_PANEL_ROWS; /* scales of a step */
    for (size_t t = 0; t < n_tok; t++) {
        float acc[PN_PANEL_ROWS] = {0};
        for (size_t s = 0; s < w->n_step; s++)
            pn_add_step_scalar(w->codes + s * PN_STEP_CODES, w->group, w->scale + s * groups,
                               w->offset ? w->offset + s * groups : NULL, inputs, first + t, s, acc);
        memcpy(out + t * out_stride, acc, n_row * sizeof *acc);
    }
}

static inline void few(pn_panel_format f, const uint8_t *panel, pn_panel_shape shape, const pn_inputs *inputs,
                       size_t first, size_t n_tok, float *out) {
    size_t unit_steps = pn_panel_unit_columns(f) / PN_STEP,
           groups = (size_t)(PN_STEP / f.group) * PN_PANEL_ROWS;
    memset(out, 0, n_tok * PN_PANEL_ROWS * sizeof *out);
    for (size_t s = 0; s < shape.n_col / PN_STEP; s++) {
        int8_t codes[PN_STEP_CODES];
        float scale[PN_GROUPS_MAX * PN_PANEL_ROWS], offset[PN_GROUPS_MAX * PN_PANEL_ROWS];
        const uint8_t *unit = panel + s / unit_steps * pn_panel_unit_bytes(f);
        size_t in_unit = s % unit_steps;
        pn_unpack_step_scalar(f, unit + in_unit * pn_panel_step_bytes(f), codes);
        pn_unpack_scales_scalar(f, panel + pn_panel_scales_at(f, shape, s / unit_steps), scale, offset);
        for (size_t t = 0; t < n_tok; t++)
            pn_add_step_scalar(codes, f.group, scale + in_unit * groups,
                               f.min ? offset + in_unit * groups : NULL, inputs, first + t, s,
                               out + t * PN_PANEL_ROWS);
    }
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_few_##name##_scalar(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,          \
                                const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {           \
        const pn_panel_format f = {__VA_ARGS__};                                                             \
        for (size_t p = 0; p < n_panel; p++)                                                                 \
            few(f, panels[p], shape, inputs, first, n_tok, out + p * n_tok * PN_PANEL_ROWS);                 \
    }
#include "quant/panels.inc"
#undef PN_PANEL
