/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent workers with a parallel-for over static ranges: who computes what depends only on the counts,
   never on timing. Waiting threads spin shortly, then yield, then sleep. Workers
   take no signals. */
#ifndef PN_BASE_POOL_H
#define PN_BASE_POOL_H

#include "base/status.h"

#include <stddef.h>

typedef struct pn_pool pn_pool;

/* Work on items [begin, end); `worker` in [0, n_threads) picks a private scratch. */
typedef void (*pn_pool_fn)(void *arg, size_t begin, size_t end, int worker);

/* n_threads counts the calling thread; 0 means pn_cpu_usable_threads(). PN_ERR_ARGUMENT past 1024. */
pn_status pn_pool_create(int n_threads, pn_pool **out, pn_error *err);
void pn_pool_free(pn_pool *pool);
int pn_pool_threads(const pn_pool *pool);

/* Splits [0, n_items) into one contiguous range per worker, each a multiple of `grain` but the last, and
   returns when all are done. Calls from several threads are serialised. Must not be called from inside fn.
   Cannot fail. */
void pn_pool_run(pn_pool *pool, pn_pool_fn fn, void *arg, size_t n_items, size_t grain);

#endif
