/* SPDX-License-Identifier: Apache-2.0 */
/* Four-bit types whose codes index a table of unevenly spaced values. */
#include "quant/blocks.h"

const int8_t pn_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* 32 weights from 16 bytes. */
static void decode_run(const uint8_t qs[16], float scale, float *dst) {
    for (size_t j = 0; j < 16; j++) {
        dst[j] = scale * (float)pn_iq4_values[qs[j] & 15];
        dst[16 + j] = scale * (float)pn_iq4_values[qs[j] >> 4];
    }
}

void pn_decode_iq4_nl(const void *src, float *dst, size_t n) {
    const pn_block_iq4_nl *block = src;
    for (; n > 0; n -= 32, dst += 32, block++)
        decode_run(block->qs, pn_block_half(block->d), dst);
}

void pn_decode_iq4_xs(const void *src, float *dst, size_t n) {
    const pn_block_iq4_xs *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float d = pn_block_half(block->d);
        unsigned scales_h = pn_block_u16(block->scales_h);
        for (size_t i = 0; i < 8; i++) {
            int low = block->scales_l[i / 2] >> (i % 2 * 4) & 15;
            int high = (int)(scales_h >> (2 * i) & 3);
            decode_run(block->qs + 16 * i, d * (float)((low | high << 4) - 32), dst + 32 * i);
        }
    }
}
