/* SPDX-License-Identifier: Apache-2.0 */
/* The scales of a group of columns, for sixteen rows at once: those that lose least where errors count by
   column. */
#ifndef PN_COMPRESS_FIT_H
#define PN_COMPRESS_FIT_H

#include "quant/integer.h"

#define PN_FIT_ROWS PN_PANEL_ROWS

/* Which scales are looked at. */
typedef struct pn_fit_search {
    bool ranges; /* narrower and wider than the values' own */
    bool zeros;  /* zero points beside the one that the range gives */
} pn_fit_search;

/* Finds scales[r * stride], r < 16, for values [n][16] of which column c counts weight[c] >= 0: without a
   search the range of the values gives them; searched are ranges from somewhat more than that to about half
   of it, each with the least-squares scale for the codes that it gives, and from the best one on scale and
   codes take turns as long as it helps. The values are finite. */
void pn_fit_scales(pn_panel_kind kind, pn_fit_search search, const float *values, const float *weight,
                   size_t n, pn_integer_scale *scales, size_t stride);

#endif
