/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights, four rows of a step at a time: rows 4 i to 4 i + 3 are bytes 16 i to 16 i + 15 of each of
   the step's vectors, so a register holds 4 rows x 4 columns and eight of them the 32 columns. */
#ifndef PN_KERNELS_NEON_UNPACK_H
#define PN_KERNELS_NEON_UNPACK_H

#include "kernels/arm_neon/neon.h"
#include "quant/blocks.h"

#define PN_STEP_CODES (PN_STEP * PN_PANEL_ROWS)

typedef struct pn_four_rows {
    int8x16_t codes[8];
    float32x4_t scale[2], offset[2]; /* of each group of the step; offset only where the format has it */
} pn_four_rows;

/* What unpacking has subtracted from a code: where the highest plane is merged in by its sign, half of the
   codes' range. */
PN_NEON_INLINE int pn_subtracted(pn_panel_format f) {
    return f.bits == 8 || f.bits == 6 || f.bits == 5 || f.bits == 3 ? 1 << (f.bits - 1) : 0;
}

/* All ones in bytes whose code lacks its highest bit: bit b of little-endian word v is byte b of vector v. */
PN_NEON_INLINE void pn_unpack_missing_bits(const uint8_t *words, size_t i, int8x16_t missing[8]) {
    static const uint8_t byte_of[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t bit_of[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t even = vaddq_u8(vld1q_u8(byte_of), vdupq_n_u8((uint8_t)(2 * i)));
    const uint8x16_t odd = vaddq_u8(even, vdupq_n_u8(8)), bit = vld1q_u8(bit_of);
    for (size_t v = 0; v < 8; v += 2) {
        uint8x16_t two = vmvnq_u8(vld1q_u8(words + 8 * v));
        missing[v] = vreinterpretq_s8_u8(vtstq_u8(vqtbl1q_u8(two, even), bit));
        missing[v + 1] = vreinterpretq_s8_u8(vtstq_u8(vqtbl1q_u8(two, odd), bit));
    }
}

/* Bits 2 f of vector h of `pairs` are the highest ones of vector 4 h + f: sets bits 4 and 5, and 6 and 7 to
   the sign, of the code less 32. The low four bits are anything. */
PN_NEON_INLINE void pn_unpack_high_pairs(const uint8_t *pairs, size_t i, int8x16_t high[8]) {
    for (size_t h = 0; h < 2; h++) {
        uint8x16_t p = veorq_u8(vld1q_u8(pairs + 64 * h + 16 * i), vdupq_n_u8(0xaa));
        high[4 * h] = vshrq_n_s8(vreinterpretq_s8_u8(vshlq_n_u8(p, 6)), 2);
        high[4 * h + 1] = vshrq_n_s8(vreinterpretq_s8_u8(vshlq_n_u8(p, 4)), 2);
        high[4 * h + 2] = vshrq_n_s8(vreinterpretq_s8_u8(vshlq_n_u8(p, 2)), 2);
        high[4 * h + 3] = vshrq_n_s8(vreinterpretq_s8_u8(p), 2);
    }
}

/* Codes of two bits, below those of `high` unless that is NULL. */
PN_NEON_INLINE void pn_unpack_pairs(const uint8_t *pairs, size_t i, const int8x16_t *high,
                                    int8x16_t codes[8]) {
    const uint8x16_t low = vdupq_n_u8(3);
    for (size_t h = 0; h < 2; h++) {
        uint8x16_t p = vld1q_u8(pairs + 64 * h + 16 * i);
        uint8x16_t shifted[4] = {p, vshrq_n_u8(p, 2), vshrq_n_u8(p, 4), vshrq_n_u8(p, 6)};
        for (size_t f = 0; f < 4; f++) {
            uint8x16_t above = high ? vreinterpretq_u8_s8(high[4 * h + f]) : vdupq_n_u8(0);
            codes[4 * h + f] = vreinterpretq_s8_u8(vbslq_u8(low, shifted[f], above));
        }
    }
}

/* The same with codes of four bits. */
PN_NEON_INLINE void pn_unpack_nibbles(const uint8_t *nibbles, size_t i, const int8x16_t *high,
                                      int8x16_t codes[8]) {
    const uint8x16_t low = vdupq_n_u8(15);
    for (size_t j = 0; j < 4; j++) {
        int8x16_t q = vreinterpretq_s8_u8(vld1q_u8(nibbles + 64 * j + 16 * i));
        codes[j] = high ? vbslq_s8(low, q, high[j]) : vandq_s8(q, vreinterpretq_s8_u8(low));
        codes[j + 4] =
            high ? vsriq_n_s8(high[j + 4], q, 4) : vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(q), 4));
    }
}

