/* SPDX-License-Identifier: Apache-2.0 */
/* The multiply-adds that prefill can hope for: those of the kernels in use, out of registers alone. */
#include "base/clock.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

#include <stdatomic.h>

#define ROUND_SECONDS 0.004
#define N_ROUNDS      12

struct arithmetic {
    uint64_t (*peak)(size_t n);
    size_t n, repeat; /* peak(n) is called so many times per worker */
    atomic_uint_fast64_t done;
};

static void multiply(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    struct arithmetic *a = arg;
    uint64_t done = 0;
    for (size_t i = 0; i < (end - begin) * a->repeat; i++)
        done += a->peak(a->n);
    atomic_fetch_add(&a->done, done);
}

/* Every worker's share of one round; multiply-adds per second. */
static double measure_round(struct arithmetic *a, pn_pool *pool, double *seconds) {
    atomic_store(&a->done, 0);
    double start = pn_clock_seconds();
    pn_pool_run(pool, multiply, a, (size_t)pn_pool_threads(pool), 1);
    *seconds = pn_clock_seconds() - start;
    return (double)atomic_load(&a->done) / *seconds;
}

pn_status pn_measure_arithmetic(int n_threads, pn_precision precision, double *gmac_per_s, pn_error *err) {
    int n_plane = pn_ops_planes(precision);
    const pn_kernels *kernels = pn_kernels_host();
    struct arithmetic a = {.peak = n_plane ? kernels->peak_codes : kernels->peak_f32, .n = 1, .repeat = 1};
    pn_pool *pool;
    PN_TRY(pn_pool_create(n_threads, &pool, err));
    double seconds = 0, best = 0;
    for (measure_round(&a, pool, &seconds); seconds < ROUND_SECONDS; measure_round(&a, pool, &seconds)) {
        if (a.n < 4096)
            a.n *= 2;
        else
            a.repeat *= 2;
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        double rate = measure_round(&a, pool, &seconds);
        if (rate > best) best = rate;
    }
    pn_pool_free(pool);
    *gmac_per_s = best * 1e-9 / (n_plane == 2 ? 2 : 1); /* a product with two planes is two of bytes */
    return PN_OK;
}
