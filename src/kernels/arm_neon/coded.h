/* SPDX-License-Identifier: Apache-2.0 */
/* `few` and matmul_codes but for how integers are multiplied: what they have in common on all ARM CPUs. */
#ifndef PN_KERNELS_NEON_CODED_H
#define PN_KERNELS_NEON_CODED_H

#include "kernels/arm_neon/unpack.h"

/* What is known of a matrix's codes. All constants, but for `min`. */
typedef struct pn_code_kind {
    size_t group; /* columns that share a scale */
    int zero;     /* still to be subtracted from every code */
    size_t run;   /* so many products of a code and an int8 fit into 16 bits when added */
    bool min;     /* there are offsets */
} pn_code_kind;

/* Adds to sum[t], for t < n_tok, the products of n registers of codes with the 4 n integers at x + t *
   x_stride: one sum per row. n, run and n_tok <= PN_DOT_TOKENS are constants. */
typedef void (*pn_dot_fn)(const int8x16_t *codes, size_t n, size_t run, const int8_t *x, size_t x_stride,
                          size_t n_tok, int32x4_t *sum);
#define PN_DOT_TOKENS 4

/* The sum of a group's integers, times -128. */
PN_NEON_INLINE int32_t pn_group_bias(const pn_inputs *x, size_t group, size_t at, size_t g) {
    return group == PN_STEP ? x->bias[at] : x->half[2 * at + g];
}

/* acc plus one group of four rows; `at` is the token's step and g its group. */
PN_NEON_INLINE float32x4_t pn_add_group(const pn_inputs *x, size_t group, size_t at, size_t g, int32x4_t sum,
                                        float32x4_t scale, const float32x4_t *offset, float32x4_t acc) {
    acc = vfmaq_f32(acc, vcvtq_f32_s32(sum), vmulq_n_f32(scale, x->scale[at]));
    if (!offset) return acc;
    float x_sum =
        group == PN_STEP ? x->sum[at] : x->scale[at] * (float)(pn_group_bias(x, group, at, g) / -128);
    return vfmaq_n_f32(acc, *offset, x_sum);
}

/* Adds one step of four rows to acc [n_tok][16], whose first column is the first row; n_tok is a constant. */
PN_NEON_INLINE void pn_add_tile(pn_dot_fn dot, pn_code_kind k, const pn_four_rows *rows, const pn_inputs *x,
                                size_t token, size_t n_tok, size_t step, float *acc) {
    const size_t plane = x->n_step * PN_STEP, stride = (size_t)x->n_plane * plane;
    const int8_t *low = x->codes + token * stride + step * PN_STEP;
    for (size_t g = 0; g < PN_STEP / k.group; g++, low += k.group) {
        const int8x16_t *codes = rows->codes + g * (k.group / 4);
        int32x4_t sum[PN_DOT_TOKENS], high[PN_DOT_TOKENS];
        for (size_t t = 0; t < n_tok; t++)
            sum[t] = high[t] = vdupq_n_s32(0);
        for (size_t t = 0; k.zero && t < n_tok; t++) {
            int32x4_t bias = vdupq_n_s32(pn_group_bias(x, k.group, (token + t) * x->n_step + step, g));
            sum[t] = vmulq_n_s32(vshrq_n_s32(bias, 7), k.zero);
        }
        dot(codes, k.group / 4, k.run, low, stride, n_tok, sum);
        if (x->n_plane == 2) {
            dot(codes, k.group / 4, k.run, low + plane, stride, n_tok, high);
            for (size_t t = 0; t < n_tok; t++)
                sum[t] = vmlaq_n_s32(sum[t], high[t], 256);
        }
        for (size_t t = 0; t < n_tok; t++) {
            float *out = acc + t * PN_PANEL_ROWS;
            vst1q_f32(out, pn_add_group(x, k.group, (token + t) * x->n_step + step, g, sum[t], rows->scale[g],
                                        k.min ? &rows->offset[g] : NULL, vld1q_f32(out)));
        }
    }
}

