/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/split.h"

#include "quant/blocks.h"

#include <math.h>

#define HALVES_BYTES (2 * PN_PANEL_ROWS)
#define UNIT_BYTES   (PN_SPLIT_CODES + 2 * HALVES_BYTES) /* of high, of a Q8_0 matrix */
#define MEAN_LOW     (-7.53125f)                         /* (7.5 - 128) / 16 */
#define ZERO         128                                 /* the code that stands for 0 without `zero` */

/* A step's codes, and the place of d after them, in a panel of either kind. */
static const pn_panel_format nibbles = {4, 32, 0, 0, 0, 0, 0}, bytes = {8, 32, ZERO, 0, 0, 0, 0};

static bool is_integer(pn_panel_kind whole) {
    return whole != PN_PANEL_Q8_0;
}

/* ---- kinds and places ---- */

#define LEAST_ROWS 8192

pn_panel_kind pn_split_kind(pn_panel_kind whole, uint64_t n_row) {
    if (n_row < LEAST_ROWS) return whole;
    switch (whole) {
    case PN_PANEL_Q8_0:
        return PN_PANEL_SPLIT_Q8_0;
    case PN_PANEL_INT8_SYM:
        return PN_PANEL_SPLIT_INT8_SYM;
    case PN_PANEL_INT8_ASYM:
        return PN_PANEL_SPLIT_INT8_ASYM;
    default:
        return whole;
    }
}

pn_panel_kind pn_split_whole(pn_panel_kind kind) {
    switch (kind) {
    case PN_PANEL_SPLIT_Q8_0:
        return PN_PANEL_Q8_0;
    case PN_PANEL_SPLIT_INT8_SYM:
        return PN_PANEL_INT8_SYM;
    case PN_PANEL_SPLIT_INT8_ASYM:
        return PN_PANEL_INT8_ASYM;
    default:
        return kind;
    }
}

pn_panel_kind pn_split_high(pn_panel_kind whole) {
    return is_integer(whole) ? PN_PANEL_INT4_SYM : PN_PANEL_Q4_1;
}

static size_t high_bytes(pn_panel_kind whole, size_t n_col) {
    return pn_panel_bytes(pn_split_high(whole), (pn_panel_shape){n_col, n_col});
}

/* Where parts begin, and where the last one ends. */
struct places {
    size_t low, residual, zero, end;
};

static struct places places_of(pn_panel_kind whole, size_t n_panel, size_t n_col) {
    const size_t n_row = n_panel * PN_PANEL_ROWS;
    struct places at = {.low = n_panel * high_bytes(whole, n_col)};
    at.residual = at.low + n_panel * (n_col / PN_STEP) * PN_SPLIT_CODES;
    at.zero = at.residual + n_row * sizeof(float);
    at.end = at.zero + (whole == PN_PANEL_INT8_ASYM ? n_row : 0);
    return at;
}

pn_split pn_split_at(pn_panel_kind whole, const uint8_t *data, size_t n_panel, size_t n_col) {
    const struct places at = places_of(whole, n_panel, n_col);
    return (pn_split){
        .low = data + at.low,
        .residual = (const float *)(const void *)(data + at.residual),
        .zero = whole == PN_PANEL_INT8_ASYM ? data + at.zero : NULL,
    };
}

size_t pn_split_bytes(pn_panel_kind whole, size_t n_panel, size_t n_col) {
    return places_of(whole, n_panel, n_col).end;
}

/* The parts of one panel, to be written. */
struct parts {
    uint8_t *high, *low;
    float *residual;
    uint8_t *zero;
};

static struct parts parts_of(pn_panel_kind whole, size_t n_panel, size_t n_col, size_t panel, uint8_t *data) {
    const struct places at = places_of(whole, n_panel, n_col);
    const size_t row = panel * PN_PANEL_ROWS;
    return (struct parts){.high = data + panel * high_bytes(whole, n_col),
                          .low = data + at.low + panel * (n_col / PN_STEP) * PN_SPLIT_CODES,
                          .residual = (float *)(void *)(data + at.residual) + row,
                          .zero = data + at.zero + row};
}

