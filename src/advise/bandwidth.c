/* SPDX-License-Identifier: Apache-2.0 */
/* The memory bandwidth that decode can hope for: linear reads over more memory than the caches hold, several
   streams per thread, since one stream does not keep a core's prefetchers busy, from huge pages like those
   that weights lie in. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <string.h>

#define TOTAL_BYTES ((size_t)256 << 20)
#define N_ROUNDS    12
#define UNIT        ((size_t)4096)

struct reading {
    const pn_kernels *kernels;
    unsigned char *data;
    int n_stream;
    atomic_uint_fast64_t sink;
};

static void read_range(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    struct reading *r = arg;
    uint64_t x = r->kernels->read_streams(r->data + begin * UNIT, (end - begin) * UNIT, r->n_stream);
    atomic_fetch_xor(&r->sink, x);
}

/* Pages come from the system as they are first written: until then they are all one, and in cache. */
static void write_range(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct reading *r = arg;
    memset(r->data + begin * UNIT, 1, (end - begin) * UNIT);
}

pn_status pn_measure_bandwidth(int n_threads, double *gb_per_s, pn_error *err) {
    static const int streams[] = {1, 2, 4, 8};
    pn_pool *pool;
    PN_TRY(pn_pool_create(n_threads, &pool, err));
    struct reading r = {.kernels = pn_kernels_host(), .data = pn_pages_alloc(PN_MEM_SCRATCH, TOTAL_BYTES)};
    if (!r.data) {
        pn_pool_free(pool);
        return pn_fail_memory(err, "bandwidth measurement", TOTAL_BYTES);
    }
    pn_pool_run(pool, write_range, &r, TOTAL_BYTES / UNIT, 1);
    double best = 0;
    for (int round = 0; round < N_ROUNDS; round++)
        for (size_t s = 0; s < sizeof streams / sizeof streams[0]; s++) {
            r.n_stream = streams[s];
            double start = pn_clock_seconds();
            pn_pool_run(pool, read_range, &r, TOTAL_BYTES / UNIT, 1);
            double rate = (double)TOTAL_BYTES / (pn_clock_seconds() - start) / 1e9;
            if (rate > best) best = rate;
        }
    pn_pages_free(PN_MEM_SCRATCH, r.data, TOTAL_BYTES);
    pn_pool_free(pool);
    *gb_per_s = best;
    return PN_OK;
}
