/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <math.h>

/* The integers of one step. Two halves of 8 bits: the low one is taken as signed, which the high one makes
   good, so the greatest integer is 127 * 256 + 127. */
static void quantise_step(const float *x, const pn_inputs *inputs, size_t at, int8_t *low, int8_t *high) {
    float greatest = 0, limit = inputs->n_plane == 2 ? 32639.0f : 127.0f;
    bool finite = true;
    for (size_t i = 0; i < PN_STEP; i++) {
        greatest = fabsf(x[i]) > greatest ? fabsf(x[i]) : greatest;
        finite = finite && isfinite(x[i]);
    }
    bool zero = !finite || greatest < 1e-30f;
    float scale = !finite ? NAN : zero ? 0.0f : greatest / limit, inverse = zero ? 0.0f : limit / greatest;
    int32_t sums[2] = {0};
    for (size_t i = 0; i < PN_STEP; i++) {
        int32_t q = zero ? 0 : (int32_t)rintf(x[i] * inverse);
        sums[i / 16] += q;
        low[i] = (int8_t)q;
        if (inputs->n_plane == 2) high[i] = (int8_t)((q - low[i]) / 256);
    }
    inputs->scale[at] = scale;
    inputs->sum[at] = scale * (float)(sums[0] + sums[1]);
    inputs->bias[at] = -128 * (sums[0] + sums[1]);
    inputs->half[2 * at] = -128 * sums[0];
    inputs->half[2 * at + 1] = -128 * sums[1];
}

void pn_quantise_scalar(const float *x, size_t first, size_t n_tok, const pn_inputs *inputs) {
    size_t n_step = inputs->n_step, row = n_step * PN_STEP;
    for (size_t t = 0; t < n_tok; t++) {
        int8_t *codes = inputs->codes + (first + t) * (size_t)inputs->n_plane * row;
        for (size_t s = 0; s < n_step; s++)
            quantise_step(x + t * row + s * PN_STEP, inputs, (first + t) * n_step + s, codes + s * PN_STEP,
                          codes + row + s * PN_STEP);
    }
}
