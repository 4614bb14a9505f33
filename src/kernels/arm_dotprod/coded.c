/* SPDX-License-Identifier: Apache-2.0 */
/* SDOT multiplies 4 rows x 4 columns of codes with four integers, which are one lane of a register. */
#include "kernels/arm_neon/coded.h"

PN_NEON_INLINE void dot(const int8x16_t *codes, size_t n, size_t run, const int8_t *x, size_t x_stride,
                        size_t n_tok, int32x4_t *sum) {
    (void)run;
    for (size_t v = 0; v < n; v += 4) {
        int8x16_t columns[PN_DOT_TOKENS];
        for (size_t t = 0; t < n_tok; t++)
            columns[t] = vld1q_s8(x + t * x_stride + 4 * v);
        for (size_t t = 0; t < n_tok; t++)
            sum[t] = vdotq_laneq_s32(sum[t], codes[v], columns[t], 0);
        for (size_t t = 0; t < n_tok; t++)
            sum[t] = vdotq_laneq_s32(sum[t], codes[v + 1], columns[t], 1);
        for (size_t t = 0; t < n_tok; t++)
            sum[t] = vdotq_laneq_s32(sum[t], codes[v + 2], columns[t], 2);
        for (size_t t = 0; t < n_tok; t++)
            sum[t] = vdotq_laneq_s32(sum[t], codes[v + 3], columns[t], 3);
    }
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_few_##name##_dotprod(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,         \
                                 const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {          \
        pn_few_codes(dot, (pn_panel_format){__VA_ARGS__}, panels, n_panel, shape, inputs, first, n_tok,      \
                     out);                                                                                   \
    }
#include "quant/panels.inc"
#undef PN_PANEL

void pn_matmul_codes_dotprod(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                             size_t n_tok, float *out, size_t out_stride) {
    if (w->group == 16)
        pn_matmul_tiles(dot, PN_DOT_TOKENS, 16, 1, w, n_row, inputs, first, n_tok, out, out_stride);
    else
        pn_matmul_tiles(dot, PN_DOT_TOKENS, 32, 1, w, n_row, inputs, first, n_tok, out, out_stride);
}