PN_NEON_INLINE void pn_look_up(int8x16_t codes[8]) {
    const int8x16_t values = vld1q_s8(pn_iq4_values);
    for (size_t v = 0; v < 8; v++)
        codes[v] = vqtbl1q_s8(values, vreinterpretq_u8_s8(codes[v]));
}

/* The codes less pn_subtracted, or the codebook's values. f is a constant. */
PN_NEON_INLINE void pn_unpack_codes(pn_panel_format f, const uint8_t *step, size_t i, int8x16_t codes[8]) {
    int8x16_t high[8];
    if (f.bits == 8)
        for (size_t v = 0; v < 8; v++)
            codes[v] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(step + 64 * v + 16 * i), vdupq_n_u8(0x80)));
    if (f.bits == 3) pn_unpack_missing_bits(step + 128, i, high);
    if (f.bits == 5) pn_unpack_missing_bits(step + 256, i, high);
    if (f.bits == 6) pn_unpack_high_pairs(step + 256, i, high);
    if (f.bits == 2 || f.bits == 3) pn_unpack_pairs(step, i, f.bits == 3 ? high : NULL, codes);
    if (f.bits >= 4 && f.bits <= 6) pn_unpack_nibbles(step, i, f.bits > 4 ? high : NULL, codes);
    if (f.codebook) pn_look_up(codes);
}

/* Four small integers as floats. */
PN_NEON_INLINE float32x4_t pn_load_small(const uint8_t *x) {
    uint32_t four;
    memcpy(&four, x, sizeof four);
    int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

/* zero' - zero of rows 4 i .. 4 i + 3, where zero' are those at x. */
PN_NEON_INLINE float32x4_t pn_load_zeros(pn_panel_format f, const uint8_t *x, size_t i) {
    uint32_t four;
    memcpy(&four, f.bits == 4 ? x + 4 * (i % 2) : x + 4 * i, sizeof four);
    if (f.bits == 4) four = four >> (i / 2 * 4) & 0x0f0f0f0f;
    uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    int32x4_t zeros = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
    return vcvtq_f32_s32(vsubq_s32(zeros, vdupq_n_s32(f.zero)));
}

/* Rows 4 i .. 4 i + 3 of step s of a unit, whose scales begin at d. f is a constant. */
PN_NEON_INLINE void pn_unpack_rows(pn_panel_format f, const uint8_t *unit, const uint8_t *d, size_t s,
                                   size_t i, pn_four_rows *rows) {
    const uint8_t *m = d + 2 * PN_PANEL_ROWS;
    const size_t groups = PN_STEP / f.group, n_small = (size_t)PN_SUPER / f.group * PN_PANEL_ROWS;
    pn_unpack_codes(f, unit + s * pn_panel_step_bytes(f), i, rows->codes);
    for (size_t g = 0; g < groups; g++) {
        const uint8_t *small = (f.min ? m + 2 * PN_PANEL_ROWS : m) + (s * groups + g) * PN_PANEL_ROWS + 4 * i;
        rows->scale[g] = pn_load_half(d + 8 * i);
        if (f.super) rows->scale[g] = vmulq_f32(rows->scale[g], pn_load_small(small));
        if (!f.min) continue;
        if (f.apart) {
            rows->offset[g] = vnegq_f32(vmulq_f32(rows->scale[g], pn_load_zeros(f, m, i)));
            continue;
        }
        rows->offset[g] = pn_load_half(m + 8 * i);
        if (f.super) rows->offset[g] = vnegq_f32(vmulq_f32(rows->offset[g], pn_load_small(small + n_small)));
    }
}

#endif
