/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix of 8-bit weights in two parts, for an output head of which mostly the greatest products are
   wanted: the high four bits of all codes alone tell which rows those can be, and half of the bytes need not
   be read.

   The whole is of kind Q8_0, INT8_SYM or INT8_ASYM, of the latter two with one scale per row. Of its codes
   16 h + l, 0 <= h, l < 16, there are, each for all panels before the next:

     high, panels that stand for a sixteenth of the weights: of a Q8_0 matrix of kind Q4_1, codes h, scale d,
   and an offset that makes up for the mean of l, half(-7.53125 * d); of the others of kind INT4_SYM, codes h,
   scale d, which leaves d * (135.5 - zero) to be added to each weight;

     low [n_col / 32][256], the codes l of each step, as a plane of low four bits (quant/panel.h);

     residual [16] float, the length of what is left of each row, d * (l - 7.5) of each weight;

     zero [16] uint8 in INT8_ASYM, the code that stands for 0; in INT8_SYM it is 128. */
#ifndef PN_QUANT_SPLIT_H
#define PN_QUANT_SPLIT_H

#include "quant/integer.h"

#define PN_SPLIT_CODES 256 /* bytes of codes per step, of high and of low */

/* The packed kind for an output head of n_row rows of a kind: in two parts where that is worth another pass,
   which it is for one of 8 bits and many rows; else the kind itself. Of INT8 kinds with one scale per row. */
pn_panel_kind pn_split_kind(pn_panel_kind whole, uint64_t n_row);
/* The kind that a kind in two parts stands for; any other kind itself. */
pn_panel_kind pn_split_whole(pn_panel_kind kind);
/* The kind of the high part. */
pn_panel_kind pn_split_high(pn_panel_kind whole);

/* Where the parts but the high one begin. */
typedef struct pn_split {
    const uint8_t *low; /* NULL: a matrix is not in two parts */
    const float *residual;
    const uint8_t *zero; /* NULL where there is none */
} pn_split;
pn_split pn_split_at(pn_panel_kind whole, const uint8_t *data, size_t n_panel, size_t n_col);
/* Bytes of all parts. */
size_t pn_split_bytes(pn_panel_kind whole, size_t n_panel, size_t n_col);

/* The low part of one panel. */
static inline const uint8_t *pn_split_low(const pn_split *split, size_t panel, size_t n_col) {
    return split->low + panel * (n_col / PN_STEP) * PN_SPLIT_CODES;
}
/* What high leaves of some steps of a panel, to be multiplied with these: a panel of the kind of high, of
   which it has the scales, with the codes l. Of an INT8 kind d / 2 is to be added to each weight. */
void pn_split_some_low(pn_panel_kind whole, const pn_split *split, const uint8_t *high, size_t panel,
                       size_t n_col, const size_t *steps, size_t n_step, uint8_t *out);

/* Packs n_row <= 16 rows of Q8_0 blocks, row_bytes apart, to where `panel` of n_panel has its parts in a
   matrix at data. */
void pn_split_pack(const void *rows, size_t row_bytes, size_t n_row, size_t n_panel, size_t n_col,
                   size_t panel, uint8_t *data);
/* The same for rows of codes [n_row][n_col] and one scale each, of an INT8 kind. */
void pn_split_pack_integers(pn_panel_kind whole, const uint8_t *codes, const pn_integer_scale *scales,
                            size_t n_row, size_t n_panel, size_t n_col, size_t panel, uint8_t *data);

/* What follows the codes of a whole panel of an INT8 kind: writes d, and zeros of INT8_ASYM. high is the
   panel's high part. */
void pn_split_scales(pn_panel_kind whole, const pn_split *split, const uint8_t *high, size_t panel,
                     size_t n_col, uint8_t *scales);

/* The floats of one row of a panel: the same bits as the whole kind's own decode. */
void pn_split_decode_row(pn_panel_kind whole, const pn_split *split, const uint8_t *high, size_t panel,
                         size_t row, size_t n_col, float *dst);

#endif
