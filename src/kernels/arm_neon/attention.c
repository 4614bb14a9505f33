/* SPDX-License-Identifier: Apache-2.0 */
/* A few queries convert the halves of keys and values as they read them; for many they are converted once,
   into a buffer in L1. */
#include "kernels/arm_neon/product.h"
#include "kernels/coded_attention.h"

enum { FEW_ROWS = 2 * PN_PRODUCT_ROWS, COLUMNS = 64, ROWS = 64 /* of the buffer: 16 KiB */ };

/* The last n < 4 columns, from c on, of one row. */
PN_NEON_INLINE void add_tail(const float *a, const pn_factor *b, size_t k, size_t c, size_t n, float *out) {
    float32x4_t s = pn_load_tail(out + c, n);
    for (size_t i = 0; i < k; i++)
        s = vfmaq_n_f32(s, pn_factor_load_tail(b, i, c, n), a[i]);
    pn_store_tail(out + c, n, s);
}

/* n_row rows (a constant) and n columns. */
PN_NEON_INLINE void add_rows(const float *a, size_t a_stride, size_t n_row, const pn_factor *b, size_t k,
                             size_t n, float *out, size_t out_stride) {
    size_t c = 0;
    for (; c + 16 <= n; c += 16)
        pn_product_strip(a, a_stride, n_row, b, k, c, 4, out, out_stride);
    for (; c + 4 <= n; c += 4)
        pn_product_strip(a, a_stride, n_row, b, k, c, 1, out, out_stride);
    for (size_t r = 0; c < n && r < n_row; r++)
        add_tail(a + r * a_stride, b, k, c, n - c, out + r * out_stride);
}

/* As few tiles as there can be, of about the same height. */
PN_NEON_INLINE void add_tiles(const float *a, size_t a_stride, size_t n_row, pn_factor b, size_t k, size_t n,
                              float *out, size_t out_stride) {
    for (size_t n_tile = (n_row + PN_PRODUCT_ROWS - 1) / PN_PRODUCT_ROWS; n_tile > 0; n_tile--) {
        size_t rows = (n_row + n_tile - 1) / n_tile;
        switch (rows) {
        case 1:
            add_rows(a, a_stride, 1, &b, k, n, out, out_stride);
            break;
        case 2:
            add_rows(a, a_stride, 2, &b, k, n, out, out_stride);
            break;
        case 3:
            add_rows(a, a_stride, 3, &b, k, n, out, out_stride);
            break;
        default:
            add_rows(a, a_stride, 4, &b, k, n, out, out_stride);
            break;
        }
        a += rows * a_stride;
        out += rows * out_stride;
        n_row -= rows;
        b.ahead = NULL;
    }
}

/* Many rows with b of halves. */
static void add_converted(const float *a, size_t a_stride, size_t n_row, const pn_factor *b, size_t k,
                          size_t n, float *out, size_t out_stride) {
    float buffer[ROWS * COLUMNS];
    const pn_factor floats = {.data = (const char *)buffer, .stride = COLUMNS};
    for (size_t c = 0; c < n; c += COLUMNS) {
        size_t width = n - c < COLUMNS ? n - c : COLUMNS;
        for (size_t i = 0; i < k; i += ROWS) {
            size_t height = k - i < ROWS ? k - i : ROWS;
            for (size_t row = 0; row < height; row++) {
                size_t offset = pn_factor_offset(b, i + row, c);
                pn_f16_to_f32_neon((const uint16_t *)(const void *)(b->data + offset), buffer + row * COLUMNS,
                                   width);
            }
            add_tiles(a + i, a_stride, n_row, floats, height, width, out + c, out_stride);
        }
    }
}

static void add_half_product(const float *a, size_t a_stride, size_t n_row, const uint16_t *b, size_t k,
                             size_t n, float *out, const void *ahead) {
    const pn_factor factor = {.data = (const char *)b, .ahead = ahead, .stride = n, .half = true};
    if (n_row <= FEW_ROWS)
        add_tiles(a, a_stride, n_row, factor, k, n, out, n);
    else
        add_converted(a, a_stride, n_row, &factor, k, n, out, n);
}

static void add_float_product(const float *a, size_t a_stride, size_t n_row, const float *b, size_t k,
                              size_t n, float *out, const void *ahead) {
    const pn_factor factor = {.data = (const char *)b, .ahead = ahead, .stride = n};
    add_tiles(a, a_stride, n_row, factor, k, n, out, n);
}

void pn_attn_scores_f16_neon(const float *q, size_t n_row, const uint16_t *keys, size_t dim, float *scores,
                             const void *ahead) {
    memset(scores, 0, n_row * PN_ATTN_KEYS * sizeof *scores);
    add_half_product(q, dim, n_row, keys, dim, PN_ATTN_KEYS, scores, ahead);
}

void pn_attn_scores_f32_neon(const float *q, size_t n_row, const float *keys, size_t dim, float *scores,
                             const void *ahead) {
    memset(scores, 0, n_row * PN_ATTN_KEYS * sizeof *scores);
    add_float_product(q, dim, n_row, keys, dim, PN_ATTN_KEYS, scores, ahead);
}

void pn_attn_mix_f16_neon(const float *p, size_t n_row, const uint16_t *values, size_t n_key, size_t dim,
                          float *acc, const void *ahead) {
    add_half_product(p, PN_ATTN_KEYS, n_row, values, n_key, dim, acc, ahead);
}

void pn_attn_mix_f32_neon(const float *p, size_t n_row, const float *values, size_t n_key, size_t dim,
                          float *acc, const void *ahead) {
    add_float_product(p, PN_ATTN_KEYS, n_row, values, n_key, dim, acc, ahead);
}

/* ---- codes ---- */

/* Sixteen codes of a byte. */
PN_NEON_INLINE void store_floats(uint8x16_t codes, float *out) {
    const uint16x8_t low = vmovl_u8(vget_low_u8(codes)), high = vmovl_u8(vget_high_u8(codes));
    vst1q_f32(out, vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))));
    vst1q_f32(out + 4, vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))));
    vst1q_f32(out + 8, vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))));
    vst1q_f32(out + 12, vcvtq_f32_u32(vmovl_u16(vget_high_u16(high))));
}

static void decode_row(const uint8_t *row, size_t n, int bits, float *out) {
    if (n % PN_KV_RUN_PIECE != 0) {
        pn_coded_decode(row, n, bits, out);
        return;
    }
    for (size_t c = 0; c < n; c += PN_KV_RUN_PIECE) {
        if (bits == 8) {
            store_floats(vld1q_u8(row + c), out + c);
            store_floats(vld1q_u8(row + c + 16), out + c + 16);
        } else {
            const uint8x16_t bytes = vld1q_u8(row + c / 2);
            store_floats(vandq_u8(bytes, vdupq_n_u8(15)), out + c);
            store_floats(vshrq_n_u8(bytes, 4), out + c + 16);
        }
    }
}

static void multiply_codes(const pn_coded_product *p) {
    float buffer[ROWS * COLUMNS];
    const pn_factor floats = {.data = (const char *)buffer, .stride = COLUMNS};
    for (size_t at = 0; p->ahead && at < p->burst; at += 64)
        __builtin_prefetch(p->ahead + at);
    for (size_t i = 0; i < p->k; i++)
        decode_row(p->codes + i * p->row_bytes, p->n, p->bits, buffer + i * COLUMNS);
    add_tiles(p->a, PN_CODED_CHUNK, p->n_row, floats, p->k, p->n, p->out, p->out_stride);
}

PN_CODED_SLOTS(neon)
