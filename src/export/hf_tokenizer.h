/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json, as the package "tokenizers" reads it, of a file's vocabulary. */
#ifndef PN_EXPORT_HF_TOKENIZER_H
#define PN_EXPORT_HF_TOKENIZER_H

#include "base/new_file.h"
#include "export/hf_model.h"

/* Whether it can be written: PN_ERR_UNSUPPORTED names a token that JSON cannot hold. */
pn_status pn_hf_tokenizer_check(const pn_hf_model *m, pn_error *err);

/* Writes it. Failures of the file stick to it; else only PN_ERR_MEMORY.
   A byte-level vocabulary keeps its merges; those of SentencePiece follow from its pieces: two that are
   pieces together are merged, the piece of the greatest score first. Control tokens are found in any text
   there, since "tokenizers" does not know whom to trust. */
pn_status pn_hf_tokenizer_write(const pn_hf_model *m, pn_new_file *file, pn_error *err);

#endif
