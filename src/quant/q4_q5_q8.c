/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of 32 weights with one scale and perhaps one offset, both half precision. */
#include "quant/blocks.h"

void pn_decode_q4_0(const void *src, float *dst, size_t n) {
    const pn_block_q4_0 *block = src;
    for (size_t i = 0; i < n; i += 32, block++) {
        float d = pn_block_half(block->d);
        for (size_t j = 0; j < 16; j++) {
            dst[i + j] = d * (float)((block->qs[j] & 15) - 8);
            dst[i + 16 + j] = d * (float)((block->qs[j] >> 4) - 8);
        }
    }
}

void pn_decode_q4_1(const void *src, float *dst, size_t n) {
    const pn_block_q4_1 *block = src;
    for (size_t i = 0; i < n; i += 32, block++) {
        float d = pn_block_half(block->d_m), m = pn_block_half(block->d_m + 2);
        for (size_t j = 0; j < 16; j++) {
            dst[i + j] = d * (float)(block->qs[j] & 15) + m;
            dst[i + 16 + j] = d * (float)(block->qs[j] >> 4) + m;
        }
    }
}

/* Weight j of 32 whose low nibbles are qs and whose fifth bits are qh. */
static int five_bits(const uint8_t qs[16], const uint8_t qh[4], size_t j) {
    int low = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
    int high = qh[j / 8] >> (j % 8) & 1;
    return low | high << 4;
}

void pn_decode_q5_0(const void *src, float *dst, size_t n) {
    const pn_block_q5_0 *block = src;
    for (size_t i = 0; i < n; i += 32, block++) {
        float d = pn_block_half(block->d);
        for (size_t j = 0; j < 32; j++)
            dst[i + j] = d * (float)(five_bits(block->qs, block->qh, j) - 16);
    }
}

void pn_decode_q5_1(const void *src, float *dst, size_t n) {
    const pn_block_q5_1 *block = src;
    for (size_t i = 0; i < n; i += 32, block++) {
        float d = pn_block_half(block->d_m), m = pn_block_half(block->d_m + 2);
        for (size_t j = 0; j < 32; j++)
            dst[i + j] = d * (float)five_bits(block->qs, block->qh, j) + m;
    }
}

void pn_decode_q8_0(const void *src, float *dst, size_t n) {
    const pn_block_q8_0 *block = src;
    for (size_t i = 0; i < n; i += 32, block++) {
        float d = pn_block_half(block->d);
        for (size_t j = 0; j < 32; j++)
            dst[i + j] = d * (float)block->qs[j];
    }
}
