/* SPDX-License-Identifier: Apache-2.0 */
/* Super-blocks of 256 weights: small integer scales of runs of 16 or 32 weights times one half-precision
 * scale. */
#include "quant/blocks.h"

void pn_decode_q2_k(const void *src, float *dst, size_t n) {
    const pn_block_q2_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float d = pn_block_half(block->d_dmin), dmin = pn_block_half(block->d_dmin + 2);
        for (size_t i = 0; i < 16; i++) { /* runs of 16 weights; 8 runs share 32 bytes of qs */
            const uint8_t *qs = block->qs + i / 8 * 32 + i % 2 * 16;
            unsigned shift = (unsigned)(i % 8 / 2 * 2);
            float dl = d * (float)(block->scales[i] & 15), ml = dmin * (float)(block->scales[i] >> 4);
            for (size_t j = 0; j < 16; j++)
                dst[16 * i + j] = dl * (float)(qs[j] >> shift & 3) - ml;
        }
    }
}

void pn_decode_q3_k(const void *src, float *dst, size_t n) {
    const pn_block_q3_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float d = pn_block_half(block->d);
        for (size_t i = 0; i < 16; i++) {
            int scale_low = block->scales[i % 8] >> (i / 8 * 4) & 15;
            int scale_high = block->scales[8 + i % 4] >> (i / 4 * 2) & 3;
            float dl = d * (float)((scale_low | scale_high << 4) - 32);
            const uint8_t *qs = block->qs + i / 8 * 32 + i % 2 * 16, *hmask = block->hmask + i % 2 * 16;
            unsigned shift = (unsigned)(i % 8 / 2 * 2), bit = (unsigned)(i / 2);
            for (size_t j = 0; j < 16; j++) {
                int low = qs[j] >> shift & 3, high = hmask[j] >> bit & 1;
                dst[16 * i + j] = dl * (float)((low | high << 2) - 4);
            }
        }
    }
}

void pn_decode_q4_k(const void *src, float *dst, size_t n) {
    const pn_block_q4_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float d = pn_block_half(block->d_dmin), dmin = pn_block_half(block->d_dmin + 2);
        uint8_t scale[8], min[8];
        pn_k_scales(block->scales, scale, min);
        for (size_t i = 0; i < 8; i++) {
            float dl = d * (float)scale[i], ml = dmin * (float)min[i];
            const uint8_t *qs = block->qs + i / 2 * 32;
            for (size_t j = 0; j < 32; j++)
                dst[32 * i + j] = dl * (float)(qs[j] >> (i % 2 * 4) & 15) - ml;
        }
    }
}

void pn_decode_q5_k(const void *src, float *dst, size_t n) {
    const pn_block_q5_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float d = pn_block_half(block->d_dmin), dmin = pn_block_half(block->d_dmin + 2);
        uint8_t scale[8], min[8];
        pn_k_scales(block->scales, scale, min);
        for (size_t i = 0; i < 8; i++) {
            float dl = d * (float)scale[i], ml = dmin * (float)min[i];
            const uint8_t *qs = block->qs + i / 2 * 32;
            for (size_t j = 0; j < 32; j++) {
                int low = qs[j] >> (i % 2 * 4) & 15, high = block->qh[j] >> i & 1;
                dst[32 * i + j] = dl * (float)(low | high << 4) - ml;
            }
        }
    }
}

void pn_decode_q6_k(const void *src, float *dst, size_t n) {
    const pn_block_q6_k *block = src;
    for (; n > 0; n -= 256, dst += 256, block++) {
        float d = pn_block_half(block->d);
        for (size_t i = 0; i < 16; i++) {
            const uint8_t *ql = block->ql + i / 8 * 64 + i % 4 * 16,
                          *qh = block->qh + i / 8 * 32 + i % 2 * 16;
            unsigned low_shift = (unsigned)(i % 8 / 4 * 4), high_shift = (unsigned)(i % 8 / 2 * 2);
            float dl = d * (float)block->scales[i];
            for (size_t j = 0; j < 16; j++) {
                int low = ql[j] >> low_shift & 15, high = qh[j] >> high_shift & 3;
                dst[16 * i + j] = dl * (float)((low | high << 4) - 32);
            }
        }
    }
}
