/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_rope_pairs_f32_scalar(float *x, const float *cos_sin, size_t n) {
    for (size_t i = 0; i < n; i += 2) {
        float a = x[i], b = x[i + 1], c = cos_sin[i], s = cos_sin[i + 1];
        x[i] = a * c - b * s;
        x[i + 1] = a * s + b * c;
    }
}

void pn_rope_halves_f32_scalar(float *x, const float *cos_sin, size_t n) {
    size_t half = n / 2;
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        x[i] = a * c - b * s;
        x[i + half] = a * s + b * c;
    }
}
