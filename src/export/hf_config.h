/* SPDX-License-Identifier: Apache-2.0 */
/* The small JSON files of a model's folder. */
#ifndef PN_EXPORT_HF_CONFIG_H
#define PN_EXPORT_HF_CONFIG_H

#include "export/export.h"
#include "export/hf_model.h"

#include <jansson.h>

/* Each is NULL for lack of memory, else the caller's. */

/* config.json: the model's class and sizes, and under quantization_config what was done to which matrices, in
   the words of compressed-tensors' format "pack-quantized". */
json_t *pn_hf_config(const pn_hf_model *m, const pn_export_tensors *tensors);
/* generation_config.json: which tokens end an answer. */
json_t *pn_hf_generation_config(const pn_hf_model *m);
/* tokenizer_config.json: tokens with a role, and the chat template. */
json_t *pn_hf_tokenizer_config(const pn_hf_model *m);

#endif
