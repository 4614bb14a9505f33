/* SPDX-License-Identifier: Apache-2.0 */
/* For CPUs without dot products of bytes: products are added in pairs of 16 bits as long as these hold them.
 */
#include "kernels/arm_neon/coded.h"

/* The four integers of four columns, once for every row. */
PN_NEON_INLINE int8x16_t four_columns(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* Sums of products of four rows: in 16 bits, and in 32 two for each row. */
typedef struct row_sums {
    int16x8_t narrow[2];
    int32x4_t wide[2];
} row_sums;

/* Register v of n. The narrow sums begin anew every `run` registers, and go into the wide ones after them. */
PN_NEON_INLINE void add_register(int8x16_t codes, size_t v, size_t n, size_t run, const int8_t *x,
                                 row_sums *sums) {
    const int8x16_t four = four_columns(x + 4 * v);
    if (v % run == 0) {
        sums->narrow[0] = vmull_s8(vget_low_s8(codes), vget_low_s8(four));
        sums->narrow[1] = vmull_high_s8(codes, four);
    } else {
        sums->narrow[0] = vmlal_s8(sums->narrow[0], vget_low_s8(codes), vget_low_s8(four));
        sums->narrow[1] = vmlal_high_s8(sums->narrow[1], codes, four);
    }
    if ((v + 1) % run != 0 && v + 1 < n) return;
    sums->wide[0] = vpadalq_s16(sums->wide[0], sums->narrow[0]);
    sums->wide[1] = vpadalq_s16(sums->wide[1], sums->narrow[1]);
}

PN_NEON_INLINE void dot(const int8x16_t *codes, size_t n, size_t run, const int8_t *x, size_t x_stride,
                        size_t n_tok, int32x4_t *sum) {
    for (size_t t = 0; t < n_tok; t++, x += x_stride) {
        row_sums sums = {.wide = {vdupq_n_s32(0), vdupq_n_s32(0)}};
        for (size_t v = 0; v < n; v += 4) {
            add_register(codes[v], v, n, run, x, &sums);
            add_register(codes[v + 1], v + 1, n, run, x, &sums);
            add_register(codes[v + 2], v + 2, n, run, x, &sums);
            add_register(codes[v + 3], v + 3, n, run, x, &sums);
        }
        sum[t] = vaddq_s32(sum[t], vpaddq_s32(sums.wide[0], sums.wide[1]));
    }
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_few_##name##_neon(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,            \
                              const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {             \
        pn_few_codes(dot, (pn_panel_format){__VA_ARGS__}, panels, n_panel, shape, inputs, first, n_tok,      \
                     out);                                                                                   \
    }
#include "quant/panels.inc"
#undef PN_PANEL

void pn_matmul_codes_neon(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                          size_t n_tok, float *out, size_t out_stride) {
    const int above = (1 << w->bits) - 1 - w->least, greatest = above > 127 ? 127 : above;
    const int products = INT16_MAX / (128 * (w->least > greatest ? w->least : greatest));
#define TILES(group, run) pn_matmul_tiles(dot, 1, group, run, w, n_row, inputs, first, n_tok, out, out_stride)
    if (w->group == 16 && products >= 4)
        TILES(16, 4);
    else if (w->group == 16)
        TILES(16, 1);
    else if (products >= 8)
        TILES(32, 8);
    else if (products >= 2)
        TILES(32, 2);
    else
        TILES(32, 1);
#undef TILES
}
