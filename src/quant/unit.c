/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/unit.h"

#include "quant/blocks.h"

/* 32 codes of four bits in 16 bytes. */
static void split_nibbles(const uint8_t qs[16], uint8_t *codes) {
    for (size_t j = 0; j < 16; j++) {
        codes[j] = qs[j] & 15;
        codes[16 + j] = qs[j] >> 4;
    }
}

void pn_unit_read_Q4_0(const void *block, pn_unit *out) {
    const pn_block_q4_0 *b = block;
    out->d = pn_block_u16(b->d);
    split_nibbles(b->qs, out->codes);
}

void pn_unit_read_Q4_1(const void *block, pn_unit *out) {
    const pn_block_q4_1 *b = block;
    out->d = pn_block_u16(b->d_m);
    out->m = pn_block_u16(b->d_m + 2);
    split_nibbles(b->qs, out->codes);
}

void pn_unit_read_IQ4_NL(const void *block, pn_unit *out) {
    const pn_block_iq4_nl *b = block;
    out->d = pn_block_u16(b->d);
    split_nibbles(b->qs, out->codes);
}

static void add_fifth_bits(const uint8_t qh[4], uint8_t *codes) {
    for (size_t j = 0; j < 32; j++)
        codes[j] = (uint8_t)(codes[j] | (qh[j / 8] >> (j % 8) & 1) << 4);
}

void pn_unit_read_Q5_0(const void *block, pn_unit *out) {
    const pn_block_q5_0 *b = block;
    out->d = pn_block_u16(b->d);
    split_nibbles(b->qs, out->codes);
    add_fifth_bits(b->qh, out->codes);
}

void pn_unit_read_Q5_1(const void *block, pn_unit *out) {
    const pn_block_q5_1 *b = block;
    out->d = pn_block_u16(b->d_m);
    out->m = pn_block_u16(b->d_m + 2);
    split_nibbles(b->qs, out->codes);
    add_fifth_bits(b->qh, out->codes);
}

void pn_unit_read_Q8_0(const void *block, pn_unit *out) {
    const pn_block_q8_0 *b = block;
    out->d = pn_block_u16(b->d);
    for (size_t j = 0; j < 32; j++)
        out->codes[j] = (uint8_t)((uint8_t)b->qs[j] ^ 0x80); /* + 128 */
}

/* Two bits of each of 256 codes: pn_block_q2_k's and q3_k's qs. */
static void split_pairs(const uint8_t qs[64], uint8_t *codes) {
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 32; j++)
            codes[32 * i + j] = (uint8_t)(qs[i / 4 * 32 + j] >> (i % 4 * 2) & 3);
}

void pn_unit_read_Q2_K(const void *block, pn_unit *out) {
    const pn_block_q2_k *b = block;
    out->d = pn_block_u16(b->d_dmin);
    out->m = pn_block_u16(b->d_dmin + 2);
    for (size_t i = 0; i < 16; i++) {
        out->scale[i] = (int8_t)(b->scales[i] & 15);
        out->min[i] = (int8_t)(b->scales[i] >> 4);
    }
    split_pairs(b->qs, out->codes);
}

void pn_unit_read_Q3_K(const void *block, pn_unit *out) {
    const pn_block_q3_k *b = block;
    out->d = pn_block_u16(b->d);
    for (size_t i = 0; i < 16; i++) {
        int low = b->scales[i % 8] >> (i / 8 * 4) & 15, high = b->scales[8 + i % 4] >> (i / 4 * 2) & 3;
        out->scale[i] = (int8_t)((low | high << 4) - 32);
    }
    split_pairs(b->qs, out->codes);
    for (size_t i = 0; i < 256; i++)
        out->codes[i] = (uint8_t)(out->codes[i] | (b->hmask[i % 32] >> (i / 32) & 1) << 2);
}

/* 256 codes of four bits: pn_block_q4_k's qs. */
static void split_long_nibbles(const uint8_t qs[128], uint8_t *codes) {
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 32; j++) {
            codes[64 * i + j] = qs[32 * i + j] & 15;
            codes[64 * i + 32 + j] = qs[32 * i + j] >> 4;
        }
}

static void read_k_scales(const uint8_t packed[12], pn_unit *out) {
    uint8_t scale[8], min[8];
    pn_k_scales(packed, scale, min);
    memcpy(out->scale, scale, sizeof scale);
    memcpy(out->min, min, sizeof min);
}

void pn_unit_read_Q4_K(const void *block, pn_unit *out) {
    const pn_block_q4_k *b = block;
    out->d = pn_block_u16(b->d_dmin);
    out->m = pn_block_u16(b->d_dmin + 2);
    read_k_scales(b->scales, out);
    split_long_nibbles(b->qs, out->codes);
}

void pn_unit_read_Q5_K(const void *block, pn_unit *out) {
    const pn_block_q5_k *b = block;
    out->d = pn_block_u16(b->d_dmin);
    out->m = pn_block_u16(b->d_dmin + 2);
    read_k_scales(b->scales, out);
    split_long_nibbles(b->qs, out->codes);
    for (size_t i = 0; i < 256; i++)
        out->codes[i] = (uint8_t)(out->codes[i] | (b->qh[i % 32] >> (i / 32) & 1) << 4);
}

void pn_unit_read_Q6_K(const void *block, pn_unit *out) {
    const pn_block_q6_k *b = block;
    out->d = pn_block_u16(b->d);
    memcpy(out->scale, b->scales, sizeof b->scales);
    for (size_t i = 0; i < 8; i++) { /* runs of 32; four share 64 bytes of ql and 32 of qh */
        const uint8_t *ql = b->ql + i / 4 * 64 + i % 2 * 32, *qh = b->qh + i / 4 * 32;
        for (size_t j = 0; j < 32; j++)
            out->codes[32 * i + j] =
                (uint8_t)((ql[j] >> (i % 4 / 2 * 4) & 15) | (qh[j] >> (i % 4 * 2) & 3) << 4);
    }
}

void pn_unit_read_IQ4_XS(const void *block, pn_unit *out) {
    const pn_block_iq4_xs *b = block;
    unsigned scales_h = pn_block_u16(b->scales_h);
    out->d = pn_block_u16(b->d);
    for (size_t i = 0; i < 8; i++) {
        int low = b->scales_l[i / 2] >> (i % 2 * 4) & 15, high = (int)(scales_h >> (2 * i) & 3);
        out->scale[i] = (int8_t)((low | high << 4) - 32);
        split_nibbles(b->qs + 16 * i, out->codes + 32 * i);
    }
}
