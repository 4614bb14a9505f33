/* SPDX-License-Identifier: Apache-2.0 */
/* A run gives each of its workers a share of the items. What is left of a share is one word that owner and
   thieves count down, together with the number of the run: a worker that comes late finds either chunks of
   the run it came for or nothing. The caller works like the others and then waits until all chunks that were
   taken are done; it does not wait for workers. */
#include "base/pool.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define MAX_THREADS      1024
#define CHUNKS_PER_SHARE 8

#define SPIN_SECONDS  20e-6 /* longer than the gaps between the operations of a layer */
#define SLEEP_SECONDS 1e-3  /* longer than the gap between two tokens */

#define LEFT_BITS 16 /* of a turn; the rest is the number of the run */
#define STOP      (UINT64_MAX >> LEFT_BITS)

/* What a worker does in a run. Chunks are numbered through all shares; the first n_longer have a unit more.
 */
struct job {
    pn_pool_fn fn;
    void *arg;
    size_t chunk_items;
    uint32_t n_longer;
    uint16_t first_chunk; /* of the worker's own share */
    uint16_t n_chunk;     /* in a share */
};

struct worker {
    /* One cache line that the caller fills. The job may be read by who has taken a chunk, until it is done.
     */
    _Alignas(64) atomic_uint_fast64_t turn; /* number of the run, chunks left of the share */
    struct job job;
    /* And one that the worker fills. */
    _Alignas(64) atomic_uint_fast64_t n_done; /* chunks since the pool began */
    atomic_bool asleep;
    _Alignas(64) pn_pool *pool;
    int index;
    pthread_t thread; /* none for the first worker, the caller */
    pthread_cond_t wake;
};

struct pn_pool {
    int n_threads;
    struct worker *workers;
    pthread_mutex_t run_mutex; /* a run at a time */
    uint64_t run;
    uint64_t n_owed; /* chunks that the workers have ever taken, as far as the caller did not do them */
    bool time_waits;
    double waited; /* seconds */
    _Alignas(64) atomic_bool caller_asleep;
    pthread_mutex_t sleep_mutex;
    pthread_cond_t finished;
};

/* ---- waiting ---- */

struct patience {
    unsigned n_spin;
    bool yielding;
    double since;
};

/* False when it is time to sleep. The clock is not asked in the first microsecond or so. */
static bool wait_a_little(struct patience *p) {
    if (p->yielding) {
        sched_yield();
        return pn_clock_seconds() - p->since < SLEEP_SECONDS;
    }
    pn_cpu_pause();
    if (++p->n_spin % 64 != 0) return true;
    double now = pn_clock_seconds();
    if (p->since == 0) p->since = now;
    p->yielding = now - p->since > SPIN_SECONDS;
    return true;
}

static uint64_t run_of(struct worker *w) {
    return atomic_load_explicit(&w->turn, memory_order_acquire) >> LEFT_BITS;
}

static void sleep_until_next(struct worker *self, uint64_t run) {
    pthread_mutex_t *mutex = &self->pool->sleep_mutex;
    pthread_mutex_lock(mutex);
    while (run_of(self) == run) {
        atomic_store_explicit(&self->asleep, true, memory_order_relaxed);
        pthread_cond_wait(&self->wake, mutex);
    }
    atomic_store_explicit(&self->asleep, false, memory_order_relaxed);
    pthread_mutex_unlock(mutex);
}

/* The number of the run after `run`, once there is one. */
static uint64_t next_run(struct worker *self, uint64_t run) {
    struct patience patience = {0};
    while (run_of(self) == run)
        if (!wait_a_little(&patience)) sleep_until_next(self, run);
    return run_of(self);
}

/* A worker that falls asleep just now may be missed: the others do its share, and the next run wakes it. */
static void wake_if_asleep(struct worker *w) {
    if (!atomic_load_explicit(&w->asleep, memory_order_relaxed)) return;
    pthread_mutex_lock(&w->pool->sleep_mutex);
    atomic_store_explicit(&w->asleep, false, memory_order_relaxed);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->pool->sleep_mutex);
}

static bool is_finished(const pn_pool *pool) {
    uint64_t n = 0;
    for (int i = 1; i < pool->n_threads; i++)
        n += atomic_load(&pool->workers[i].n_done);
    return n == pool->n_owed;
}

/* A chunk is done that a worker was pushed off its core with: only that worker can end it. */
static void wait_until_finished(pn_pool *pool) {
    struct patience patience = {0};
    while (!is_finished(pool)) {
        if (wait_a_little(&patience)) continue;
        pthread_mutex_lock(&pool->sleep_mutex);
        atomic_store(&pool->caller_asleep, true);
        while (!is_finished(pool))
            pthread_cond_wait(&pool->finished, &pool->sleep_mutex);
        atomic_store(&pool->caller_asleep, false);
        pthread_mutex_unlock(&pool->sleep_mutex);
    }
}

/* Sequentially consistent on both sides: either the caller sees these chunks before it sleeps, or we see it
   asleep. */
static void report_done(struct worker *self, uint64_t n_done) {
    pn_pool *pool = self->pool;
    atomic_store(&self->n_done, n_done);
    if (!atomic_load(&pool->caller_asleep)) return;
    pthread_mutex_lock(&pool->sleep_mutex);
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->sleep_mutex);
}

/* ---- working ---- */

/* Takes a chunk of a share of this run; *left is how many there were. */
static bool take_chunk(struct worker *owner, uint64_t run, unsigned *left) {
    uint_fast64_t turn = atomic_load_explicit(&owner->turn, memory_order_relaxed);
    do {
        *left = turn & ((1u << LEFT_BITS) - 1);
        if (turn >> LEFT_BITS != run || *left == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&owner->turn, &turn, turn - 1, memory_order_acquire,
                                                    memory_order_relaxed));
    return true;
}

