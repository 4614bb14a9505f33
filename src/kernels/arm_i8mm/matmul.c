/* SPDX-License-Identifier: Apache-2.0 */
/* SMMLA multiplies 2 tokens x 8 columns with 8 columns x 2 rows, twice the products of SDOT. For that two
   vectors of 4 columns are interleaved; a block of steps is, once for all tokens. */
#include "kernels/arm_neon/coded.h"

enum { TOKENS = 4, BLOCK = 8 /* steps: 4 KiB */, CHUNKS = PN_STEP / 8 };

/* One plane of a step, for each two tokens: [chunk] 8 columns of the one and 8 of the other. */
typedef struct packed_plane {
    int8x16_t x[TOKENS / 2][CHUNKS];
} packed_plane;

/* One step of codes as [four rows][chunk][2], each 2 rows x 8 columns. */
PN_NEON_INLINE void pack_step(const int8_t *codes, int8_t *out) {
    for (size_t i = 0; i < 4; i++) {
        for (size_t c = 0; c < CHUNKS; c++, out += 32) {
            int32x4_t left = vreinterpretq_s32_s8(vld1q_s8(codes + 128 * c + 16 * i));
            int32x4_t right = vreinterpretq_s32_s8(vld1q_s8(codes + 128 * c + 64 + 16 * i));
            vst1q_s8(out, vreinterpretq_s8_s32(vzip1q_s32(left, right)));
            vst1q_s8(out + 16, vreinterpretq_s8_s32(vzip2q_s32(left, right)));
        }
    }
}

PN_NEON_INLINE void pack_plane(const int8_t *const x[TOKENS], size_t offset, packed_plane *out) {
    for (size_t t = 0; t < TOKENS; t += 2) {
        for (size_t h = 0; h < 2; h++) {
            int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x[t] + offset + 16 * h));
            int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x[t + 1] + offset + 16 * h));
            out->x[t / 2][2 * h] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
            out->x[t / 2][2 * h + 1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
        }
    }
}

/* Adds n chunks (a constant) to sums of 2 tokens x 2 rows: [two tokens][two rows]. */
PN_NEON_INLINE void multiply(const int8_t *codes, const packed_plane *plane, size_t chunk, size_t n,
                             int32x4_t sum[TOKENS / 2][2]) {
    for (size_t c = chunk; c < chunk + n; c++) {
        int8x16_t upper = vld1q_s8(codes + 32 * c), lower = vld1q_s8(codes + 32 * c + 16);
        for (size_t p = 0; p < TOKENS / 2; p++) {
            sum[p][0] = vmmlaq_s32(sum[p][0], plane->x[p][c], upper);
            sum[p][1] = vmmlaq_s32(sum[p][1], plane->x[p][c], lower);
        }
    }
}

/* Adds a group g of four rows to acc [TOKENS][16]; at[t] is the token's step. group is a constant. */
PN_NEON_INLINE void add_rows(const pn_inputs *inputs, size_t group, const size_t at[TOKENS], size_t g,
                             const int8_t *codes, const packed_plane planes[2], float32x4_t scale,
                             const float32x4_t *offset, float *acc) {
    int32x4_t sum[TOKENS / 2][2];
    for (size_t p = 0; p < TOKENS / 2; p++)
        sum[p][0] = sum[p][1] = vdupq_n_s32(0);
    if (inputs->n_plane == 2) {
        multiply(codes, &planes[1], g * (group / 8), group / 8, sum);
        for (size_t p = 0; p < TOKENS / 2; p++) {
            sum[p][0] = vshlq_n_s32(sum[p][0], 8);
            sum[p][1] = vshlq_n_s32(sum[p][1], 8);
        }
    }
    multiply(codes, &planes[0], g * (group / 8), group / 8, sum);
    for (size_t t = 0; t < TOKENS; t += 2, acc += 2 * PN_PANEL_ROWS) {
        int64x2_t upper = vreinterpretq_s64_s32(sum[t / 2][0]), lower = vreinterpretq_s64_s32(sum[t / 2][1]);
        int32x4_t one = vreinterpretq_s32_s64(vzip1q_s64(upper, lower));
        int32x4_t two = vreinterpretq_s32_s64(vzip2q_s64(upper, lower));
        vst1q_f32(acc, pn_add_group(inputs, group, at[t], g, one, scale, offset, vld1q_f32(acc)));
        float *next = acc + PN_PANEL_ROWS;
        vst1q_f32(next, pn_add_group(inputs, group, at[t + 1], g, two, scale, offset, vld1q_f32(next)));
    }
}

