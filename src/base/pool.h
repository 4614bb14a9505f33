/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent workers with a parallel-for. Every worker has a contiguous share of the items, cut in a few
   chunks; who is through with its own share takes chunks of the others', so a worker whose core is slow or
   busy with something else holds nobody up for longer than one chunk, and one that does not run at all is not
   waited for. Waiting threads spin shortly, then yield, then sleep. Workers take no signals. */
#ifndef PN_BASE_POOL_H
#define PN_BASE_POOL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct pn_pool pn_pool;

/* Work on items [begin, end); `worker` in [0, n_threads) picks a private scratch. Called several times in a
   run, by one worker or by several, each item once: results must depend on the items alone. */
typedef void (*pn_pool_fn)(void *arg, size_t begin, size_t end, int worker);

/* n_threads counts the calling thread; 0 means pn_cpu_usable_threads(). PN_ERR_ARGUMENT past 1024. */
pn_status pn_pool_create(int n_threads, pn_pool **out, pn_error *err);
void pn_pool_free(pn_pool *pool);
int pn_pool_threads(const pn_pool *pool);

/* Does items [0, n_items) and returns when all are done. `grain` is how many items are worth being handed to
   another worker, 1 or more: no range is shorter, and with fewer than twice as many the caller does them
   alone. Calls from several threads are serialised. Must not be called from inside fn. Cannot fail. */
void pn_pool_run(pn_pool *pool, pn_pool_fn fn, void *arg, size_t n_items, size_t grain);
/* The same by the first n_threads workers only, the calling thread among them; 0 or too many means all. The
   others are left asleep. */
void pn_pool_run_on(pn_pool *pool, int n_threads, pn_pool_fn fn, void *arg, size_t n_items, size_t grain);

/* Whether it is timed how long callers wait for the chunks that other workers still have in hand, and how
   many seconds that has been so far. */
void pn_pool_time_waits(pn_pool *pool, bool on);
double pn_pool_waited(pn_pool *pool);

#endif
