/* SPDX-License-Identifier: Apache-2.0 */
/* Types whose block is one number. */
#include "quant/blocks.h"

#include <string.h>

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float pn_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    if (exponent == 0) return float_of_bits(sign | bits_of_float((float)mantissa * 0x1p-24f));
    if (exponent < 31) return float_of_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
    uint32_t quiet = mantissa ? 1u << 22 : 0; /* a signalling NaN becomes quiet, as the hardware does it */
    return float_of_bits(sign | 0x7f800000u | quiet | mantissa << 13);
}

float pn_bf16_to_f32(uint16_t h) {
    return float_of_bits((uint32_t)h << 16);
}

uint16_t pn_f32_to_f16(float f) {
    uint32_t bits = bits_of_float(f), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t h;
    if (magnitude > 0x7f800000) {
        h = 0x7e00 | (magnitude >> 13 & 0x3ff); /* quiet NaN with what fits of its payload */
    } else if (magnitude >= 0x477ff000) {
        h = 0x7c00; /* 65520, halfway between the greatest half and 2^16, already rounds to infinity */
    } else if (magnitude < 0x38800000) {
        /* Below 2^-14 halves are multiples of 2^-24, which is the spacing of floats in [0.5, 1): the addition
         * rounds. */
        h = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
    } else {
        uint32_t odd = magnitude >> 13 & 1;
        h = ((magnitude + 0xfff + odd) >> 13) - ((127 - 15) << 10);
    }
    return (uint16_t)(sign | h);
}

void pn_decode_f32(const void *src, float *dst, size_t n) {
    if (n > 0) memcpy(dst, src, n * sizeof *dst);
}

void pn_decode_f16(const void *src, float *dst, size_t n) {
    const uint8_t *bytes = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = pn_block_half(bytes + 2 * i);
}

void pn_decode_bf16(const void *src, float *dst, size_t n) {
    const uint8_t *bytes = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = pn_bf16_to_f32(pn_block_u16(bytes + 2 * i));
}
