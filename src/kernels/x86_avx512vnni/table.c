/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_avx512vnni(pn_kernels *table) {
    table->matmul_codes = pn_matmul_codes_avx512vnni;
#define PN_PANEL(name, ...) table->few[PN_PANEL_##name] = pn_few_##name##_avx512vnni;
#include "quant/panels.inc"
#undef PN_PANEL
    table->peak_codes = pn_peak_codes_avx512vnni;
}
