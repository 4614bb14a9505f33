/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_i8mm(pn_kernels *table) {
    table->matmul_codes = pn_matmul_codes_i8mm;
    table->peak_codes = pn_peak_codes_i8mm;
}
