/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "quant/split.h"

#include <string.h>

void pn_join_split_scalar(const uint8_t *high, const uint8_t *low, size_t n_step, size_t scale_bytes,
                          uint8_t *panel) {
    for (size_t s = 0; s < n_step; s++) {
        for (size_t b = 0; b < PN_SPLIT_CODES; b++) {
            panel[b] = (uint8_t)(high[b] << 4 | (low[b] & 15));
            panel[b + PN_SPLIT_CODES] = (uint8_t)((high[b] & 0xf0) | low[b] >> 4);
        }
        memcpy(panel + 2 * PN_SPLIT_CODES, high + PN_SPLIT_CODES, scale_bytes);
        high += PN_SPLIT_CODES + 2 * scale_bytes;
        low += PN_SPLIT_CODES;
        panel += 2 * PN_SPLIT_CODES + scale_bytes;
    }
}