/* The same for any number of tokens; `tile` <= PN_DOT_TOKENS of them at once, a constant. */
PN_NEON_INLINE void pn_add_rows(pn_dot_fn dot, size_t tile, pn_code_kind k, const pn_four_rows *rows,
                                const pn_inputs *x, size_t token, size_t n_tok, size_t step, float *acc) {
    size_t t = 0;
    for (; t + tile <= n_tok; t += tile)
        pn_add_tile(dot, k, rows, x, token + t, tile, step, acc + t * PN_PANEL_ROWS);
    for (; tile > 1 && t < n_tok; t++)
        pn_add_tile(dot, k, rows, x, token + t, 1, step, acc + t * PN_PANEL_ROWS);
}

/* Products of int8 with a code of this format, as unpacked, that 16 bits hold. */
PN_NEON_INLINE size_t pn_products_in_16_bits(pn_panel_format f) {
    return f.codebook ? 2 : f.bits == 8 ? 1 : f.bits == 6 ? 4 : 8;
}

/* pn_few_fn; dot and f are constants. */
PN_NEON_INLINE void pn_few_codes(pn_dot_fn dot, pn_panel_format f, const uint8_t *const *panels,
                                 size_t n_panel, pn_panel_shape shape, const pn_inputs *inputs, size_t first,
                                 size_t n_tok, float *out) {
    const pn_code_kind k = {
        .group = f.group, .zero = f.zero - pn_subtracted(f), .run = pn_products_in_16_bits(f), .min = f.min};
    const size_t unit_steps = pn_panel_unit_columns(f) / PN_STEP;
    const pn_inputs x = *inputs; /* which the results, for all the compiler knows, could overwrite */
    memset(out, 0, n_panel * n_tok * PN_PANEL_ROWS * sizeof *out);
    for (size_t step = 0; step < shape.n_col / PN_STEP; step++) {
        const size_t scales_at = pn_panel_scales_at(f, shape, step / unit_steps);
        for (size_t p = 0; p < n_panel; p++) {
            const uint8_t *unit = panels[p] + step / unit_steps * pn_panel_unit_bytes(f);
            for (size_t i = 0; i < 4; i++) {
                pn_four_rows rows;
                pn_unpack_rows(f, unit, panels[p] + scales_at, step % unit_steps, i, &rows);
                pn_add_rows(dot, 1, k, &rows, &x, first, n_tok, step,
                            out + p * n_tok * PN_PANEL_ROWS + 4 * i);
            }
        }
    }
}

/* Rows 4 i .. 4 i + 3 of a step of an unpacked panel; group is a constant. */
PN_NEON_INLINE void pn_load_rows(const pn_codes *w, size_t group, size_t step, size_t i, pn_four_rows *rows) {
    for (size_t v = 0; v < 8; v++)
        rows->codes[v] = vld1q_s8(w->codes + step * PN_STEP_CODES + 64 * v + 16 * i);
    for (size_t g = 0; g < PN_STEP / group; g++) {
        size_t at = (step * (PN_STEP / group) + g) * PN_PANEL_ROWS + 4 * i;
        rows->scale[g] = vld1q_f32(w->scale + at);
        rows->offset[g] = w->offset ? vld1q_f32(w->offset + at) : vdupq_n_f32(0);
    }
}

/* matmul_codes; dot, tile, group and run are constants. */
PN_NEON_INLINE void pn_matmul_tiles(pn_dot_fn dot, size_t tile, size_t group, size_t run, const pn_codes *w,
                                    size_t n_row, const pn_inputs *inputs, size_t first, size_t n_tok,
                                    float *out, size_t out_stride) {
    enum { TOKENS = 8 };         /* that meet four rows while these are in registers */
    const pn_inputs x = *inputs; /* as above */
    const pn_code_kind k = {.group = group, .run = run, .min = w->offset != NULL};
    for (size_t t = 0; t < n_tok; t += TOKENS) {
        float acc[TOKENS * PN_PANEL_ROWS] = {0};
        size_t n = n_tok - t < TOKENS ? n_tok - t : TOKENS;
        for (size_t step = 0; step < w->n_step; step++) {
            for (size_t i = 0; i < 4; i++) {
                pn_four_rows rows;
                pn_load_rows(w, group, step, i, &rows);
                pn_add_rows(dot, tile, k, &rows, &x, first + t, n, step, acc + 4 * i);
            }
        }
        for (size_t j = 0; j < n; j++)
            memcpy(out + (t + j) * out_stride, acc + j * PN_PANEL_ROWS, n_row * sizeof *out);
    }
}

#endif
