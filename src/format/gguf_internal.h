/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the GGUF reader share. */
#ifndef PN_FORMAT_GGUF_INTERNAL_H
#define PN_FORMAT_GGUF_INTERNAL_H

#include "base/cursor.h"
#include "base/file.h"
#include "format/gguf.h"
#include "format/name_index.h"

struct pn_gguf {
    uint32_t version;
    uint32_t n_shards;
    uint64_t file_bytes;
    pn_map *maps; /* [n_maps]: one per shard, or none when the bytes are the caller's */
    uint32_t n_maps;
    pn_gguf_value *keys;
    size_t n_keys;
    pn_name_index key_index;
    pn_gguf_tensor *tensors;
    size_t n_tensors;
    pn_name_index tensor_index; /* over the tensors of all shards; made last */
};

/* Reads and checks one shard, numbered `shard`, into *g, which is all zero; everything but maps and
   tensor_index is filled. On failure *g still needs pn_gguf_done. */
pn_status pn_gguf_read_shard(const uint8_t *bytes, uint64_t len, uint32_t shard, pn_gguf *g, pn_error *err);
/* Makes tensor_index; PN_ERR_FORMAT when a name stands twice. */
pn_status pn_gguf_index_tensors(pn_gguf *g, pn_error *err);
void pn_gguf_done(pn_gguf *g); /* frees what *g holds, not *g */

typedef enum pn_gguf_class {
    PN_GGUF_CLASS_OTHER,
    PN_GGUF_CLASS_U,
    PN_GGUF_CLASS_I,
    PN_GGUF_CLASS_F
} pn_gguf_class;

/* Which member of `as` a type is held in: u, i, f, or another. */
pn_gguf_class pn_gguf_type_class(pn_gguf_type type);
/* Bytes of one number or bool in the file, 0 for the types that are neither. */
uint32_t pn_gguf_type_bytes(pn_gguf_type type);
/* Reads one number or bool of out->type into out->as. */
void pn_gguf_read_number(pn_cursor *c, pn_gguf_value *out);

#endif
