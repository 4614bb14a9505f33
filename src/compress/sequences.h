/* SPDX-License-Identifier: Apache-2.0 */
/* The token sequences that a model reads to be calibrated: pieces of a text, or what it says itself. */
#ifndef PN_COMPRESS_SEQUENCES_H
#define PN_COMPRESS_SEQUENCES_H

#include "format/gguf.h"

#include <postern.h>

typedef struct pn_sequences {
    int32_t *ids;     /* [n, len] */
    size_t n, len;    /* sequences, and tokens of each */
    size_t n_heldout; /* the last ones, for judging: an eighth, one at least */
} pn_sequences;

/* n_seq pieces of seq_len tokens from all over a text of UTF-8, fewer where it is short; any run of them is
   from all over it too. Each begins with the token that the text begins with, as BOS where there is one.
   PN_ERR_ARGUMENT when the text has not enough for two. */
pn_status pn_sequences_from_text(const pn_gguf *file, int n_vocab, pn_str text, size_t n_seq, size_t seq_len,
                                 pn_sequences *out, pn_error *err);

/* What the model at path says by itself, token by token as it deems them likely (temperature 1), from seed
   on. Counts tokens. The errors of opening and running a model. */
pn_status pn_sequences_from_model(const char *path, int n_threads, uint64_t seed, size_t n_seq,
                                  size_t seq_len, pn_progress_fn progress, void *user, pn_sequences *out,
                                  pn_error *err);

/* Room for n sequences. */
pn_status pn_sequences_make(size_t n, size_t len, pn_sequences *out, pn_error *err);
void pn_sequences_free(pn_sequences *s);

#endif
