/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PN_KERNELS_AVX512VNNI_DOT_H
#define PN_KERNELS_AVX512VNNI_DOT_H

#include "kernels/x86_avx512/avx512.h"

/* Every lane of sum plus the products of its four unsigned bytes of codes and the four signed ones at x. In
   assembly because gcc 12 would load and spread the four bytes in an instruction of their own. */
PN_AVX512_INLINE __m512i pn_dot_four(__m512i sum, __m512i codes, const int8_t *x) {
    typedef int32_t four __attribute__((aligned(1), may_alias));
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*(const four *)(const void *)x));
    return sum;
}

#endif
