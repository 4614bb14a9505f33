/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/panel.h"

#include "quant/blocks.h"
#include "quant/unit.h"

#define STEPS_MAX (PN_SUPER / PN_STEP)

const pn_panel_format pn_panel_formats[PN_PANEL_CODED_COUNT] = {
#define PN_PANEL(name, ...) [PN_PANEL_##name] = {__VA_ARGS__},
#include "quant/panels.inc"
#undef PN_PANEL
};

static const pn_unit_read_fn unit_readers[] = {
#define PN_PANEL(name, ...) [PN_PANEL_##name] = pn_unit_read_##name,
#include "quant/block_panels.inc"
#undef PN_PANEL
};

pn_panel_kind pn_panel_kind_of(const pn_qtype *type) {
    return (pn_panel_kind)type->kind;
}

static bool is_apart(pn_panel_kind kind) {
    return kind < PN_PANEL_CODED_COUNT && pn_panel_formats[kind].apart;
}

/* The group of a packed type with `apart`: its block, or 0 where a row has bytes besides its blocks. */
static size_t group_of(const pn_qtype *type) {
    return type->row_bytes > 0 ? 0 : type->block_len;
}

const pn_qtype *pn_panel_type(pn_panel_kind kind, size_t group) {
    const pn_qtype *type;
    for (size_t i = 0; (type = pn_qtype_at(i)); i++)
        if (type->block_rows > 1 && type->kind == kind && (!is_apart(kind) || group_of(type) == group))
            return type;
    return NULL;
}

pn_panel_shape pn_panel_shape_of(const pn_qtype *type, size_t n_col) {
    size_t group = group_of(type);
    return (pn_panel_shape){n_col, group > 0 ? group : n_col};
}

static size_t element_bytes(pn_panel_kind kind) {
    return kind == PN_PANEL_F32 ? sizeof(float) : sizeof(uint16_t);
}

size_t pn_panel_bytes(pn_panel_kind kind, pn_panel_shape shape) {
    if (kind >= PN_PANEL_CODED_COUNT) return shape.n_col * PN_PANEL_ROWS * element_bytes(kind);
    return pn_panel_coded_bytes(pn_panel_formats[kind], shape);
}

/* ---- packing ---- */

typedef uint8_t step_codes[8][64]; /* the vectors of a step */

static void gather_codes(const uint8_t *codes, size_t stride, size_t n_row, step_codes out) {
    for (size_t v = 0; v < 8; v++)
        for (size_t r = 0; r < n_row; r++)
            memcpy(&out[v][4 * r], codes + r * stride + 4 * v, 4);
}

static uint8_t *put_nibbles(const step_codes codes, uint8_t *dst) {
    for (size_t j = 0; j < 4; j++, dst += 64)
        for (size_t b = 0; b < 64; b++)
            dst[b] = (uint8_t)((codes[j][b] & 15) | (codes[j + 4][b] & 15) << 4);
    return dst;
}

static uint8_t *put_pairs(const step_codes codes, unsigned shift, uint8_t *dst) {
    for (size_t h = 0; h < 2; h++, dst += 64)
        for (size_t b = 0; b < 64; b++) {
            unsigned byte = 0;
            for (size_t f = 0; f < 4; f++)
                byte |= ((unsigned)codes[4 * h + f][b] >> shift & 3u) << (2 * f);
            dst[b] = (uint8_t)byte;
        }
    return dst;
}

static uint8_t *put_bits(const step_codes codes, unsigned shift, uint8_t *dst) {
    for (size_t v = 0; v < 8; v++, dst += 8) {
        uint64_t word = 0;
        for (size_t b = 0; b < 64; b++)
            word |= (uint64_t)((unsigned)codes[v][b] >> shift & 1u) << b;
        memcpy(dst, &word, sizeof word);
    }
    return dst;
}

uint8_t *pn_panel_put_step(pn_panel_format f, const uint8_t *rows, size_t stride, size_t n_row,
                           uint8_t *dst) {
    step_codes codes = {{0}};
    gather_codes(rows, stride, n_row, codes);
    switch (f.bits) {
    case 2:
        return put_pairs(codes, 0, dst);
    case 3:
        return put_bits(codes, 2, put_pairs(codes, 0, dst));
    case 4:
        return put_nibbles(codes, dst);
    case 5:
        return put_bits(codes, 4, put_nibbles(codes, dst));
    case 6:
        return put_pairs(codes, 4, put_nibbles(codes, dst));
    default:
        memcpy(dst, codes, sizeof(step_codes));
        return dst + sizeof(step_codes);
    }
}

static uint8_t *put_halves(uint16_t value, size_t row, uint8_t *dst) {
    memcpy(dst + 2 * row, &value, sizeof value);
    return dst + 2 * PN_PANEL_ROWS;
}

static void put_scales(pn_panel_format f, const pn_unit *unit, size_t row, uint8_t *dst) {
    dst = put_halves(unit->d, row, dst);
    if (f.min) dst = put_halves(unit->m, row, dst);
    size_t n = f.super ? (size_t)PN_SUPER / f.group : 0;
    for (size_t g = 0; g < n; g++) {
        dst[g * PN_PANEL_ROWS + row] = (uint8_t)unit->scale[g];
        if (f.min) dst[(n + g) * PN_PANEL_ROWS + row] = (uint8_t)unit->min[g];
    }
}

static void pack_unit(pn_panel_format f, const pn_unit *rows, uint8_t *dst) {
    for (size_t column = 0; column < pn_panel_unit_columns(f); column += PN_STEP)
        dst = pn_panel_put_step(f, rows[0].codes + column, sizeof *rows, PN_PANEL_ROWS, dst);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++)
        put_scales(f, &rows[r], r, dst);
}

