/* SPDX-License-Identifier: Apache-2.0 */
/* What a model's matrices are multiplied with when it reads text: sequences of calibration tokens go through
   the model layer by layer, so that only one layer is in memory, and each layer's inputs come from the layers
   before it as they were compressed. */
#ifndef PN_COMPRESS_CALIBRATE_H
#define PN_COMPRESS_CALIBRATE_H

#include "compress/gram.h"
#include "model/decoder.h"

#include <stddef.h>

/* Matrices that share an input. */
typedef enum pn_site { PN_SITE_QKV, PN_SITE_OUT, PN_SITE_GATE_UP, PN_SITE_DOWN, PN_SITE_COUNT } pn_site;

/* The matrices of a layer, in the order of pn_layer. */
enum { PN_LAYER_MATRICES = 7 };
typedef struct pn_matrix_place {
    const char *suffix; /* of the tensor's name, after "blk.N." */
    size_t offset;      /* of the pn_weight in pn_layer */
    pn_site site;
} pn_matrix_place;
extern const pn_matrix_place pn_matrix_places[PN_LAYER_MATRICES];
static inline pn_weight *pn_layer_matrix(pn_layer *layer, int i) {
    return (pn_weight *)(void *)((char *)layer + pn_matrix_places[i].offset);
}

typedef struct pn_calibration_options {
    const char *text; /* [text_len] UTF-8 */
    size_t text_len;
    size_t n_seq, seq_len; /* sequences, taken from all over the text, and tokens of each */
} pn_calibration_options;

typedef struct pn_calibration pn_calibration;

/* Opens the model of float weights at path and takes its embedding of the text. The pool is borrowed.
   PN_ERR_ARGUMENT when the text is too short; the errors of opening a model. */
pn_status pn_calibration_open(const char *path, const pn_calibration_options *options, pn_pool *pool,
                              pn_calibration **out, pn_error *err);
void pn_calibration_close(pn_calibration *c); /* NULL is fine */

int pn_calibration_n_layer(const pn_calibration *c);
const pn_kernels *pn_calibration_kernels(const pn_calibration *c);

/* Loads a layer's matrices and runs it over all sequences; the second moments of its inputs are in
   pn_calibration_gram until the next layer is observed. With `on` the sequences are at the next layer then,
   and this one is unloaded. */
void pn_calibration_observe(pn_calibration *c, int layer, bool on);
pn_gram *pn_calibration_gram(pn_calibration *c, pn_site site);
/* The layer as it was loaded. */
const pn_layer *pn_calibration_layer(const pn_calibration *c, int layer);
/* Runs the sequences through the layer with these matrices, to the next one, and unloads it. */
void pn_calibration_advance(pn_calibration *c, const pn_layer *with, int layer);
/* Back to the embedding. */
void pn_calibration_rewind(pn_calibration *c);

#endif
