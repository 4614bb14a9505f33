/* SPDX-License-Identifier: Apache-2.0 */
/* The file of log-probabilities that stands for a base model: what it said at every scored position of a
   text, in short (pn_summary), so that another model can be compared without the base at hand.

   Little-endian, nothing between the fields:
     header   "PNLP", u32 version 1, n_vocab, n_ctx, n_chunks, precision, n bytes of the name; u64 XXH3 of
              the vocabulary; the name; u64 checksum
     n_chunks times:
              u64 XXH3 of the chunk's token ids (i32); its records; u64 checksum
     record   f32 target, tail, log-probability of the most probable token, span from that to the least of
              those listed; u32 ids[n]; u16 codes[n], 65535ths of the span downward, where n is
              pn_summary_top + pn_summary_drawn
   A checksum is XXH3 of its part, seeded by the one before it (0 for the header). The file is taken for
   hostile when it is read. */
#ifndef PN_EVAL_REFERENCE_H
#define PN_EVAL_REFERENCE_H

#include "base/file.h"
#include "eval/distribution.h"

#define PN_REFERENCE_CTX_MIN 8 /* tokens of a chunk, and the most */
#define PN_REFERENCE_CTX_MAX (1 << 24)

typedef struct pn_reference_head {
    uint32_t n_vocab, n_ctx, n_chunks;
    pn_precision precision;
    uint64_t vocabulary; /* pn_vocabulary_hash */
    char name[128];      /* of the model, NUL-terminated */
} pn_reference_head;

/* Positions of a chunk that are scored: those of its second half that have a next token in it. */
static inline size_t pn_scored_first(size_t n_ctx) {
    return n_ctx / 2;
}
static inline size_t pn_scored_count(size_t n_ctx) {
    return n_ctx - 1 - pn_scored_first(n_ctx);
}

/* Of a chunk's tokens. */
uint64_t pn_tokens_hash(const int32_t *ids, size_t n);

/* ---- writing: for every chunk begin, and add for every scored position */

typedef struct pn_reference_writer pn_reference_writer;

/* The file gets its name at finish (base/new_file.h); failures of writing are told there. */
pn_status pn_reference_create(const char *path, const pn_reference_head *head, pn_reference_writer **out,
                              pn_error *err);
void pn_reference_begin_chunk(pn_reference_writer *w, uint64_t tokens_hash);
/* A summary of the head's vocabulary. */
void pn_reference_add(pn_reference_writer *w, const pn_summary *summary);
pn_status pn_reference_finish(pn_reference_writer *w, pn_error *err);
void pn_reference_writer_free(pn_reference_writer *w); /* NULL is fine */

/* ---- reading */

typedef struct pn_reference {
    pn_map map;
    pn_reference_head head;
    uint64_t chunks_at, chunk_bytes, record_bytes;
} pn_reference;

/* Checks header, length and checksums; errors name the path. PN_ERR_UNSUPPORTED for a later version,
   PN_ERR_FORMAT for what is no such file, cut off or damaged. */
pn_status pn_reference_open(const char *path, pn_reference *out, pn_error *err);
void pn_reference_close(pn_reference *r); /* all zero is fine */
uint64_t pn_reference_tokens_hash(const pn_reference *r, size_t chunk);
/* What was added i-th to a chunk; false when no model can have said so. */
bool pn_reference_get(const pn_reference *r, size_t chunk, size_t i, pn_summary *out);

#endif
