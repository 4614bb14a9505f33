/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

#include "base/cpu.h"
#include "kernels/isa.h"

#include <pthread.h>

void pn_kernels_init(pn_kernels *table, uint32_t features) {
    pn_kernels_fill_scalar(table);
#if defined(__x86_64__)
    if (!(features & PN_CPU_AVX2)) return;
    pn_kernels_fill_avx2(table);
    if (features & PN_CPU_AVX512) pn_kernels_fill_avx512(table);
#else
    (void)features;
#endif
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

pn_kernels_decode_fn pn_kernels_decoder(const pn_kernels *table, const pn_qtype *type) {
    return table->decode[type - pn_qtype_at(0)];
}
