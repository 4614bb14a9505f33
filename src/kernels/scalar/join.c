/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <string.h>

enum {
    HIGH_BYTES = 320,
    LOW_BYTES = 256,
    WHOLE_BYTES = 544,
    SCALES = 256,
    WHOLE_SCALES = 512,
    SCALE_BYTES = 32
};

void pn_join_split_scalar(const uint8_t *high, const uint8_t *low, size_t n_col, uint8_t *panel) {
    for (size_t s = 0; s < n_col / PN_STEP; s++, high += HIGH_BYTES, low += LOW_BYTES, panel += WHOLE_BYTES) {
        for (size_t b = 0; b < 256; b++) {
            panel[b] = (uint8_t)(high[b] << 4 | (low[b] & 15));
            panel[b + 256] = (uint8_t)((high[b] & 0xf0) | low[b] >> 4);
        }
        memcpy(panel + WHOLE_SCALES, high + SCALES, SCALE_BYTES);
    }
}
