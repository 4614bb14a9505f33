/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_amx(pn_kernels *table) {
    table->matmul_codes = pn_matmul_codes_amx;
    table->peak_codes = pn_peak_codes_amx;
}