static void pack_coded(pn_panel_kind kind, const pn_qtype *type, const uint8_t *rows, size_t row_bytes,
                       size_t n_row, size_t n_col, uint8_t *panel) {
    pn_panel_format f = pn_panel_formats[kind];
    pn_unit units[PN_PANEL_ROWS] = {0}; /* rows that are not there stay zero */
    for (size_t i = 0; i < n_col / pn_panel_unit_columns(f); i++) {
        for (size_t r = 0; r < n_row; r++)
            unit_readers[kind](rows + r * row_bytes + i * type->block_bytes, &units[r]);
        pack_unit(f, units, panel + i * pn_panel_unit_bytes(f));
    }
}

void pn_panel_pack(const pn_qtype *type, const void *rows, size_t row_bytes, size_t n_row, size_t n_col,
                   uint8_t *panel) {
    pn_panel_kind kind = pn_panel_kind_of(type);
    if (kind < PN_PANEL_CODED_COUNT) {
        pack_coded(kind, type, rows, row_bytes, n_row, n_col, panel);
        return;
    }
    size_t size = element_bytes(kind);
    memset(panel, 0, n_col * PN_PANEL_ROWS * size);
    for (size_t r = 0; r < n_row; r++)
        for (size_t c = 0; c < n_col; c++)
            memcpy(panel + (c * PN_PANEL_ROWS + r) * size, (const uint8_t *)rows + r * row_bytes + c * size,
                   size);
}

/* ---- one row back ---- */

static unsigned nibble_at(const uint8_t *plane, size_t v, size_t byte) {
    return (unsigned)plane[v % 4 * 64 + byte] >> (v / 4 * 4) & 15u;
}
static unsigned pair_at(const uint8_t *plane, size_t v, size_t byte) {
    return (unsigned)plane[v / 4 * 64 + byte] >> (v % 4 * 2) & 3u;
}
static unsigned bit_at(const uint8_t *plane, size_t v, size_t byte) {
    return (unsigned)plane[v * 8 + byte / 8] >> (byte % 8) & 1u;
}

int pn_panel_code(pn_panel_format f, const uint8_t *step, size_t row, size_t column) {
    size_t v = column / 4, byte = 4 * row + column % 4;
    unsigned code;
    switch (f.bits) {
    case 2:
        code = pair_at(step, v, byte);
        break;
    case 3:
        code = pair_at(step, v, byte) | bit_at(step + 128, v, byte) << 2;
        break;
    case 4:
        code = nibble_at(step, v, byte);
        break;
    case 5:
        code = nibble_at(step, v, byte) | bit_at(step + 256, v, byte) << 4;
        break;
    case 6:
        code = nibble_at(step, v, byte) | pair_at(step + 256, v, byte) << 4;
        break;
    default:
        code = step[v * 64 + byte];
        break;
    }
    return f.codebook ? pn_iq4_values[code] : (int)code - f.zero;
}

static float half_at(const uint8_t *src, size_t row) {
    return pn_block_half(src + 2 * row);
}

pn_panel_scale pn_panel_scale_of(pn_panel_format f, const uint8_t *halves, size_t row, size_t group) {
    const uint8_t *second = halves + 2 * PN_PANEL_ROWS;
    float d = half_at(halves, row);
    if (f.apart)
        return (pn_panel_scale){d, f.min ? -(d * (float)(pn_panel_zero(f, second, row) - f.zero)) : 0};
    float m = f.min ? half_at(second, row) : 0;
    if (!f.super) return (pn_panel_scale){d, m};
    const int8_t *small = (const int8_t *)halves + (f.min ? 4 : 2) * PN_PANEL_ROWS;
    size_t n = (size_t)PN_SUPER / f.group, at = group * PN_PANEL_ROWS + row;
    return (pn_panel_scale){d * (float)small[at], f.min ? -(m * (float)small[n * PN_PANEL_ROWS + at]) : 0};
}

static void decode_unit_row(pn_panel_format f, const uint8_t *unit, const uint8_t *scales, size_t row,
                            float *dst) {
    for (size_t first = 0; first < pn_panel_unit_columns(f); first += f.group) {
        pn_panel_scale s = pn_panel_scale_of(f, scales, row, first / f.group);
        const uint8_t *step = unit + first / PN_STEP * pn_panel_step_bytes(f);
        for (size_t column = first; column < first + f.group; column++) {
            float value = s.scale * (float)pn_panel_code(f, step, row, column % PN_STEP);
            dst[column] = f.min ? value + s.offset : value;
        }
    }
}

void pn_panel_decode_row(pn_panel_kind kind, pn_panel_shape shape, const uint8_t *panel, size_t row,
                         float *dst) {
    if (kind < PN_PANEL_CODED_COUNT) {
        pn_panel_format f = pn_panel_formats[kind];
        size_t columns = pn_panel_unit_columns(f);
        for (size_t u = 0; u < shape.n_col / columns; u++)
            decode_unit_row(f, panel + u * pn_panel_unit_bytes(f), panel + pn_panel_scales_at(f, shape, u),
                            row, dst + u * columns);
        return;
    }
    for (size_t c = 0; c < shape.n_col; c++) {
        const uint8_t *at = panel + (c * PN_PANEL_ROWS + row) * element_bytes(kind);
        if (kind == PN_PANEL_F32)
            memcpy(&dst[c], at, sizeof dst[c]);
        else
            dst[c] = kind == PN_PANEL_F16 ? pn_block_half(at) : pn_bf16_to_f32(pn_block_u16(at));
    }
}
