/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/hash.h"

#include "base/file.h"
#include "base/mem.h"

#include <xxhash.h>

struct hashing {
    const pn_gguf *file;
    XXH128_hash_t *hashes; /* [tensors] */
};

static void hash_tensors(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct hashing *h = arg;
    for (size_t i = begin; i < end; i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(h->file, i);
        const XXH64_hash_t name = XXH3_64bits_withSeed(t->name.data, t->name.len, t->type);
        h->hashes[i] = XXH3_128bits_withSeed(t->data, (size_t)t->n_bytes, name);
        pn_map_forget(t->data, (size_t)t->n_bytes);
    }
}

pn_status pn_tensors_hash_of(const pn_gguf *file, pn_pool *pool, pn_tensors_hash *out, pn_error *err) {
    const size_t n = pn_gguf_n_tensors(file);
    struct hashing h = {file, pn_alloc(PN_MEM_SCRATCH, n, sizeof *h.hashes)};
    if (!h.hashes) return pn_fail_memory(err, "hash of the tensors", n * sizeof *h.hashes);
    pn_pool_run(pool, hash_tensors, &h, n, 1);
    const XXH128_hash_t hash = XXH3_128bits(h.hashes, n * sizeof *h.hashes);
    *out = (pn_tensors_hash){hash.high64, hash.low64};
    pn_free(h.hashes);
    return PN_OK;
}
