/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of texts that outlive the process: a folder of files, each with the blocks that were new
   when it was written (kv/disk.h), and one file more that the user had baked. Which tokens the files are of
   is known from their heads, read when the model is opened; a chain of hashes finds, and the tokens in the
   file are compared when it is used. Nothing here is an error of what the user asked for: what is damaged is
   removed, what cannot be written is left, and a note says so.

   Several processes may share a folder. What one of them adds, others see when they open a model; what one of
   them removes is merely no longer there. */
#ifndef PN_ENGINE_DISK_H
#define PN_ENGINE_DISK_H

#include "kv/disk.h"

#include "base/mem.h"

typedef struct pn_disk pn_disk;

/* By the options of a model of this identity, whose keys and values have a shape; NULL where they ask for
   nothing. PN_ERR_MEMORY. */
pn_status pn_disk_open(const pn_model_options *options, uint64_t model, const pn_kv_shape *shape,
                       pn_disk **out, pn_error *err);
void pn_disk_free(pn_disk *disk); /* NULL is fine */

void pn_disk_note(pn_disk *disk, const char *fmt, ...) PN_PRINTF(2, 3);
/* Whether texts can be added. */
bool pn_disk_adds(const pn_disk *disk);
/* Tokens of the baked text, if it is of the type and precision, or else 0; *other, which may be NULL: it is
   of others. */
size_t pn_disk_baked(pn_disk *disk, pn_kv_type type, pn_precision precision, bool *other);

/* Which files have the blocks of a text. */
typedef struct pn_disk_cover {
    size_t n_blocks;    /* of the text */
    size_t n_resumable; /* the longest beginning of which they have all that a next token sees */
    uint64_t *chain;    /* [n_blocks] */
    const char **paths; /* [n_blocks * PN_KV_LANES] NULL: none has it */
    bool *parted;       /* [n_blocks] a text in a file goes on from here in another way */
    pn_arena arena;     /* behind all of it */
} pn_disk_cover;
/* False without memory. */
bool pn_disk_find(pn_disk *disk, const pn_kv_origin *origin, const int32_t *tokens, size_t n_blocks,
                  pn_disk_cover *out);
void pn_disk_cover_done(pn_disk_cover *cover);
/* Its files were of use just now, those of the beginning most. */
void pn_disk_touch(const pn_disk_cover *cover, size_t n_blocks);

/* A file turned out not to be what it should: it is known no longer, removed unless the user gave it, and a
   note says why. */
void pn_disk_reject(pn_disk *disk, const char *path, const pn_error *why);
/* Adds what a snapshot holds, of the tokens and with the chain of their cover, removing what was of no use
   for the longest time where that is needed. */
void pn_disk_add(pn_disk *disk, const pn_kv_snapshot *snapshot, const pn_kv_origin *origin,
                 const int32_t *tokens, const uint64_t *chain);

#endif
