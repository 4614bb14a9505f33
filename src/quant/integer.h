/* SPDX-License-Identifier: Apache-2.0 */
/* Float weights as integers of 4 or 8 bits with a scale per group of columns or per row: kinds INT4_SYM,
   INT4_ASYM, INT8_SYM and INT8_ASYM of quant/panels.inc. They mean what "compress_weights" of NNCF makes:
     SYM   d * (code - 2^(bits - 1)). d has either sign: the weight of greatest magnitude has the least code,
           which has no counterpart above zero, so that all codes are used;
     ASYM  d * (code - zero), from the least to the greatest weight.
   How d and zero are found: Neural Network Compression Framework (github.com/openvinotoolkit/nncf),
   nncf/quantization/algorithms/weight_compression/weight_lowering.py and nncf/quantization/fake_quantize.py.
   What differs here: d is rounded to half first, and zero and codes are computed from that; and the range of
   an ASYM group always reaches to 0, since of weights that all have one sign NNCF keeps little: it clamps a
   zero that is no code. */
#ifndef PN_QUANT_INTEGER_H
#define PN_QUANT_INTEGER_H

#include "quant/panel.h"

/* What the columns of a group have in common. */
typedef struct pn_integer_scale {
    uint16_t d;   /* half */
    uint8_t zero; /* 0 in SYM kinds */
} pn_integer_scale;

/* The same to compute with: weight w has code rint(w / d + inside), from first to last, plus outside. */
typedef struct pn_integer_grid {
    float d, inside, outside, first, last;
} pn_integer_grid;
static inline pn_integer_grid pn_integer_grid_of(pn_panel_kind kind, pn_integer_scale scale) {
    const pn_panel_format f = pn_panel_formats[kind];
    const float outside = f.min ? 0 : (float)f.zero;
    return (pn_integer_grid){.d = pn_f16_to_f32(scale.d),
                             .inside = f.min ? (float)scale.zero : 0,
                             .outside = outside,
                             .first = -outside,
                             .last = (float)((1 << f.bits) - 1) - outside};
}

typedef enum pn_integer_range {
    PN_INTEGER_RANGE_OK,
    PN_INTEGER_RANGE_NOT_FINITE, /* there is a NaN or an infinity among the weights */
    PN_INTEGER_RANGE_TOO_LARGE   /* the scale is beyond the greatest half */
} pn_integer_range;

/* The least and the greatest of n >= 1 weights; both NaN when one of them is no finite number. */
void pn_integer_find_range(const float *weights, size_t n, float range[2]);
/* The scale of one group of weights of this range. No scale is smaller than 2^-23, so a group of zeros has
   codes that mean 0. *out is written only with PN_INTEGER_RANGE_OK. */
pn_integer_range pn_integer_find_scale(pn_panel_kind kind, const float range[2], pn_integer_scale *out);
/* The nearest codes of n finite weights, even ones where two are as near, with a scale that is finite and not
   0. What lies outside the range gets its end. Returns the sum of the squares of what that loses. */
float pn_integer_round(pn_panel_kind kind, pn_integer_scale scale, const float *weights, size_t n,
                       uint8_t *codes);

/* Packs n_row <= 16 rows into one panel of shape.n_col columns: codes [n_row][n_col], below 16 in INT4 kinds,
   and scales [n_row][n_col / shape.group]. pn_panel_decode_row gives the weights that they stand for. */
void pn_integer_pack(pn_panel_kind kind, pn_panel_shape shape, const uint8_t *codes,
                     const pn_integer_scale *scales, size_t n_row, uint8_t *panel);

#endif