/* ---- Q8_0 ---- */

/* Two vectors of codes become four bits of each in one: the first in the low nibbles. */
static void split_vectors(const uint8_t *first, const uint8_t *second, uint8_t *high, uint8_t *low) {
    for (size_t b = 0; b < 64; b++) {
        high[b] = (uint8_t)(first[b] >> 4 | (second[b] & 0xf0));
        low[b] = (uint8_t)((first[b] & 15) | second[b] << 4);
    }
}

static void put_scales(const uint8_t *d, uint8_t *out) {
    memcpy(out, d, HALVES_BYTES);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
        uint16_t offset = pn_f32_to_f16(MEAN_LOW * pn_block_half(d + 2 * r));
        memcpy(out + HALVES_BYTES + 2 * r, &offset, sizeof offset);
    }
}

/* Sums of the low codes of 16 rows, and of their squares. */
struct sums {
    int64_t low[PN_PANEL_ROWS], squares[PN_PANEL_ROWS];
};

static void add_sums(const uint8_t *low, struct sums *sums) {
    for (size_t b = 0; b < PN_SPLIT_CODES; b++) {
        int first = low[b] & 15, second = low[b] >> 4;
        sums->low[b % 64 / 4] += first + second;
        sums->squares[b % 64 / 4] += first * first + second * second;
    }
}

/* Adds the squares of what the high part leaves of 16 rows x 32 weights: d * (l - 128) - 16 m of each. */
static void add_squares(const uint8_t *low, const uint8_t *d, const uint8_t *m, double *squares) {
    struct sums sums = {{0}, {0}};
    add_sums(low, &sums);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
        double slope = (double)pn_block_half(d + 2 * r),
               at_zero = -ZERO * slope - 16 * (double)pn_block_half(m + 2 * r);
        squares[r] += slope * slope * (double)sums.squares[r] + 2 * slope * at_zero * (double)sums.low[r] +
                      PN_STEP * at_zero * at_zero;
    }
}

void pn_split_pack(const void *rows, size_t row_bytes, size_t n_row, size_t n_panel, size_t n_col,
                   size_t panel, uint8_t *data) {
    const pn_qtype *type = pn_qtype_find(PN_QTYPE_ID_Q8_0);
    struct parts to = parts_of(PN_PANEL_Q8_0, n_panel, n_col, panel, data);
    double squares[PN_PANEL_ROWS] = {0};
    for (size_t s = 0; s < n_col / PN_STEP; s++, to.high += UNIT_BYTES, to.low += PN_SPLIT_CODES) {
        uint8_t unit[2 * PN_SPLIT_CODES + HALVES_BYTES]; /* a panel of 32 columns is one unit */
        uint8_t *scales = to.high + PN_SPLIT_CODES;
        pn_panel_pack(type, (const uint8_t *)rows + s * type->block_bytes, row_bytes, n_row, PN_STEP, unit);
        for (size_t j = 0; j < 4; j++)
            split_vectors(unit + 64 * j, unit + 64 * (j + 4), to.high + 64 * j, to.low + 64 * j);
        put_scales(unit + pn_panel_scale_offset(bytes), scales);
        add_squares(to.low, scales, scales + HALVES_BYTES, squares);
    }
    for (size_t r = 0; r < PN_PANEL_ROWS; r++)
        to.residual[r] = (float)sqrt(squares[r] > 0 ? squares[r] : 0);
}

/* ---- integers ---- */

/* The high bits of a step of codes. */
static void put_high(const uint8_t *codes, size_t stride, size_t n_row, uint8_t *high) {
    uint8_t shifted[PN_PANEL_ROWS][PN_STEP];
    for (size_t r = 0; r < n_row; r++)
        for (size_t c = 0; c < PN_STEP; c++)
            shifted[r][c] = codes[r * stride + c] >> 4;
    pn_panel_put_step(nibbles, shifted[0], PN_STEP, n_row, high);
}

