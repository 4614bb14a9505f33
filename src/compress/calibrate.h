/* SPDX-License-Identifier: Apache-2.0 */
/* What a model's matrices are multiplied with when it reads text: sequences of calibration tokens go through
   the model layer by layer, so that only one layer is in memory, and each matrix's inputs come from what
   stands before it as it was compressed. */
#ifndef PN_COMPRESS_CALIBRATE_H
#define PN_COMPRESS_CALIBRATE_H

#include "compress/activations.h"
#include "compress/sequences.h"
#include "model/decoder.h"

#include <stddef.h>

/* Matrices that share an input, in the order in which a layer uses them. */
typedef enum pn_site { PN_SITE_QKV, PN_SITE_OUT, PN_SITE_GATE_UP, PN_SITE_DOWN, PN_SITE_COUNT } pn_site;

/* The halves of a layer, each of two sites. */
typedef enum pn_part { PN_PART_ATTENTION, PN_PART_FEED_FORWARD, PN_PART_COUNT } pn_part;
static inline pn_part pn_part_of(pn_site site) {
    return site < PN_SITE_GATE_UP ? PN_PART_ATTENTION : PN_PART_FEED_FORWARD;
}
static inline bool pn_part_ends_with(pn_site site) {
    return site == PN_SITE_OUT || site == PN_SITE_DOWN;
}

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
static inline const pn_weight *pn_layer_matrix_of(const pn_layer *layer, int i) {
    return (const pn_weight *)(const void *)((const char *)layer + pn_matrix_places[i].offset);
}

typedef struct pn_calibration pn_calibration;

/* Tokens that are held out, at most. */
enum { PN_CALIBRATION_MAX_HELDOUT = 512 };

/* Opens the model of float weights at path; the pool is borrowed. The errors of opening a model. */
pn_status pn_calibration_open(const char *path, pn_pool *pool, pn_calibration **out, pn_error *err);
void pn_calibration_close(pn_calibration *c); /* NULL is fine */
const pn_decoder *pn_calibration_decoder(const pn_calibration *c);
const pn_gguf *pn_calibration_file(const pn_calibration *c);
const pn_kernels *pn_calibration_kernels(const pn_calibration *c);

/* Bytes that `n_seq` sequences of seq_len tokens take at most, with the embedding, or a layer as it is read
   and as it is packed again. */
uint64_t pn_calibration_bytes(const pn_calibration *c, size_t n_seq, size_t seq_len);

/* Takes the sequences, which are borrowed, to the first layer. PN_ERR_MEMORY. */
pn_status pn_calibration_begin(pn_calibration *c, const pn_sequences *sequences, pn_error *err);
/* Back there. */
void pn_calibration_rewind(pn_calibration *c);

/* A layer as the file has it, in memory until pn_calibration_leave. */
const pn_layer *pn_calibration_enter(pn_calibration *c, int layer);
void pn_calibration_leave(pn_calibration *c, int layer);

/* Runs the first n_seq of the sequences through a part of a layer: from inputs, or, NULL, from where the
   calibration stands, the watch (or NULL) looking on. outputs, which may be inputs, gets what comes out; both
   are [n_seq, len, n_embd]. */
void pn_calibration_run(pn_calibration *c, const pn_layer *layer, pn_part part, size_t n_seq,
                        const float *inputs, const pn_watch *watch, float *outputs);
/* Takes those sequences on to what came out; or runs all of them there. */
void pn_calibration_take(pn_calibration *c, size_t n_seq, const float *outputs);
void pn_calibration_advance(pn_calibration *c, const pn_layer *layer, pn_part part);

/* The inputs of a site when the part that it is in is run as `layer` has it; held out are the last sequences.
   What it gives lives until the next call. PN_ERR_NUMERIC when they are no numbers. */
pn_status pn_calibration_gather(pn_calibration *c, const pn_layer *layer, pn_site site,
                                const pn_activations **out, pn_error *err);
/* Those of the output head, after the last layer. */
pn_status pn_calibration_gather_head(pn_calibration *c, const pn_activations **out, pn_error *err);

#endif
