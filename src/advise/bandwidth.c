/* SPDX-License-Identifier: Apache-2.0 */
/* The memory bandwidth that decode can hope for: linear reads over more memory than the caches hold, several
   streams per thread, since one stream does not keep a core's prefetchers busy. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <stdatomic.h>

#define TOTAL_BYTES ((size_t)256 << 20)
#define N_ROUNDS    5
#define UNIT        ((size_t)4096)

struct reading {
    const pn_kernels *kernels;
    const unsigned char *data;
    int n_stream;
    atomic_uint_fast64_t sink;
};

static void read_range(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    struct reading *r = arg;
    uint64_t x = r->kernels->read_streams(r->data + begin * UNIT, (end - begin) * UNIT, r->n_stream);
    atomic_fetch_xor(&r->sink, x);
}

pn_status pn_measure_bandwidth(int n_threads, double *gb_per_s, pn_error *err) {
    static const int streams[] = {1, 2, 4, 8};
    pn_pool *pool;
    PN_TRY(pn_pool_create(n_threads, &pool, err));
    struct reading r = {.kernels = pn_kernels_host(), .data = pn_alloc(PN_MEM_SCRATCH, TOTAL_BYTES, 1)};
    if (!r.data) {
        pn_pool_free(pool);
        return pn_fail_memory(err, "bandwidth measurement", TOTAL_BYTES);
    }
    double best = 0;
    for (int round = 0; round < N_ROUNDS; round++)
        for (size_t s = 0; s < sizeof streams / sizeof streams[0]; s++) {
            r.n_stream = streams[s];
            double start = pn_clock_seconds();
            pn_pool_run(pool, read_range, &r, TOTAL_BYTES / UNIT, 1);
            double rate = (double)TOTAL_BYTES / (pn_clock_seconds() - start) / 1e9;
            if (rate > best) best = rate;
        }
    pn_free((void *)(uintptr_t)r.data);
    pn_pool_free(pool);
    *gb_per_s = best;
    return PN_OK;
}
