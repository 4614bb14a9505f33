/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix of 8-bit weights in two parts, for an output head of which mostly the greatest products are
   wanted: the high four bits of all codes alone tell which rows those can be, and half of the bytes need not
   be read.

   With w = d * (16 h + l - 128), 0 <= h, l < 16:
     high      panels of kind Q4_1 that stand for w / 16: codes h, scale d, and the offset that makes up for
   the mean of l, half(-7.53125 * d); low       [n_panel][n_col / 32][256]: the codes l of each step, as a
   plane of low four bits (quant/panel.h); residual  [n_panel * 16]: the length of what 16 * high leaves of
   each row. */
#ifndef PN_QUANT_SPLIT_H
#define PN_QUANT_SPLIT_H

#include "quant/panel.h"

#define PN_SPLIT_HIGH_BYTES 320 /* of `high` per step */
#define PN_SPLIT_LOW_BYTES  256

/* Whether a head of n_row rows is better in two parts: it must be of 8 bits, and worth another pass. */
bool pn_split_pays(pn_panel_kind kind, uint64_t n_row);

/* The three parts as one tensor: all of high, then low, then residual. */
size_t pn_split_bytes(size_t n_panel, size_t n_col);
size_t pn_split_low_offset(size_t n_panel, size_t n_col);
size_t pn_split_residual_offset(size_t n_panel, size_t n_col);

/* Packs n_row <= 16 rows of Q8_0 blocks, row_bytes apart, in two parts: n_col / 32 steps of each, and the
   residual of 16 rows. */
void pn_split_pack(const void *rows, size_t row_bytes, size_t n_row, size_t n_col, uint8_t *high,
                   uint8_t *low, float *residual);

/* The floats of one row: the same bits as Q8_0's own decode. */
void pn_split_decode_row(const uint8_t *high, const uint8_t *low, size_t row, size_t n_col, float *dst);

#endif
