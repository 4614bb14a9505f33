/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/tile.h"

/* The factors of one token that go with the groups of a chunk. */
PN_AVX2_INLINE void load_factors(const pn_inputs *inputs, size_t token, size_t step, size_t n_step, int group,
                                 int zero, float *scale, float *sum, int32_t *bias) {
    const size_t at = token * inputs->n_step + step;
    memcpy(scale, inputs->scale + at, n_step * sizeof *scale);
    if (group == PN_STEP) {
        memcpy(sum, inputs->sum + at, n_step * sizeof *sum);
        for (size_t i = 0; i < n_step; i++)
            bias[i] = (inputs->bias[at + i] >> 7) * zero;
        return;
    }
    for (size_t i = 0; i < 2 * n_step; i++) {
        const int32_t minus_sum = inputs->half[2 * at + i] >> 7;
        sum[i] = scale[i / 2] * (float)-minus_sum;
        bias[i] = minus_sum * zero;
    }
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
    for (size_t step = 0; step < w->n_step; step += PN_CHUNK) {
        pn_chunk c = {.scale = w->scale + step * groups,
                      .offset = w->offset ? w->offset + step * groups : NULL};
        c.n_step = w->n_step - step < PN_CHUNK ? w->n_step - step : PN_CHUNK;
        tiles->load_codes(w, step, c.n_step, c.codes);
        for (size_t t = 0; t < n_tok; t += PN_TILE) {
            const size_t n = n_tok - t < PN_TILE ? n_tok - t : PN_TILE;
            pn_tile_inputs x;
            float acc[PN_TILE][PN_PANEL_ROWS] = {{0}};
            for (size_t i = 0; i < n; i++) {
                tiles->load_inputs(inputs, first + t + i, step, c.n_step, x.codes[i]);
                if (c.n_step == PN_CHUNK) /* loops of constant length */
                    load_factors(inputs, first + t + i, step, PN_CHUNK, w->group, tiles->zero, x.scale[i],
                                 x.sum[i], x.bias[i]);
                else
                    load_factors(inputs, first + t + i, step, c.n_step, w->group, tiles->zero, x.scale[i],
                                 x.sum[i], x.bias[i]);
                if (step > 0) copy_rows(acc[i], out + (t + i) * out_stride, n_row);
            }
            tiles->of[n - 1](&c, &x, acc);
            for (size_t i = 0; i < n; i++)
                copy_rows(out + (t + i) * out_stride, acc[i], n_row);
        }
    }
}
