/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_scalar(pn_kernels *table) {
    *table = (pn_kernels){0};
#define PN_KERNEL_SET(slot, class, ret, params) table->slot = pn_##slot##_scalar;
    PN_KERNEL_SLOTS(PN_KERNEL_SET)
#undef PN_KERNEL_SET
    for (size_t i = 0; i < PN_KERNEL_MAX_TYPES && pn_qtype_at(i); i++)
        table->decode[i] = pn_qtype_at(i)->decode;
}
