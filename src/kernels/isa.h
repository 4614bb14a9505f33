/* SPDX-License-Identifier: Apache-2.0 */
/* What each instruction set brings to the table. Only kernels.c and the instruction-set folders include this.
 */
#ifndef PN_KERNELS_ISA_H
#define PN_KERNELS_ISA_H

#include "kernels/kernels.h"

/* Fills every slot. */
void pn_kernels_fill_scalar(pn_kernels *table);
/* Replaces the slots that the instruction set does faster. */
void pn_kernels_fill_avx2(pn_kernels *table);
void pn_kernels_fill_avx512(pn_kernels *table); /* on top of avx2 */

/* pn_<slot>_scalar for every slot; pn_<slot>_avx2 and pn_<slot>_avx512 for those that the folder's table.c
 * names. */
#define PN_KERNEL_DECLARE(slot, class, ret, params)                                                          \
    ret pn_##slot##_scalar params;                                                                           \
    ret pn_##slot##_avx2 params;                                                                             \
    ret pn_##slot##_avx512 params;
PN_KERNEL_SLOTS(PN_KERNEL_DECLARE)
#undef PN_KERNEL_DECLARE

#endif
