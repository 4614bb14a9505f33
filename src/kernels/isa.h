/* SPDX-License-Identifier: Apache-2.0 */
/* What each instruction set brings to the table. Only kernels.c and the instruction-set folders include this.
 */
#ifndef PN_KERNELS_ISA_H
#define PN_KERNELS_ISA_H

#include "kernels/kernels.h"

/* Fills every slot. */
void pn_kernels_fill_scalar(pn_kernels *table);
/* Replace the slots that the instruction set does faster, in order of features. */
void pn_kernels_fill_avx2(pn_kernels *table);
void pn_kernels_fill_avxvnni(pn_kernels *table);
void pn_kernels_fill_avx512(pn_kernels *table);
void pn_kernels_fill_avx512vnni(pn_kernels *table);
void pn_kernels_fill_amx(pn_kernels *table);
void pn_kernels_fill_neon(pn_kernels *table);
void pn_kernels_fill_dotprod(pn_kernels *table);
void pn_kernels_fill_i8mm(pn_kernels *table);

/* pn_<slot>_<isa> for every slot, pn_few_<name>_<isa> and pn_expand_<name>_<isa> for every line of
   quant/panels.inc: those that exist are the ones that the table.c of the instruction set's folder names. */
#define PN_FOR_ISAS(X, ...)                                                                                  \
    X(scalar, __VA_ARGS__)                                                                                   \
    X(avx2, __VA_ARGS__)                                                                                     \
    X(avxvnni, __VA_ARGS__)                                                                                  \
    X(avx512, __VA_ARGS__)                                                                                   \
    X(avx512vnni, __VA_ARGS__)                                                                               \
    X(amx, __VA_ARGS__)                                                                                      \
    X(neon, __VA_ARGS__)                                                                                     \
    X(dotprod, __VA_ARGS__)                                                                                  \
    X(i8mm, __VA_ARGS__)

#define PN_SLOT_OF_ISA(isa, slot, ret, params)   ret pn_##slot##_##isa params;
#define PN_KERNEL_DECLARE(slot, class, ret, ...) PN_FOR_ISAS(PN_SLOT_OF_ISA, slot, ret, __VA_ARGS__)
PN_KERNEL_SLOTS(PN_KERNEL_DECLARE)
#undef PN_KERNEL_DECLARE

#define PN_PANEL_OF_ISA(isa, name)                                                                           \
    void pn_few_##name##_##isa(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,           \
                               const pn_inputs *inputs, size_t first, size_t n_tok, float *out);             \
    void pn_expand_##name##_##isa(const uint8_t *panel, pn_panel_shape shape, pn_codes *w);
#define PN_PANEL(name, ...) PN_FOR_ISAS(PN_PANEL_OF_ISA, name)
#include "quant/panels.inc"
#undef PN_PANEL

#endif
