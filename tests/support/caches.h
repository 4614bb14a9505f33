/* SPDX-License-Identifier: Apache-2.0 */
/* KV caches with a store of their own. */
#ifndef PN_TESTS_CACHES_H
#define PN_TESTS_CACHES_H

#include "support/check.h"

#include "kv/kv.h"

static inline pn_kv open_kv(const pn_kv_shape *shape, size_t max_tokens, size_t n_chunk) {
    pn_kv_store *store;
    pn_kv kv;
    assert_int_equal(pn_kv_store_create(shape, &store, NULL), PN_OK);
    assert_int_equal(pn_kv_init(&kv, store, max_tokens, n_chunk, NULL), PN_OK);
    pn_kv_store_free(store); /* the cache has its share */
    return kv;
}

#endif
