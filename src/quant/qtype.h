/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of each weight type: block layout, and decoding of a row to float. One file per type family;
   the list is qtypes.inc. Type ids are those of GGUF files. */
#ifndef PN_QUANT_QTYPE_H
#define PN_QUANT_QTYPE_H

#include <stddef.h>
#include <stdint.h>

/* PN_QTYPE_ID_Q4_1 and the like: GGUF's numbers. */
enum {
#define PN_QTYPE(id, name, ...) PN_QTYPE_ID_##name = (id),
#define PN_QTYPE_NAMED(id, name)
#include "quant/qtypes.inc"
#undef PN_QTYPE
#undef PN_QTYPE_NAMED
};

typedef struct pn_qtype {
    uint32_t id;          /* as in GGUF */
    const char *name;     /* "Q4_1" */
    uint32_t block_len;   /* columns per block */
    uint32_t block_bytes; /* bytes per block */
    uint32_t block_rows;  /* rows per block: 1, or 16 for a packed type, whose last rows are padded */
    uint32_t row_bytes;   /* bytes per block_rows rows besides their blocks */
    uint32_t kind;        /* pn_panel_kind of its packed form (quant/panel.h) */
    /* Decodes n weights (a multiple of block_len) from src to dst. The specification that every kernel is
       held to. src need not be aligned. NULL for a packed type: see quant/panel.h. */
    void (*decode)(const void *src, float *dst, size_t n);
} pn_qtype;

/* Packed types have ids of their own far above those of other programs, which refuse them: from this one
   on. */
#define PN_QTYPE_PACKED 0x504e0000u

/* NULL for an id this version does not know. */
const pn_qtype *pn_qtype_find(uint32_t id);
/* Bytes of a tensor with dims[0] columns, a multiple of block_len, dims[1] rows, and dims[2] * dims[3] such
   matrices, which are known not to overflow. */
uint64_t pn_qtype_bytes(const pn_qtype *type, const uint64_t dims[4]);
/* Name of any id ever used in public files, also of those that cannot be decoded ("IQ2_XXS"), or NULL. For
 * messages. */
const char *pn_qtype_name(uint32_t id);
/* All known types in order of id, the packed ones last. */
const pn_qtype *pn_qtype_at(size_t i); /* NULL past the end */

/* Half and bfloat16 to float, exactly; float to half rounding to nearest even, overflow to infinity. */
float pn_f16_to_f32(uint16_t h);
float pn_bf16_to_f32(uint16_t h);
uint16_t pn_f32_to_f16(float f);

#endif
