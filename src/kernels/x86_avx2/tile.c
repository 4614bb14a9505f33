/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/tile.h"

/* The factors of one token that go with the groups of a chunk. */
PN_AVX2_INLINE void load_factors(const pn_inputs *inputs, size_t at, size_t n_step, size_t group,
                                 bool offsets, int zero, float *scale, float *sum, int32_t *bias) {
    const size_t n = PN_STEP / group * n_step;
    const int32_t *biases =
        group == PN_STEP ? inputs->bias + at : inputs->half + 2 * at; /* -128 times sums */
    memcpy(scale, inputs->scale + at, n_step * sizeof *scale);
    for (size_t i = 0; i < n; i++)
        bias[i] = (biases[i] >> 7) * zero;
    if (!offsets) return;
    if (group == PN_STEP)
        memcpy(sum, inputs->sum + at, n_step * sizeof *sum);
    else
        for (size_t i = 0; i < n; i++)
            sum[i] = scale[i / 2] * (float)-(biases[i] >> 7);
}

/* The same with loops of constant length where that is possible. */
static void load_token(const pn_inputs *inputs, size_t at, size_t n_step, size_t group, bool offsets,
                       int zero, pn_tile_inputs *x, size_t t) {
    if (n_step == PN_CHUNK && group == PN_STEP)
        load_factors(inputs, at, PN_CHUNK, PN_STEP, offsets, zero, x->scale[t], x->sum[t], x->bias[t]);
    else if (n_step == PN_CHUNK)
        load_factors(inputs, at, PN_CHUNK, PN_STEP / 2, offsets, zero, x->scale[t], x->sum[t], x->bias[t]);
    else
        load_factors(inputs, at, n_step, group, offsets, zero, x->scale[t], x->sum[t], x->bias[t]);
}

PN_AVX2_INLINE void copy_rows(float *dst, const float *src, size_t n_row) {
    if (n_row == PN_PANEL_ROWS)
        memcpy(dst, src, PN_PANEL_ROWS * sizeof *dst);
    else
        memcpy(dst, src, n_row * sizeof *dst);
}

void pn_matmul_tiles_avx2(const pn_tiles *tiles, const pn_codes *w, size_t n_row, const pn_inputs *inputs,
                          size_t first, size_t n_tok, float *out, size_t out_stride) {
    const size_t groups = (size_t)(PN_STEP / w->group) * PN_PANEL_ROWS; /* scales of a step */
    pn_tile_inputs x = {.plane_stride = inputs->n_step * PN_STEP};
    x.token_stride = x.plane_stride * (size_t)inputs->n_plane;
    for (size_t step = 0; step < w->n_step; step += PN_CHUNK) {
        pn_chunk c = {.scale = w->scale + step * groups,
                      .offset = w->offset ? w->offset + step * groups : NULL};
        c.n_step = w->n_step - step < PN_CHUNK ? w->n_step - step : PN_CHUNK;
        tiles->load_codes(w, step, c.n_step, c.codes);
        for (size_t t = 0; t < n_tok; t += tiles->n_tok) {
            const size_t n = n_tok - t < tiles->n_tok ? n_tok - t : tiles->n_tok;
            float acc[PN_TILE][PN_PANEL_ROWS] = {{0}};
            x.codes = inputs->codes + (first + t) * x.token_stride + step * PN_STEP;
            for (size_t i = 0; i < n; i++) {
                load_token(inputs, (first + t + i) * inputs->n_step + step, c.n_step, (size_t)w->group,
                           w->offset, tiles->zero, &x, i);
                if (step > 0) copy_rows(acc[i], out + (t + i) * out_stride, n_row);
            }
            tiles->of[n - 1](&c, &x, acc);
            for (size_t i = 0; i < n; i++)
                copy_rows(out + (t + i) * out_stride, acc[i], n_row);
        }
    }
}
