/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_find_range_scalar(const float *x, size_t n, float range[2]) {
    pn_integer_find_range(x, n, range);
}

float pn_round_codes_scalar(pn_panel_kind kind, pn_integer_scale scale, const float *x, size_t n,
                            uint8_t *codes) {
    return pn_integer_round(kind, scale, x, n, codes);
}
