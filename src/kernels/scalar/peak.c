/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

enum { N_ONES = 64 };

/* Hides from the compiler what the pointer leads to: it would not multiply by what it knows is one. */
static inline const void *hidden(const void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

uint64_t pn_peak_codes_scalar(size_t n) {
    int32_t ones[N_ONES], acc[PN_PANEL_ROWS] = {0};
    for (size_t i = 0; i < N_ONES; i++)
        ones[i] = 1;
    const int32_t *x = hidden(ones);
    for (size_t i = 0; i < n * (PN_PEAK_ROUND / PN_PANEL_ROWS); i++)
        for (size_t r = 0; r < PN_PANEL_ROWS; r++)
            acc[r] += x[r] * x[i % N_ONES];
    uint64_t sum = 0;
    for (size_t r = 0; r < PN_PANEL_ROWS; r++)
        sum += (uint64_t)acc[r];
    return sum;
}

/* A float counts to 2^24, which 4096 rounds spread over 16 of them pass: they are emptied after each. */
uint64_t pn_peak_f32_scalar(size_t n) {
    float ones[N_ONES];
    uint64_t sum = 0;
    for (size_t i = 0; i < N_ONES; i++)
        ones[i] = 1.0f;
    const float *x = hidden(ones);
    for (size_t round = 0; round < n; round++) {
        float acc[PN_PANEL_ROWS] = {0};
        for (size_t i = 0; i < PN_PEAK_ROUND / PN_PANEL_ROWS; i++)
            for (size_t r = 0; r < PN_PANEL_ROWS; r++)
                acc[r] += x[r] * x[i % N_ONES];
        for (size_t r = 0; r < PN_PANEL_ROWS; r++)
            sum += (uint64_t)acc[r];
    }
    return sum;
}
