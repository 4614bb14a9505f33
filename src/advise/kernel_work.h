/* SPDX-License-Identifier: Apache-2.0 */
/* Operands for every kernel slot, sized to lie in cache, and one call of each on them. */
#ifndef PN_ADVISE_KERNEL_WORK_H
#define PN_ADVISE_KERNEL_WORK_H

#include "base/status.h"
#include "kernels/kernels.h"

/* What a rate is to be compared with: reads of as many bytes, or the multiply-adds of peak_codes or peak_f32.
 */
typedef enum pn_work_limit { PN_LIMIT_READS, PN_LIMIT_CODES, PN_LIMIT_F32 } pn_work_limit;

/* What one call did; all 0 when nothing. */
typedef struct pn_work {
    uint64_t macs;  /* multiply-adds, 0 where they are not what counts */
    uint64_t bytes; /* read and written */
    pn_work_limit limit;
} pn_work;

typedef struct pn_work_shape {
    const char *name;
    size_t n;                        /* floats of a vector */
    size_t n_col, n_tok;             /* of a matmul */
    size_t n_query, n_key, head_dim; /* of attention, n_key in whole blocks */
} pn_work_shape;

typedef struct pn_operands {
    const pn_kernels *kernels;
    const pn_work_shape *shape;
    float *x, *y, *z; /* [n] each, or what a matmul or attention takes */
    uint16_t *halves; /* as many as x has */
    uint8_t *packed;  /* PN_FEW_PANELS panels of any format */
    pn_inputs inputs; /* n_plane 0: calls of the slots that take them do nothing */
    pn_codes codes;
    void *memory;
} pn_operands;

pn_status pn_operands_create(pn_operands *o, const pn_kernels *kernels, const pn_work_shape *shape,
                             int n_plane, pn_error *err);
void pn_operands_free(pn_operands *o);

typedef enum pn_slot {
#define PN_SLOT_ID(slot, class, ret, params) PN_SLOT_##slot,
    PN_KERNEL_SLOTS(PN_SLOT_ID)
#undef PN_SLOT_ID
        PN_SLOT_COUNT
} pn_slot;

typedef struct pn_slot_work {
    const char *name;
    pn_work (*call)(const pn_operands *o);
} pn_slot_work;
extern const pn_slot_work pn_slot_works[PN_SLOT_COUNT];

/* The slots that there is one of per packed format. */
pn_work pn_call_few(const pn_operands *o, pn_panel_kind format, size_t n_tok);
pn_work pn_call_expand(const pn_operands *o, pn_panel_kind format);

#endif
