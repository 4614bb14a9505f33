/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_scalar(pn_kernels *table) {
    *table = (pn_kernels){0};
#define PN_KERNEL_SET(slot, class, ret, params) table->slot = pn_##slot##_scalar;
    PN_KERNEL_SLOTS(PN_KERNEL_SET)
#undef PN_KERNEL_SET
#define PN_PANEL(name, ...)                                                                                  \
    table->few[PN_PANEL_##name] = pn_few_##name##_scalar;                                                    \
    table->expand[PN_PANEL_##name] = pn_expand_##name##_scalar;
#include "quant/panels.inc"
#undef PN_PANEL
}