static size_t do_share(struct worker *self, struct worker *owner, uint64_t run) {
    const struct job *job = &self->job;
    unsigned left;
    size_t n = 0;
    for (; take_chunk(owner, run, &left); n++) {
        size_t chunk = owner->job.first_chunk + (job->n_chunk - left);
        size_t begin = chunk * job->chunk_items + (chunk < job->n_longer ? chunk : job->n_longer);
        size_t end = begin + job->chunk_items + (chunk < job->n_longer);
        job->fn(job->arg, begin, end, self->index);
    }
    return n;
}

/* Its own share, then what is left of the others'. Returns the number of chunks done. */
static size_t do_shares(struct worker *self, uint64_t run) {
    pn_pool *pool = self->pool;
    size_t n = 0;
    for (int i = self->index; i < pool->n_threads; i++)
        n += do_share(self, &pool->workers[i], run);
    for (int i = 0; i < self->index; i++)
        n += do_share(self, &pool->workers[i], run);
    return n;
}

static void *worker_main(void *arg) {
    struct worker *self = arg;
    uint64_t n_done = 0;
    for (uint64_t run = 0; (run = next_run(self, run)) != STOP;) {
        size_t n = do_shares(self, run);
        if (n > 0) report_done(self, n_done += n);
    }
    return NULL;
}

static void give_turn(struct worker *w, uint64_t run, size_t n_chunk) {
    atomic_store_explicit(&w->turn, run << LEFT_BITS | n_chunk, memory_order_release);
}

static void run_shared(pn_pool *pool, size_t n_workers, size_t n_chunk, pn_pool_fn fn, void *arg,
                       size_t n_items) {
    size_t n_chunks = n_workers * n_chunk;
    struct job job = {.fn = fn,
                      .arg = arg,
                      .chunk_items = n_items / n_chunks,
                      .n_longer = (uint32_t)(n_items % n_chunks),
                      .n_chunk = (uint16_t)n_chunk};
    pool->run++;
    for (size_t i = n_workers; i-- > 0; give_turn(&pool->workers[i], pool->run, n_chunk)) {
        pool->workers[i].job = job;
        pool->workers[i].job.first_chunk = (uint16_t)(i * n_chunk);
    }
    for (size_t i = 1; i < n_workers; i++)
        wake_if_asleep(&pool->workers[i]);
    pool->n_owed += n_chunks - do_shares(&pool->workers[0], pool->run);
    double begin = pool->time_waits ? pn_clock_seconds() : 0;
    wait_until_finished(pool);
    if (pool->time_waits) pool->waited += pn_clock_seconds() - begin;
}

void pn_pool_run_on(pn_pool *pool, int n_threads, pn_pool_fn fn, void *arg, size_t n_items, size_t grain) {
    if (n_items == 0) return;
    if (n_threads <= 0 || n_threads > pool->n_threads) n_threads = pool->n_threads;
    size_t most = n_items / (grain ? grain : 1),
           n_workers = (size_t)n_threads < most ? (size_t)n_threads : most;
    pthread_mutex_lock(&pool->run_mutex);
    if (n_workers <= 1) {
        fn(arg, 0, n_items, 0);
    } else {
        size_t n_chunk = most / n_workers;
        run_shared(pool, n_workers, n_chunk < CHUNKS_PER_SHARE ? n_chunk : CHUNKS_PER_SHARE, fn, arg,
                   n_items);
    }
    pthread_mutex_unlock(&pool->run_mutex);
}

void pn_pool_run(pn_pool *pool, pn_pool_fn fn, void *arg, size_t n_items, size_t grain) {
    pn_pool_run_on(pool, 0, fn, arg, n_items, grain);
}

void pn_pool_time_waits(pn_pool *pool, bool on) {
    pthread_mutex_lock(&pool->run_mutex);
    pool->time_waits = on;
    pthread_mutex_unlock(&pool->run_mutex);
}

double pn_pool_waited(pn_pool *pool) {
    pthread_mutex_lock(&pool->run_mutex);
    double seconds = pool->waited;
    pthread_mutex_unlock(&pool->run_mutex);
    return seconds;
}

/* ---- beginning and end ---- */

static void stop_workers(pn_pool *pool, int n_started) {
    pthread_mutex_lock(&pool->sleep_mutex);
    for (int i = 1; i < n_started; i++) {
        give_turn(&pool->workers[i], STOP, 0);
        pthread_cond_signal(&pool->workers[i].wake);
    }
    pthread_mutex_unlock(&pool->sleep_mutex);
    for (int i = 1; i < n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

/* Starts a worker with all signals blocked: they belong to the program's own threads, whose waiting calls
   they are to interrupt. */
static bool start_worker(struct worker *w) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = pthread_create(&w->thread, NULL, worker_main, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

static void destroy(pn_pool *pool) {
    for (int i = 0; pool->workers && i < pool->n_threads; i++)
        pthread_cond_destroy(&pool->workers[i].wake);
    pthread_cond_destroy(&pool->finished);
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
    pthread_mutex_init(&pool->run_mutex, NULL);
    pthread_mutex_init(&pool->sleep_mutex, NULL);
    pthread_cond_init(&pool->finished, NULL);
    pool->workers = pn_alloc(PN_MEM_OTHER, (size_t)n_threads, sizeof *pool->workers);
    if (!pool->workers) {
        destroy(pool);
        return pn_fail_memory(err, "thread pool", (uint64_t)n_threads * sizeof *pool->workers);
    }
    for (int i = 0; i < n_threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pthread_cond_init(&pool->workers[i].wake, NULL);
    }
    for (int i = 1; i < n_threads; i++) {
        if (!start_worker(&pool->workers[i])) {
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
