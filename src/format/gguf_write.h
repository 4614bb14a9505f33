/* SPDX-License-Identifier: Apache-2.0 */
/* Writes GGUF v3: keys and tensor descriptions first, then the tensors' bytes in the same order, as a stream.
   The file gets its name only when it is whole (base/new_file.h).

   Usage: create, add keys and tensors, then for each tensor in order its bytes by any number of
   pn_gguf_write_bytes, then finish. Failures stick: bytes may be written blindly and finish asked. */
#ifndef PN_FORMAT_GGUF_WRITE_H
#define PN_FORMAT_GGUF_WRITE_H

#include "format/gguf.h"

typedef struct pn_gguf_writer pn_gguf_writer;

/* PN_ERR_IO names the path. alignment is that of every tensor: a power of two up
   to 64. */
pn_status pn_gguf_writer_create(const char *path, uint32_t alignment, pn_gguf_writer **out, pn_error *err);
/* The same over what an interrupted process left of that file (pn_new_file_resume). */
pn_status pn_gguf_writer_resume(const char *path, uint32_t alignment, pn_gguf_writer **out, pn_error *err);
/* Gives up an unfinished file, or frees a finished writer; NULL is fine. */
void pn_gguf_writer_free(pn_gguf_writer *w);

/* A key as another file holds it. general.alignment is left out: the writer has its own. */
void pn_gguf_write_key(pn_gguf_writer *w, const pn_gguf_value *value);
void pn_gguf_write_u32(pn_gguf_writer *w, const char *key, uint32_t value);
void pn_gguf_write_str(pn_gguf_writer *w, const char *key, const char *value);
/* A string whose text is known only when the tensors are written: n bytes are kept for it, spaces until
   pn_gguf_fill_text. Once per file. */
void pn_gguf_reserve_text(pn_gguf_writer *w, const char *key, size_t n);
/* Puts the text into its place; spaces follow. It must fit. Before finish. */
void pn_gguf_fill_text(pn_gguf_writer *w, const char *text, size_t len);
/* A tensor of a type that pn_qtype_find knows; its bytes follow from type and dims. */
void pn_gguf_write_tensor(pn_gguf_writer *w, pn_str name, uint32_t type, uint32_t n_dims,
                          const uint64_t dims[PN_GGUF_MAX_DIMS]);

/* All bytes of tensor i, counted from 0 in the order of their descriptions. */
void pn_gguf_write_data(pn_gguf_writer *w, size_t i, const void *bytes);
/* The bytes of tensor i that such a file holds, to be judged by the caller, who may take them as written;
   false when it is too short. After the descriptions of all tensors. */
bool pn_gguf_writer_read(pn_gguf_writer *w, size_t i, void *bytes);
void pn_gguf_writer_take(pn_gguf_writer *w, size_t i);

/* Flushes to the disk and gives the file its name, replacing what had it. */
pn_status pn_gguf_writer_finish(pn_gguf_writer *w, pn_error *err);

#endif
