/* SPDX-License-Identifier: Apache-2.0 */
/* The packed form of weights, which the kernels read: the same numbers as in the file, laid out so that
   sixteen rows are multiplied at once. Packing loses nothing.

   A matrix is cut into panels of 16 rows (the last one padded with rows of zero scale), a panel into units
   of 32 columns, or of 256 where scales are small integers times a half per 256 columns (`super`). Panels
   lie one after the other, and so do the units of a panel.

   A unit holds, in this order:
     codes of each step of 32 columns, in bit planes (below);
     d     [16] half: the scale of each row;
     m     [16] half, with `min`: the offset of each row, or what the small offsets are multiplied with;
     scale [256 / group][16] int8, with `super`;
     min   [256 / group][16] int8, with `super` and `min`.
   With `apart` a unit is its codes alone. After all units of the panel, for each group of columns, follow
     d     [16] half;
     zero  [16] of the codes' own bits, with `min`: the code that stands for 0. Of 4 bits two share a byte:
   rows 0 to 7 have the low nibbles, rows 8 to 15 the high ones.
   How many columns a group has is not a matter of the format: 32, 64, 128 or all of them.

   A step's 512 codes are eight vectors of 64 bytes: byte 4 r + i of vector v is the code of row r, column
   4 v + i. They are stored in planes:
     8 bits: the vectors as they are;
     low 4 bits (of 4, 5 and 6): four vectors, vector j with v = j in the low nibbles, v = j + 4 in the high;
     2 bits (all of 2, the low ones of 3, the high ones of 6): two vectors, bits 2 f of vector h being v = 4 h
   + f; 1 bit (the high one of 3 and 5): eight little-endian words, bit b of word v being byte b of vector v;
   the low plane first.

   The weight is  s * (code - zero) + o,  or with `codebook`  s * pn_iq4_values[code] + o,  where s is d, or
   d * scale with `super`, and o is 0, or m with `min`, or -(m * min) with both. With `apart` and `min` it is
   -(d * (zero' - zero)), where zero' is the group's and zero the format's: together d * (code - zero'). */
#ifndef PN_QUANT_PANEL_H
#define PN_QUANT_PANEL_H

#include "quant/qtype.h"

#include <stdbool.h>

#define PN_PANEL_ROWS 16
#define PN_STEP       32  /* columns of a step */
#define PN_SUPER      256 /* columns of a unit with `super` */

typedef struct pn_panel_format {
    uint8_t bits;  /* of a code: 2, 3, 4, 5, 6 or 8 */
    uint8_t group; /* columns that share a scale: 16 or 32 */
    uint8_t zero;  /* subtracted from a code */
    bool codebook; /* codes are indices into pn_iq4_values */
    bool min;      /* there is an offset besides the scale */
    bool super;    /* scales and offsets have two levels */
    bool apart;    /* they stand after all codes; a group of pn_panel_shape shares them */
} pn_panel_format;

/* What a format leaves open. */
typedef struct pn_panel_shape {
    size_t n_col; /* a multiple of the type's block */
    size_t group; /* with `apart`: columns that share a scale; divides n_col, 32 divides it */
} pn_panel_shape;

typedef enum pn_panel_kind {
#define PN_PANEL(name, ...) PN_PANEL_##name,
#include "quant/panels.inc"
#undef PN_PANEL
    PN_PANEL_CODED_COUNT,
    /* Numbers without codes: a panel is [columns][16] of them; any number of columns. */
    PN_PANEL_F32 = PN_PANEL_CODED_COUNT,
    PN_PANEL_F16,
    PN_PANEL_BF16,
    PN_PANEL_SPLIT_Q8_0, /* 8 bits in two parts: quant/split.h */
    PN_PANEL_SPLIT_INT8_SYM,
    PN_PANEL_SPLIT_INT8_ASYM,
    PN_PANEL_KIND_COUNT
} pn_panel_kind;

/* Of a kind below PN_PANEL_CODED_COUNT. */
extern const pn_panel_format pn_panel_formats[PN_PANEL_CODED_COUNT];

/* The kind that holds weights of a type that pn_qtype_find gave, packed or not. */
pn_panel_kind pn_panel_kind_of(const pn_qtype *type);
/* The packed type of a kind; of one with `apart` with groups of 32, 64 or 128 columns, or 0 for one scale per
   row, NULL for other groups. */
