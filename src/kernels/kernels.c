/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

#include "base/cpu.h"
#include "kernels/isa.h"

#include <pthread.h>
#include <stdbool.h>

void pn_kernels_init(pn_kernels *table, uint32_t features) {
    pn_kernels_fill_scalar(table);
#if defined(__x86_64__)
    if (features & PN_CPU_AVX2) pn_kernels_fill_avx2(table);
    if (features & PN_CPU_AVXVNNI) pn_kernels_fill_avxvnni(table);
    if (features & PN_CPU_AVX512) pn_kernels_fill_avx512(table);
    if (features & PN_CPU_AVX512VNNI) pn_kernels_fill_avx512vnni(table);
    if (features & PN_CPU_AMX) pn_kernels_fill_amx(table);
#elif defined(__aarch64__)
    if (features & PN_CPU_NEON) pn_kernels_fill_neon(table);
    if (features & PN_CPU_DOTPROD) pn_kernels_fill_dotprod(table);
    if (features & PN_CPU_I8MM) pn_kernels_fill_i8mm(table);
#else
    (void)features;
#endif
}

/* Whether two tables compute the same bits. */
static bool same_bits(const pn_kernels *a, const pn_kernels *b) {
    bool same = true;
#define PN_SAME_EXACT(slot)
#define PN_SAME_BOUNDED(slot)             same = same && a->slot == b->slot;
#define PN_SAME(slot, class, ret, params) PN_SAME_##class(slot)
    PN_KERNEL_SLOTS(PN_SAME)
#undef PN_SAME
#undef PN_SAME_BOUNDED
#undef PN_SAME_EXACT
    return same;
}

const char *pn_kernels_arithmetic(uint32_t features) {
    pn_kernels all, some;
    pn_kernels_init(&all, features);
    for (uint32_t bit = 1; features & ~(bit - 1); bit <<= 1) {
        const uint32_t below = features & (bit - 1);
        pn_kernels_init(&some, below);
        if (same_bits(&all, &some)) return pn_cpu_feature_name(below);
    }
    return pn_cpu_feature_name(features);
}

static pn_kernels host;
static pthread_once_t host_once = PTHREAD_ONCE_INIT;

static void init_host(void) {
    pn_kernels_init(&host, pn_cpu_features());
}

const pn_kernels *pn_kernels_host(void) {
    pthread_once(&host_once, init_host);
    return &host;
}
