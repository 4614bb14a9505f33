/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_avxvnni(pn_kernels *table) {
    table->matmul_codes = pn_matmul_codes_avxvnni;
#define PN_PANEL(name, ...) table->few[PN_PANEL_##name] = pn_few_##name##_avxvnni;
#include "quant/panels.inc"
#undef PN_PANEL
    table->peak_codes = pn_peak_codes_avxvnni;
}
