/* SPDX-License-Identifier: Apache-2.0 */
/* What each tensor of a model is to become: which matrices are compressed, to how many bits, in what groups.
 */
#ifndef PN_COMPRESS_PLAN_H
#define PN_COMPRESS_PLAN_H

#include "format/gguf.h"
#include "quant/panel.h"

#include <postern.h>

/* What a tensor is for. */
typedef enum pn_role {
    PN_ROLE_OTHER, /* vectors, and matrices that the packed forms do not fit: copied */
    PN_ROLE_LAYER, /* a matrix of a layer */
    PN_ROLE_EMBEDDING,
    PN_ROLE_HEAD
} pn_role;

typedef struct pn_choice {
    const pn_gguf_tensor *tensor;
    pn_role role;
    bool may_be_split;  /* the output head, the embedding where it serves as that too; not to be exported */
    bool compressed;    /* into kind and group; otherwise kept as it is */
    bool may_be_4_bits; /* one of those that the ratio is about */
    pn_panel_kind kind;
    size_t group;    /* columns that share a scale; 0: all of a row */
    const char *why; /* for the report */
    bool measured;
    double gain;         /* what 8 bits instead of 4 save, by the sensitivity asked for, once measured */
    double error;        /* squared error of the matrix over its squared length, once written */
    double output_error; /* the same of its outputs, with calibration */
    const char *method;  /* how it was rounded: "nearest", "gptq"; NULL where it was not */
    double seconds;      /* that rounding and writing it took */
    float *changed;      /* a vector that is written instead of the file's, or NULL; owned */
    bool written;
} pn_choice;

typedef struct pn_choices {
    pn_choice *items; /* in the order of the file's tensors */
    size_t n;
} pn_choices;

/* Checks the options by themselves. PN_ERR_ARGUMENT names what is wrong and what is possible. */
pn_status pn_compress_check(const pn_compress_options *options, pn_error *err);

/* Gives every tensor its role and, as far as sizes alone decide, its kind and group: everything that may be
   of 4 bits is, until pn_plan_ratio. PN_ERR_UNSUPPORTED names a matrix whose weights are integers already,
   or says that there is none to compress, PN_ERR_ARGUMENT one that the group size does not divide where the
   options want an error. */
pn_status pn_plan_begin(const pn_gguf *file, const pn_compress_options *options, pn_choices *out,
                        pn_error *err);
void pn_plan_done(pn_choices *choices);

/* Whether some matrices of those that may be of 4 bits have to be of 8, so that errors must be known. */
bool pn_plan_needs_errors(const pn_compress_options *options);

/* Turns as many of them into the backup mode as the options' ratio, or target of size, leaves room for: those
   that save the most error, by a knapsack over their sizes. PN_ERR_ARGUMENT when the target is below what 4
   bits everywhere take; it says how much that is. */
pn_status pn_plan_ratio(const pn_compress_options *options, pn_choices *choices, pn_error *err);

/* Columns that share a scale in the backup mode; 0: all of a row. */
size_t pn_backup_group(const pn_compress_options *options);

/* Bytes of a tensor as it is written. */
uint64_t pn_choice_bytes(const pn_choice *choice);
/* The type it is written as; and whether that is its kind in two parts (quant/split.h). */
const pn_qtype *pn_choice_type(const pn_choice *choice);
bool pn_choice_is_split(const pn_choice *choice);
/* Weights of a tensor. */
uint64_t pn_choice_weights(const pn_choice *choice);

#endif
