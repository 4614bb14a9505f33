/* SPDX-License-Identifier: Apache-2.0 */
/* The memory bandwidth that decode can hope for: linear reads over more memory than the caches hold, several
   streams per thread, since one stream does not keep a core's prefetchers busy, from huge pages like those
   that weights lie in. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <postern.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LEAST_BYTES   ((size_t)64 << 20)
#define BYTES_PER_RUN ((size_t)1 << 30) /* in all rounds over one number of streams */
#define UNIT          ((size_t)4096)

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

/* Twice the last cache, of which a server has hundreds of MiB, but no more than half of what is free. */
static size_t bytes_to_read(void) {
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t half = pn_memory_available() / 2;
    size_t bytes = (size_t)256 << 20;
    if (cache > 0 && (size_t)cache > bytes / 2) bytes = 2 * (size_t)cache;
    if (half > 0 && bytes > half) bytes = (size_t)half;
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes / UNIT * UNIT;
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
    const size_t bytes = bytes_to_read(), n_rounds = BYTES_PER_RUN / bytes + 1;
    struct reading r = {.kernels = pn_kernels_host(), .data = pn_pages_alloc(PN_MEM_SCRATCH, bytes)};
    if (!r.data) {
        pn_pool_free(pool);
        return pn_fail_memory(err, "bandwidth measurement", bytes);
    }
    pn_pool_run(pool, write_range, &r, bytes / UNIT, 1);
    double best = 0;
    for (size_t round = 0; round < n_rounds; round++)
        for (size_t s = 0; s < sizeof streams / sizeof streams[0]; s++) {
            r.n_stream = streams[s];
            double start = pn_clock_seconds();
            pn_pool_run(pool, read_range, &r, bytes / UNIT, 1);
            double rate = (double)bytes / (pn_clock_seconds() - start) / 1e9;
            if (rate > best) best = rate;
        }
    pn_pages_free(PN_MEM_SCRATCH, r.data, bytes);
    pn_pool_free(pool);
    *gb_per_s = best;
    return PN_OK;
}
