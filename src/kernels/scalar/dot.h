/* SPDX-License-Identifier: Apache-2.0 */
/* The dot product of the specification: eight partial sums, product k goes to number k mod 8, then pairs are
   added. Any vector unit can follow this order, and it rounds less than one long sum. */
#ifndef PN_KERNELS_SCALAR_DOT_H
#define PN_KERNELS_SCALAR_DOT_H

#include <stddef.h>

static inline float pn_dot_scalar(const float *a, const float *b, size_t k) {
    float s[8] = {0};
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        for (size_t j = 0; j < 8; j++)
            s[j] += a[i + j] * b[i + j];
    }
    for (size_t j = 0; i + j < k; j++)
        s[j] += a[i + j] * b[i + j];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

#endif
