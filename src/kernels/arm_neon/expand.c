/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/unpack.h"
#include "quant/split.h"

PN_NEON_INLINE void store_rows(pn_panel_format f, const pn_four_rows *rows, size_t step, size_t i,
                               pn_codes *w) {
    const size_t groups = PN_STEP / f.group;
    const int8x16_t zero = vdupq_n_s8((int8_t)(f.zero - pn_subtracted(f)));
    for (size_t v = 0; v < 8; v++)
        vst1q_s8(w->codes + step * PN_STEP_CODES + 64 * v + 16 * i, vsubq_s8(rows->codes[v], zero));
    for (size_t g = 0; g < groups; g++) {
        size_t at = (step * groups + g) * PN_PANEL_ROWS + 4 * i;
        vst1q_f32(w->scale + at, rows->scale[g]);
        if (f.min) vst1q_f32(w->offset + at, rows->offset[g]);
    }
}

PN_NEON_INLINE void expand(pn_panel_format f, const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {
    const size_t unit_steps = pn_panel_unit_columns(f) / PN_STEP;
    for (size_t step = 0; step < shape.n_col / PN_STEP; step++) {
        const uint8_t *unit = panel + step / unit_steps * pn_panel_unit_bytes(f);
        const uint8_t *scales = panel + pn_panel_scales_at(f, shape, step / unit_steps);
        for (size_t i = 0; i < 4; i++) {
            pn_four_rows rows;
            pn_unpack_rows(f, unit, scales, step % unit_steps, i, &rows);
            store_rows(f, &rows, step, i, w);
        }
    }
    w->n_step = shape.n_col / PN_STEP;
    w->group = f.group;
    w->least = f.codebook ? 127 : f.zero;
    w->bits = f.codebook ? 8 : f.bits;
    if (!f.min) w->offset = NULL;
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_expand_##name##_neon(const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {                  \
        expand((const pn_panel_format){__VA_ARGS__}, panel, shape, w);                                       \
    }
#include "quant/panels.inc"
#undef PN_PANEL

/* Four rows of one column: its byte of each word, which stands highest in `words`. */
PN_NEON_INLINE void store_column(int32x4_t words, float32x4_t scale, const float *offset, float *out) {
    float32x4_t value = vmulq_f32(scale, vcvtq_f32_s32(vshrq_n_s32(words, 24)));
    vst1q_f32(out, offset ? vaddq_f32(value, vld1q_f32(offset)) : value);
}

void pn_codes_to_f32_neon(const pn_codes *w, size_t step, size_t n_step, float *out) {
    for (size_t v = step * 8; v < (step + n_step) * 8; v++, out += 4 * PN_PANEL_ROWS) {
        const size_t at = v * 4 / (size_t)w->group * PN_PANEL_ROWS;
        for (size_t i = 0; i < PN_PANEL_ROWS; i += 4) {
            const int32x4_t words = vreinterpretq_s32_s8(vld1q_s8(w->codes + 64 * v + 4 * i));
            const float32x4_t scale = vld1q_f32(w->scale + at + i);
            const float *offset = w->offset ? w->offset + at + i : NULL;
            store_column(vshlq_n_s32(words, 24), scale, offset, out + i);
            store_column(vshlq_n_s32(words, 16), scale, offset, out + PN_PANEL_ROWS + i);
            store_column(vshlq_n_s32(words, 8), scale, offset, out + 2 * PN_PANEL_ROWS + i);
            store_column(words, scale, offset, out + 3 * PN_PANEL_ROWS + i);
        }
    }
}

void pn_join_split_neon(const uint8_t *high, const uint8_t *low, size_t n_step, size_t scale_bytes,
                        uint8_t *panel) {
    const size_t half = PN_SPLIT_CODES; /* of the codes, which scales may follow */
    for (size_t s = 0; s < n_step; s++) {
        for (size_t b = 0; b < half; b += 16) {
            uint8x16_t h = vld1q_u8(high + b), l = vld1q_u8(low + b);
            vst1q_u8(panel + b, vsliq_n_u8(l, h, 4));
            vst1q_u8(panel + half + b, vsriq_n_u8(h, l, 4));
        }
        memcpy(panel + 2 * half, high + half, scale_bytes);
        high += half + 2 * scale_bytes;
        low += PN_SPLIT_CODES;
        panel += 2 * half + scale_bytes;
    }
}
