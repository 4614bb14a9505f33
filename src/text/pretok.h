/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers of byte-level BPE: how text is cut into the words that merges never cross. Each is a list of
   regular expressions by the name that GGUF's tokenizer.ggml.pre gives it; the second cuts the pieces of the
   first, and so on. A pattern cuts out each of its matches, and what lies between them stays a piece of its
   own. */
#ifndef PN_TEXT_PRETOK_H
#define PN_TEXT_PRETOK_H

#include "base/slice.h"

typedef struct pn_pretok pn_pretok;

/* PN_ERR_UNSUPPORTED for a name that is not in the table; the message lists those that are. */
pn_status pn_pretok_create(pn_str name, pn_pretok **out, pn_error *err);
void pn_pretok_free(pn_pretok *p);

/* Whether a word that is a token as it stands is taken as that token without merging. */
bool pn_pretok_ignores_merges(const pn_pretok *p);

/* The expressions of a name in the table, and whether it ignores merges, for other programs. */
const char *const *pn_pretok_patterns(pn_str name, size_t *n, bool *ignores_merges);

/* Receives the words in order. What it returns other than PN_OK ends the cutting. */
typedef pn_status (*pn_pretok_word_fn)(void *ctx, const char *word, size_t len, pn_error *err);

/* Scratch of one thread: the matcher's state. */
typedef struct pn_pretok_scratch pn_pretok_scratch;
pn_status pn_pretok_scratch_create(const pn_pretok *p, pn_pretok_scratch **out, pn_error *err);
void pn_pretok_scratch_free(pn_pretok_scratch *scratch);

/* Cuts valid UTF-8. Linear time; constant stack. PN_ERR_LIMIT when a pattern takes too many steps. */
pn_status pn_pretok_cut(const pn_pretok *p, pn_pretok_scratch *scratch, const char *text, size_t len,
                        pn_pretok_word_fn word, void *ctx, pn_error *err);

#endif
