/* SPDX-License-Identifier: Apache-2.0 */
/* One number for all tensors of a file. */
#ifndef PN_WEIGHTS_HASH_H
#define PN_WEIGHTS_HASH_H

#include "base/pool.h"
#include "format/gguf.h"

typedef struct pn_tensors_hash {
    uint64_t high, low;
} pn_tensors_hash;

/* XXH3 of the hashes of the tensors' names, types and bytes, in the file's order. Reads all of the file, and
   gives back its part of the mapping. PN_ERR_MEMORY. */
pn_status pn_tensors_hash_of(const pn_gguf *file, pn_pool *pool, pn_tensors_hash *out, pn_error *err);

#endif