const pn_qtype *pn_panel_type(pn_panel_kind kind, size_t group);
/* The shape of a panel of n_col columns of a type, packed or not. */
pn_panel_shape pn_panel_shape_of(const pn_qtype *type, size_t n_col);

/* For constants, so that a kernel's loops are made for one format. */
static inline size_t pn_panel_step_bytes(pn_panel_format f) {
    return (size_t)f.bits * 64;
}
static inline size_t pn_panel_unit_columns(pn_panel_format f) {
    return f.super ? (size_t)PN_SUPER : (size_t)PN_STEP;
}
/* Offset of d in a unit, without `apart`; m follows after 32 bytes, or the scales where there is none. */
static inline size_t pn_panel_scale_offset(pn_panel_format f) {
    return pn_panel_step_bytes(f) * (f.super ? (size_t)(PN_SUPER / PN_STEP) : 1);
}
/* With `apart`: of the scales of one group. */
static inline size_t pn_panel_group_bytes(pn_panel_format f) {
    return (size_t)(f.min ? 16 + f.bits : 16) * PN_PANEL_ROWS / 8;
}
/* With `apart`: the code of one row that stands for 0, among those of a group. f.bits is 4 or 8. */
static inline uint8_t pn_panel_zero(pn_panel_format f, const uint8_t *zeros, size_t row) {
    return (uint8_t)(f.bits == 4 ? zeros[row % 8] >> (row / 8 * 4) & 15 : zeros[row]);
}
static inline size_t pn_panel_unit_bytes(pn_panel_format f) {
    if (f.apart) return pn_panel_step_bytes(f);
    size_t levels = f.min ? 2 : 1, small = f.super ? (size_t)PN_SUPER / f.group * PN_PANEL_ROWS : 0;
    return pn_panel_scale_offset(f) + levels * (2 * PN_PANEL_ROWS + small);
}

/* Offset in a panel of the scales of a unit: its own, or with `apart` those of the group that it is in. */
static inline size_t pn_panel_scales_at(pn_panel_format f, pn_panel_shape shape, size_t unit) {
    if (!f.apart) return unit * pn_panel_unit_bytes(f) + pn_panel_scale_offset(f);
    return shape.n_col / PN_STEP * pn_panel_step_bytes(f) +
           unit / (shape.group / PN_STEP) * pn_panel_group_bytes(f);
}

/* Bytes of one panel: of a format, so that kernels may ask, and of a kind. */
static inline size_t pn_panel_coded_bytes(pn_panel_format f, pn_panel_shape shape) {
    const size_t units = shape.n_col / pn_panel_unit_columns(f) * pn_panel_unit_bytes(f);
    return f.apart ? units + shape.n_col / shape.group * pn_panel_group_bytes(f) : units;
}
size_t pn_panel_bytes(pn_panel_kind kind, pn_panel_shape shape);

/* Packs n_row <= 16 rows of n_col columns of `type` (not a packed one), row_bytes apart, into one panel.
   Weights of kinds with `apart` are packed by quant/integer.h. */
void pn_panel_pack(const pn_qtype *type, const void *rows, size_t row_bytes, size_t n_row, size_t n_col,
                   uint8_t *panel);

/* Packs one step: codes of 32 columns of n_row <= 16 rows, `stride` apart, zeros for the rows that are not
   there. Returns the end of what is written. */
uint8_t *pn_panel_put_step(pn_panel_format format, const uint8_t *codes, size_t stride, size_t n_row,
                           uint8_t *step);

/* code - zero, or the codebook's value, at one row and column (below 32) of a step. */
int pn_panel_code(pn_panel_format format, const uint8_t *step, size_t row, size_t column);

/* s and o of one row and group of a unit whose scales begin at `scales`; with `apart` there is one group. */
typedef struct pn_panel_scale {
    float scale, offset;
} pn_panel_scale;
pn_panel_scale pn_panel_scale_of(pn_panel_format format, const uint8_t *scales, size_t row, size_t group);

/* The floats of one row of a panel: the same bits as the type's own decode of what was packed. */
void pn_panel_decode_row(pn_panel_kind kind, pn_panel_shape shape, const uint8_t *panel, size_t row,
                         float *dst);

#endif
