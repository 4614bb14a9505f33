/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed models in the formats of other programs. The model is compressed into postern's own format
   first, so that all that is done on the way is done once; then each tensor is brought into the other's form.
 */
#ifndef PN_EXPORT_EXPORT_H
#define PN_EXPORT_EXPORT_H

#include "format/gguf.h"
#include "quant/panel.h"

#include <postern.h>

/* A tensor to be written. */
typedef struct pn_export_tensor {
    const pn_gguf_tensor *tensor; /* compressed: its panels; else as it is written, row by row */
    bool compressed;
    pn_panel_kind kind; /* of a compressed one */
    size_t group;       /* columns that share a scale; 0: all of a row */
} pn_export_tensor;

typedef struct pn_export_tensors {
    pn_export_tensor *items; /* in the order of the files */
    size_t n;
} pn_export_tensors;

/* The tensors of a compressed file, made of source. Matrices that were only packed are the source's. */
pn_status pn_export_tensors_of(const pn_gguf *source, const pn_gguf *compressed, pn_export_tensors *out,
                               pn_error *err);
void pn_export_tensors_done(pn_export_tensors *tensors);

/* Puts what suits the format where the options leave it open, before pn_compress_check. PN_ERR_ARGUMENT: the
   format cannot have it so. */
pn_status pn_export_fit(pn_compress_options *options, pn_error *err);

#endif
