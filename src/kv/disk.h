/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in a file: those of a beginning of a text, whole blocks of it, or some of them where others
   lie in other files. What is read back is entered into the tree of prefixes, from which a timeline takes it
   like that of any other.

   Little-endian, nothing between the fields:
     head     "PNKV", u32 version 1; u64 model, an XXH3 of all that keys and values depend on but what
              follows; u32 precision, type, n_layer, n_head_kv, head_dim, window, window_pattern, tokens of a
              block; u64 n_blocks, u64 bytes of the file
     tokens   i32 [n_blocks * PN_KV_BLOCK]
     parts    [n_blocks][PN_KV_LANES] of u64 XXH3 of the block, u32 type, or PN_KV_TYPE_COUNT where it is not
              in the file, u32 0
     u64 XXH3 of all before; then the blocks in the order of the parts, as they lie in memory (layout.h)
   A file is taken for hostile when it is read, and appears when it is whole (base/new_file.h). */
#ifndef PN_KV_DISK_H
#define PN_KV_DISK_H

#include "kv/snapshot.h"

/* What keys and values depend on besides the tokens. */
typedef struct pn_kv_origin {
    uint64_t model;
    pn_precision precision;
    pn_kv_shape shape;
} pn_kv_origin;

/* Hashes of the first 1, 2, ... n_blocks blocks of tokens. */
void pn_kv_chain(const int32_t *tokens, size_t n_blocks, uint64_t *out);

/* ---- writing */

/* Bytes of the file that it would make. */
uint64_t pn_kv_save_bytes(const pn_kv_snapshot *snapshot);
/* Writes it, with the tokens that it is of; if it is private, for the eyes of this user alone. PN_ERR_IO,
   PN_ERR_MEMORY. */
pn_status pn_kv_save(const pn_kv_snapshot *snapshot, const pn_kv_origin *origin, const int32_t *tokens,
                     const char *path, bool is_private, pn_error *err);

/* ---- reading */

typedef struct pn_kv_part {
    uint64_t at, hash;
    pn_kv_type type; /* PN_KV_TYPE_COUNT: not in the file */
} pn_kv_part;

typedef struct pn_kv_file {
    int fd;
    pn_kv_origin origin;
    size_t n_blocks;
    const int32_t *tokens; /* [n_blocks * PN_KV_BLOCK] */
    pn_kv_part *parts;     /* [n_blocks * PN_KV_LANES] */
    uint64_t bytes;
    void *memory; /* behind tokens */
} pn_kv_file;

/* Opens a file of a model, of any type and precision, and checks all of it but the blocks. Of `origin` the
   model counts, and the shape but for its type; messages name the path. PN_ERR_IO: it cannot be read;
   PN_ERR_FORMAT: damaged, or no such file; PN_ERR_UNSUPPORTED: of a later version; PN_ERR_ARGUMENT: of
   another model or kind of machine; PN_ERR_MEMORY. */
pn_status pn_kv_file_open(const char *path, const pn_kv_origin *origin, pn_kv_file *out, pn_error *err);
void pn_kv_file_close(pn_kv_file *file); /* all zero but for fd, which is -1, is fine */
bool pn_kv_file_has(const pn_kv_file *file, size_t block, pn_kv_lane lane);
/* Reads a block that it has into one of its type. PN_ERR_IO, and PN_ERR_FORMAT when it is damaged. */
pn_status pn_kv_file_read(const pn_kv_file *file, size_t block, const pn_kv_block *into, pn_error *err);

/* Where blocks come from when a timeline is restored: fills one with the data of a block of the text. */
typedef struct pn_kv_reader {
    pn_status (*read)(void *user, size_t block, const pn_kv_block *into, pn_error *err);
    void *user;
} pn_kv_reader;

/* As pn_kv_resume, after the first n_blocks of the tokens were read and entered into the tree; those that it
   has already are not read again. *n_resumed is the length of the timeline then, also after a failure: one of
   the reader's, or PN_ERR_MEMORY. Nothing was entered then, and the timeline has what memory has. */
pn_status pn_kv_restore(pn_kv *kv, const pn_kv_reader *reader, size_t n_blocks, const int32_t *tokens,
                        size_t n, size_t *n_resumed, pn_error *err);

#endif
