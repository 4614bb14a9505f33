/* SPDX-License-Identifier: Apache-2.0 */
/* Merging of neighbouring symbols, best pair first and leftmost on a tie: what byte-level BPE and
   SentencePiece BPE share. The symbols are a doubly linked list in an array, the candidate pairs a binary
   heap, so n symbols cost O(n log n) whatever the text is; a candidate whose symbols have changed meanwhile
   is dropped when it comes up (as in SentencePiece's bpe_model.cc). Constant stack. */
#ifndef PN_TEXT_MERGE_H
#define PN_TEXT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pn_symbol {
    uint32_t begin, len; /* in the text being merged; len 0: absorbed by its left neighbour */
    int32_t prev, next;  /* -1: none */
    int32_t id;          /* token, or -1 when the vocabulary has none of this spelling */
} pn_symbol;

typedef struct pn_candidate {
    uint64_t order; /* rank in the upper half, left symbol in the lower: the least comes first */
    uint32_t right, len;
    int32_t id;
} pn_candidate;

/* Scratch, kept from one piece of text to the next. Init to {0}. */
typedef struct pn_merger {
    pn_symbol *symbols; /* symbol 0 heads the list: it is never absorbed */
    size_t n_symbols, cap_symbols;
    pn_candidate *heap;
    size_t n_heap, cap_heap;
    bool failed; /* an allocation failed; sticky until pn_merger_begin */
} pn_merger;

/* Whether two neighbours make a token: its id, and its rank (lower is merged earlier). */
typedef bool (*pn_pair_fn)(void *ctx, const pn_symbol *left, const pn_symbol *right, uint32_t *rank,
                           int32_t *id);

void pn_merger_begin(pn_merger *m);
/* Appends a symbol; begin + len must stay below 2^31. */
void pn_merger_add(pn_merger *m, uint32_t begin, uint32_t len, int32_t id);
/* Merges until no pair is left. false: an allocation failed. The result is the list from symbol 0 on. */
bool pn_merger_run(pn_merger *m, pn_pair_fn pair, void *ctx);
void pn_merger_done(pn_merger *m);

#endif
