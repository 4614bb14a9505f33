/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/x86_avx2/decode.h"

static void set_decode(pn_kernels *table, uint32_t id, pn_kernels_decode_fn decode) {
    for (size_t i = 0; i < PN_KERNEL_MAX_TYPES && pn_qtype_at(i); i++) {
        if (pn_qtype_at(i)->id == id) table->decode[i] = decode;
    }
}

void pn_kernels_fill_avx2(pn_kernels *table) {
#define PN_KERNEL_SET(slot, class, ret, params) table->slot = pn_##slot##_avx2;
    PN_KERNEL_SLOTS(PN_KERNEL_SET)
#undef PN_KERNEL_SET
#define PN_AVX2_SET(id, decode) set_decode(table, id, decode);
    PN_AVX2_DECODERS(PN_AVX2_SET)
#undef PN_AVX2_SET
}
