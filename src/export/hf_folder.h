/* SPDX-License-Identifier: Apache-2.0 */
/* A compressed model as a folder that transformers and vLLM load: model.safetensors in the format
   "pack-quantized" of compressed-tensors (github.com/vllm-project/compressed-tensors), config.json,
   generation_config.json, tokenizer.json and tokenizer_config.json.

   Of a compressed matrix with rows of n columns in groups the file holds
     weight_packed      int32 [rows, n * bits / 32]: codes, the earlier columns in the lower bits;
     weight_scale       half [rows, groups];
     weight_zero_point  int32 [rows * bits / 32, rounded up, groups], in ASYM kinds: the zero points of the
   rows, the earlier rows in the lower bits; weight_shape       int64 [2]: rows, n. Codes and zero points are
   stored as they are here, counted from 0. */
#ifndef PN_EXPORT_HF_FOLDER_H
#define PN_EXPORT_HF_FOLDER_H

#include "export/export.h"

typedef struct pn_hf_folder pn_hf_folder;

/* Looks whether it can be written, before the work begins. PN_ERR_UNSUPPORTED names what of the model the
   format has no place for; PN_ERR_IO: the path is taken. file and path are borrowed. */
pn_status pn_hf_folder_create(const pn_gguf *file, const char *path, pn_hf_folder **out, pn_error *err);
/* Gives up an unfinished folder, or frees a finished one; NULL is fine. */
void pn_hf_folder_free(pn_hf_folder *f);

/* Writes all of it, and gives the folder its name; the report is in it as postern.compression.report.json. */
pn_status pn_hf_folder_write(pn_hf_folder *f, const pn_export_tensors *tensors, const char *report,
                             size_t len, pn_error *err);

/* Bytes of a tensor in the file, and what the report calls its type. */
uint64_t pn_hf_bytes(const pn_export_tensor *tensor);
const char *pn_hf_type_name(const pn_export_tensor *tensor);

#endif
