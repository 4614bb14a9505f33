/* SPDX-License-Identifier: Apache-2.0 */
/* State: `epoch` counts the runs begun, `n_left` the workers that have not finished the current one.
   A run publishes its job, raises epoch and wakes sleepers; each worker does its range and lowers n_left; the
   caller does range 0 and waits for n_left to be 0. Only the caller, under run_mutex, writes the job. */
#include "base/pool.h"

#include "base/cpu.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define MAX_THREADS  1024
#define SPIN_ROUNDS  2000 /* some tens of microseconds: the gap between two operations of one layer */
#define YIELD_ROUNDS 200  /* then the gap between two tokens on a busy machine */
#define CROWDED_SPIN 20   /* with more threads than CPUs, who spins keeps the CPU from who has work */

struct worker {
    pn_pool *pool;
    pthread_t thread;
    int index;
};

struct pn_pool {
    int n_threads, spin_rounds;
    struct worker *workers; /* [n_threads], the first one is the caller and has no thread */
    pthread_mutex_t run_mutex;

    pn_pool_fn fn;
    void *arg;
    size_t n_items, grain;

    _Alignas(64) atomic_uint epoch;
    _Alignas(64) atomic_int n_left;
    atomic_bool stopping;
    atomic_int n_sleeping;
    pthread_mutex_t sleep_mutex;
    pthread_cond_t wake;
};

/* Contiguous static ranges in units of the grain: worker i takes units [i * n / T, (i + 1) * n / T). */
static void do_range(const pn_pool *pool, int index) {
    size_t units = (pool->n_items + pool->grain - 1) / pool->grain;
    size_t n = (size_t)pool->n_threads, i = (size_t)index;
    size_t begin = units * i / n * pool->grain, end = units * (i + 1) / n * pool->grain;
    if (end > pool->n_items) end = pool->n_items;
    if (begin < end) pool->fn(pool->arg, begin, end, index);
}

static void sleep_until_epoch_changes(pn_pool *pool, unsigned seen) {
    pthread_mutex_lock(&pool->sleep_mutex);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while (atomic_load(&pool->epoch) == seen)
        pthread_cond_wait(&pool->wake, &pool->sleep_mutex);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->sleep_mutex);
}

static void wait_for_run(pn_pool *pool, unsigned seen) {
    for (int i = 0; i < pool->spin_rounds; i++) {
        if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen) return;
        pn_cpu_pause();
    }
    for (int i = 0; i < YIELD_ROUNDS; i++) {
        if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen) return;
        sched_yield();
    }
    sleep_until_epoch_changes(pool, seen);
}

static void *worker_main(void *arg) {
    struct worker *worker = arg;
    pn_pool *pool = worker->pool;
    for (unsigned seen = 0;; seen++) {
        wait_for_run(pool, seen);
        if (atomic_load(&pool->stopping)) return NULL;
        do_range(pool, worker->index);
        atomic_fetch_sub_explicit(&pool->n_left, 1, memory_order_release);
    }
}

/* Sequentially consistent on both sides: either the sleeper sees the new epoch before it waits, or we see it
 * sleeping. */
static void begin_epoch(pn_pool *pool) {
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->n_sleeping) == 0) return;
    pthread_mutex_lock(&pool->sleep_mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->sleep_mutex);
}

void pn_pool_run(pn_pool *pool, pn_pool_fn fn, void *arg, size_t n_items, size_t grain) {
    if (n_items == 0) return;
    pthread_mutex_lock(&pool->run_mutex);
    pool->fn = fn;
    pool->arg = arg;
    pool->n_items = n_items;
    pool->grain = grain ? grain : 1;
    atomic_store(&pool->n_left, pool->n_threads - 1);
    if (pool->n_threads > 1) begin_epoch(pool);
    do_range(pool, 0);
    for (int i = 0; atomic_load_explicit(&pool->n_left, memory_order_acquire) != 0; i++) {
        if (i < pool->spin_rounds)
            pn_cpu_pause();
        else
            sched_yield(); /* a worker was pushed off its core: let it run */
    }
    pthread_mutex_unlock(&pool->run_mutex);
}

static void stop_workers(pn_pool *pool, int n_started) {
    atomic_store(&pool->stopping, true);
    begin_epoch(pool);
    for (int i = 1; i < n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

/* Starts worker i with all signals blocked: they belong to the program's own threads, whose waiting calls
   they are to interrupt. */
static bool start_worker(pn_pool *pool, int i) {
    sigset_t all, old;
    sigfillset(&all);
    pool->workers[i] = (struct worker){.pool = pool, .index = i};
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

static void destroy(pn_pool *pool) {
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->sleep_mutex);
    pthread_mutex_destroy(&pool->run_mutex);
    pn_free(pool->workers);
    pn_free(pool);
}

pn_status pn_pool_create(int n_threads, pn_pool **out, pn_error *err) {
    if (n_threads == 0) n_threads = pn_cpu_usable_threads();
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return pn_fail(err, PN_ERR_ARGUMENT, "%d threads asked for: between 1 and %d are possible", n_threads,
                       MAX_THREADS);
    pn_pool *pool = pn_alloc(PN_MEM_OTHER, 1, sizeof *pool);
    if (!pool) return pn_fail_memory(err, "thread pool", sizeof *pool);
    pool->n_threads = n_threads;
    pool->spin_rounds = n_threads <= pn_cpu_usable_threads() ? SPIN_ROUNDS : CROWDED_SPIN;
    pthread_mutex_init(&pool->run_mutex, NULL);
    pthread_mutex_init(&pool->sleep_mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = pn_alloc(PN_MEM_OTHER, (size_t)n_threads, sizeof *pool->workers);
    if (!pool->workers) {
        destroy(pool);
        return pn_fail_memory(err, "thread pool", (uint64_t)n_threads * sizeof *pool->workers);
    }
    for (int i = 1; i < n_threads; i++) {
        if (!start_worker(pool, i)) {
            stop_workers(pool, i);
            destroy(pool);
            return pn_fail(err, PN_ERR_MEMORY, "cannot start thread %d of %d: ask for fewer threads", i + 1,
                           n_threads);
        }
    }
    *out = pool;
    return PN_OK;
}

void pn_pool_free(pn_pool *pool) {
    if (!pool) return;
    stop_workers(pool, pool->n_threads);
    destroy(pool);
}

int pn_pool_threads(const pn_pool *pool) {
    return pool->n_threads;
}
