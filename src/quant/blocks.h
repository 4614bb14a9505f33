/* SPDX-License-Identifier: Apache-2.0 */
/* Byte layout of one block of each type, as in GGUF files, and the type's decode function. All members are
   bytes, so a block may lie at any address. Half-precision scales are little-endian; read them with
   pn_block_half.

   d is the scale, m (or dmin) what is added (or subtracted) afterwards, qs the low bits of the weights, qh
   their high bits. Where two weights share a byte of qs, the low nibble is the earlier one. */
#ifndef PN_QUANT_BLOCKS_H
#define PN_QUANT_BLOCKS_H

#include "quant/qtype.h"

#include <string.h>

/* 32 weights; byte j of qs holds weights j and j + 16. */
typedef struct pn_block_q4_0 {
    uint8_t d[2];
    uint8_t qs[16];
} pn_block_q4_0; /* d * (q - 8) */

typedef struct pn_block_q4_1 {
    uint8_t d_m[4]; /* d, then m */
    uint8_t qs[16];
} pn_block_q4_1; /* d * q + m */

/* Bit j of qh, read as a little-endian word, is bit 4 of weight j. */
typedef struct pn_block_q5_0 {
    uint8_t d[2];
    uint8_t qh[4];
    uint8_t qs[16];
} pn_block_q5_0; /* d * (q - 16) */

typedef struct pn_block_q5_1 {
    uint8_t d_m[4]; /* d, then m */
    uint8_t qh[4];
    uint8_t qs[16];
} pn_block_q5_1; /* d * q + m */

typedef struct pn_block_q8_0 {
    uint8_t d[2];
    int8_t qs[32];
} pn_block_q8_0; /* d * q */

/* 256 weights in two halves of 128, each a run of 32 bytes of qs: weight 32 i + j of a half is bits 2 i of
   byte j. Every 16 weights have a byte of scales: low nibble times d, high nibble times dmin. */
typedef struct pn_block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint8_t d_dmin[4]; /* d, then dmin */
} pn_block_q2_k;       /* (d * scale) * q - (dmin * min) */

/* qs as in q2_k. Bit i of byte j of hmask belongs to weight 32 i + j of the 256; it is the weight's bit 2.
   The 16 scales have 6 bits: the low four in nibbles of scales[0..8), the high two in pairs of bits of
   scales[8..12). */
typedef struct pn_block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint8_t d[2];
} pn_block_q3_k; /* (d * (scale - 32)) * (q - 4) */

/* 256 weights in four runs of 64, each 32 bytes of qs: low nibbles first, then high nibbles. Every 32 weights
   have a 6-bit scale and a 6-bit min: number i < 4 in the low bits of scales[i] and scales[4 + i]; number 4 +
   i has its low four bits in the nibbles of scales[8 + i] and its high two on top of those bytes. */
typedef struct pn_block_q4_k {
    uint8_t d_dmin[4]; /* d, then dmin */
    uint8_t scales[12];
    uint8_t qs[128];
} pn_block_q4_k; /* (d * scale) * q - (dmin * min) */

/* As q4_k; bit i of byte j of qh is bit 4 of weight 32 i + j. */
typedef struct pn_block_q5_k {
    uint8_t d_dmin[4]; /* d, then dmin */
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} pn_block_q5_k;

/* 256 weights in two halves of 128, each 64 bytes of ql and 32 of qh: weight 32 i + j of a half has its low
   nibble in byte j + 32 (i % 2) of ql, in the low nibble for i < 2, and its two high bits in bits 2 i of byte
   j of qh. */
typedef struct pn_block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint8_t d[2];
} pn_block_q6_k; /* (d * scale) * (q - 32), one scale per 16 weights */

/* The nibble is an index into pn_iq4_values. */
typedef struct pn_block_iq4_nl {
    uint8_t d[2];
    uint8_t qs[16];
} pn_block_iq4_nl; /* d * value */

/* Eight runs of 32 weights, each laid out like iq4_nl with 16 bytes of qs and a 6-bit scale: low nibbles in
   scales_l, high pairs of bits in the little-endian word scales_h. */
typedef struct pn_block_iq4_xs {
    uint8_t d[2];
    uint8_t scales_h[2];
    uint8_t scales_l[4];
    uint8_t qs[128];
} pn_block_iq4_xs; /* (d * (scale - 32)) * value */

extern const int8_t pn_iq4_values[16];

static inline uint16_t pn_block_u16(const uint8_t bytes[2]) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}
static inline float pn_block_half(const uint8_t bytes[2]) {
    return pn_f16_to_f32(pn_block_u16(bytes));
}

/* The 8 scales and 8 mins of a Q4_K or Q5_K block, four bytes at a time. */
static inline void pn_k_scales(const uint8_t packed[12], uint8_t scale[8], uint8_t min[8]) {
    uint32_t p[3], s[2], m[2];
    memcpy(p, packed, sizeof p);
    s[0] = p[0] & 0x3f3f3f3f;
    m[0] = p[1] & 0x3f3f3f3f;
    s[1] = (p[2] & 0x0f0f0f0f) | (p[0] >> 2 & 0x30303030);
    m[1] = (p[2] >> 4 & 0x0f0f0f0f) | (p[1] >> 2 & 0x30303030);
    memcpy(scale, s, sizeof s);
    memcpy(min, m, sizeof m);
}

/* The decode functions, as pn_qtype.decode. */
#define PN_QTYPE(id, name, block_len, block, decode) void decode(const void *src, float *dst, size_t n);
#define PN_QTYPE_NAMED(id, name)
#include "quant/qtypes.inc"
#undef PN_QTYPE
#undef PN_QTYPE_NAMED

#endif
