/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a safetensors file: eight bytes with the length of a JSON header, the header, which says of each
   tensor its type, shape and place, then the tensors' bytes without gaps. The greatest elements come first,
   so that each tensor is aligned for its type. Format: github.com/huggingface/safetensors, "Format" of its
   README.

   Usage: create, add all tensors, then the bytes of each in any order, then finish. Failures stick: bytes may
   be written blindly and finish asked. */
#ifndef PN_FORMAT_SAFETENSORS_H
#define PN_FORMAT_SAFETENSORS_H

#include "base/new_folder.h"
#include "base/slice.h"

typedef enum pn_safetensors_type {
    PN_SAFETENSORS_I64,
    PN_SAFETENSORS_I32,
    PN_SAFETENSORS_F32,
    PN_SAFETENSORS_F16,
    PN_SAFETENSORS_BF16
} pn_safetensors_type;

typedef struct pn_safetensors_writer pn_safetensors_writer;

/* A file of the folder. */
pn_status pn_safetensors_create(const pn_new_folder *folder, const char *name, pn_safetensors_writer **out,
                                pn_error *err);
/* Gives up an unfinished file, or frees a finished writer; NULL is fine. */
void pn_safetensors_free(pn_safetensors_writer *w);

/* A tensor of n_dims <= 2 dimensions, rows first. Its name, "PATH.PART", needs no escapes in JSON. Tensors
   are numbered from 0 in the order of these calls. */
void pn_safetensors_add(pn_safetensors_writer *w, const char *path, const char *part,
                        pn_safetensors_type type, size_t n_dims, const uint64_t *dims);
/* All bytes of tensor i. */
void pn_safetensors_write(pn_safetensors_writer *w, size_t i, const void *bytes);
/* Flushes to the disk and gives the file its name. */
pn_status pn_safetensors_finish(pn_safetensors_writer *w, pn_error *err);

#endif