/* Steps first_step .. first_step + n_step of TOKENS tokens; codes as pack_step left them. */
PN_NEON_INLINE void add_steps(const pn_codes *w, size_t group, const int8_t *codes, size_t first_step,
                              size_t n_step, const pn_inputs *inputs, const size_t tokens[TOKENS],
                              float *acc) {
    const size_t plane = inputs->n_step * PN_STEP, groups = PN_STEP / group;
    for (size_t s = first_step; s < first_step + n_step; s++, codes += PN_STEP_CODES) {
        const int8_t *x[TOKENS];
        size_t at[TOKENS];
        packed_plane planes[2];
        for (size_t t = 0; t < TOKENS; t++) {
            x[t] = inputs->codes + tokens[t] * (size_t)inputs->n_plane * plane + s * PN_STEP;
            at[t] = tokens[t] * inputs->n_step + s;
        }
        pack_plane(x, 0, &planes[0]);
        if (inputs->n_plane == 2) pack_plane(x, plane, &planes[1]);
        for (size_t i = 0; i < 4; i++) {
            for (size_t g = 0; g < groups; g++) {
                size_t scales = (s * groups + g) * PN_PANEL_ROWS + 4 * i;
                float32x4_t scale = vld1q_f32(w->scale + scales), offset = vdupq_n_f32(0);
                if (w->offset) offset = vld1q_f32(w->offset + scales);
                add_rows(inputs, group, at, g, codes + PN_STEP_CODES / 4 * i, planes, scale,
                         w->offset ? &offset : NULL, acc + 4 * i);
            }
        }
    }
}

/* The same with what the steps before have left in out, and for n_tok <= TOKENS of them. */
PN_NEON_INLINE void add_block(const pn_codes *w, size_t group, const int8_t *codes, size_t first_step,
                              size_t n_step, size_t n_row, const pn_inputs *inputs, size_t first,
                              size_t n_tok, float *out, size_t out_stride) {
    float acc[TOKENS * PN_PANEL_ROWS] = {0};
    size_t tokens[TOKENS];
    for (size_t t = 0; t < TOKENS; t++)
        tokens[t] = first + (t < n_tok ? t : n_tok - 1); /* the last one fills up */
    for (size_t t = 0; first_step > 0 && t < n_tok; t++)
        memcpy(acc + t * PN_PANEL_ROWS, out + t * out_stride, n_row * sizeof *acc);
    add_steps(w, group, codes, first_step, n_step, inputs, tokens, acc);
    for (size_t t = 0; t < n_tok; t++)
        memcpy(out + t * out_stride, acc + t * PN_PANEL_ROWS, n_row * sizeof *acc);
}

/* group is a constant. */
PN_NEON_INLINE void matmul_codes(const pn_codes *w, size_t group, size_t n_row, const pn_inputs *inputs,
                                 size_t first, size_t n_tok, float *out, size_t out_stride) {
    const pn_inputs x = *inputs; /* which the results, for all the compiler knows, could overwrite */
    int8_t codes[BLOCK * PN_STEP_CODES];
    size_t s = 0;
    do {
        size_t n_step = w->n_step - s < BLOCK ? w->n_step - s : BLOCK;
        for (size_t i = 0; i < n_step; i++)
            pack_step(w->codes + (s + i) * PN_STEP_CODES, codes + i * PN_STEP_CODES);
        for (size_t t = 0; t < n_tok; t += TOKENS)
            add_block(w, group, codes, s, n_step, n_row, &x, first + t,
                      n_tok - t < TOKENS ? n_tok - t : TOKENS, out + t * out_stride, out_stride);
        s += BLOCK;
    } while (s < w->n_step);
}

void pn_matmul_codes_i8mm(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                          size_t n_tok, float *out, size_t out_stride) {
    if (w->group == 16)
        matmul_codes(w, 16, n_row, inputs, first, n_tok, out, out_stride);
    else
        matmul_codes(w, 32, n_row, inputs, first, n_tok, out, out_stride);
}
