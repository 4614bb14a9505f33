/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of each weight type: block layout, and decoding of a row to float. One file per type family;
   the list is qtypes.inc. Type ids are those of GGUF files. */
#ifndef PN_QUANT_QTYPE_H
#define PN_QUANT_QTYPE_H

#include <stddef.h>
#include <stdint.h>

#define PN_QTYPE_F32 0u /* GGUF id of plain floats, whose rows need no decoding */

typedef struct pn_qtype {
    uint32_t id;          /* as in GGUF */
    const char *name;     /* "Q4_1" */
    uint32_t block_len;   /* weights per block */
    uint32_t block_bytes; /* bytes per block */
    /* Decodes n weights (a multiple of block_len) from src to dst. The specification that every kernel is
       held to. src need not be aligned. */
    void (*decode)(const void *src, float *dst, size_t n);
} pn_qtype;

/* NULL for an id or name this version does not know. */
const pn_qtype *pn_qtype_find(uint32_t id);
/* Name of any id ever used in public files, also of those that cannot be decoded ("IQ2_XXS"), or NULL. For
 * messages. */
const char *pn_qtype_name(uint32_t id);
/* All known types, in order of id. */
const pn_qtype *pn_qtype_at(size_t i); /* NULL past the end */

/* Half and bfloat16 to float, exactly; float to half rounding to nearest even, overflow to infinity. */
float pn_f16_to_f32(uint16_t h);
float pn_bf16_to_f32(uint16_t h);
uint16_t pn_f32_to_f16(float f);

#endif