void pn_split_pack_integers(pn_panel_kind whole, const uint8_t *codes, const pn_integer_scale *scales,
                            size_t n_row, size_t n_panel, size_t n_col, size_t panel, uint8_t *data) {
    struct parts to = parts_of(whole, n_panel, n_col, panel, data);
    struct sums sums = {{0}, {0}};
    for (size_t c = 0; c < n_col; c += PN_STEP, to.high += PN_SPLIT_CODES, to.low += PN_SPLIT_CODES) {
        put_high(codes + c, n_col, n_row, to.high);
        pn_panel_put_step(nibbles, codes + c, n_col, n_row, to.low);
        add_sums(to.low, &sums);
    }
    memset(to.high, 0, HALVES_BYTES);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
        const pn_integer_scale scale = r < n_row ? scales[r] : (pn_integer_scale){0, 0};
        const double mean = 7.5, squares = (double)sums.squares[r] - 2 * mean * (double)sums.low[r] +
                                           (double)n_col * mean * mean;
        memcpy(to.high + 2 * r, &scale.d, sizeof scale.d);
        to.residual[r] = (float)(fabs((double)pn_f16_to_f32(scale.d)) * sqrt(squares));
        if (whole == PN_PANEL_INT8_ASYM) to.zero[r] = scale.zero;
    }
}

void pn_split_scales(pn_panel_kind whole, const pn_split *split, const uint8_t *high, size_t panel,
                     size_t n_col, uint8_t *scales) {
    memcpy(scales, high + n_col / PN_STEP * PN_SPLIT_CODES, HALVES_BYTES);
    if (whole == PN_PANEL_INT8_ASYM)
        memcpy(scales + HALVES_BYTES, split->zero + panel * PN_PANEL_ROWS, PN_PANEL_ROWS);
}

/* ---- some of it back ---- */

void pn_split_some_low(pn_panel_kind whole, const pn_split *split, const uint8_t *high, size_t panel,
                       size_t n_col, const size_t *steps, size_t n_step, uint8_t *out) {
    const uint8_t *low = pn_split_low(split, panel, n_col);
    for (size_t i = 0; i < n_step; i++, out += PN_SPLIT_CODES) {
        memcpy(out, low + steps[i] * PN_SPLIT_CODES, PN_SPLIT_CODES);
        if (is_integer(whole)) continue;
        memcpy(out + PN_SPLIT_CODES, high + steps[i] * UNIT_BYTES + PN_SPLIT_CODES, 2 * HALVES_BYTES);
        out += 2 * HALVES_BYTES;
    }
    if (is_integer(whole)) memcpy(out, high + n_col / PN_STEP * PN_SPLIT_CODES, HALVES_BYTES);
}

void pn_split_decode_row(pn_panel_kind whole, const pn_split *split, const uint8_t *high, size_t panel,
                         size_t row, size_t n_col, float *dst) {
    const pn_panel_format f = pn_panel_formats[whole];
    const size_t step_bytes = is_integer(whole) ? PN_SPLIT_CODES : UNIT_BYTES;
    const uint8_t *low = pn_split_low(split, panel, n_col);
    uint8_t scales[HALVES_BYTES + PN_PANEL_ROWS];
    if (is_integer(whole)) pn_split_scales(whole, split, high, panel, n_col, scales);
    for (size_t c = 0; c < n_col; c += PN_STEP, high += step_bytes, low += PN_SPLIT_CODES) {
        const uint8_t *d = is_integer(whole) ? scales : high + PN_SPLIT_CODES;
        const pn_panel_scale s = pn_panel_scale_of(f, d, row, 0);
        for (size_t i = 0; i < PN_STEP; i++) {
            int code = 16 * pn_panel_code(nibbles, high, row, i) + pn_panel_code(nibbles, low, row, i);
            float value = s.scale * (float)(code - f.zero);
            dst[c + i] = f.min ? value + s.offset : value;
        }
    }
}
