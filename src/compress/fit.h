/* SPDX-License-Identifier: Apache-2.0 */
/* The scales of a group of columns, for sixteen rows at once: those that lose least where errors count by
   column. */
#ifndef PN_COMPRESS_FIT_H
#define PN_COMPRESS_FIT_H

#include "quant/integer.h"

#define PN_FIT_ROWS PN_PANEL_ROWS

/* Finds scales[r * stride], r < 16, for values [n][16] of which column c counts weight[c] >= 0, by trying
   ranges from somewhat more than that of the values to about half of it, each with the least-squares scale
   for the codes that it gives. The values are finite. */
void pn_fit_scales(pn_panel_kind kind, const float *values, const float *weight, size_t n,
                   pn_integer_scale *scales, size_t stride);

#endif
