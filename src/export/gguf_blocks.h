/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed models as GGUF files of types that all readers of them know, whose blocks have 32 weights of a
   row: INT4_SYM as Q4_0, INT4_ASYM as Q4_1, INT8_SYM as Q8_0. Codes and scales stay as they are; the offset
   of a block of Q4_1, -(d * zero), is rounded to half. */
#ifndef PN_EXPORT_GGUF_BLOCKS_H
#define PN_EXPORT_GGUF_BLOCKS_H

#include "export/export.h"

/* PN_ERR_UNSUPPORTED names a tensor of a type that only postern reads. */
pn_status pn_gguf_blocks_check(const pn_gguf *source, pn_error *err);
/* The type that a tensor has then. */
const pn_qtype *pn_gguf_block_type(const pn_export_tensor *tensor);
/* Writes the file: the source's keys, the tensors and the report. PN_ERR_NUMERIC names a matrix with an
   offset beyond the greatest half. */
pn_status pn_gguf_blocks_write(const char *path, const pn_gguf *source, const pn_export_tensors *tensors,
                               pn_weight_mode mode, const char *report, size_t len, pn_error *err);

#endif
