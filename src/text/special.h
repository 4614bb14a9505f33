/* SPDX-License-Identifier: Apache-2.0 */
/* Finds control and user-defined pieces in text, the longest at each place. The spellings are sorted; a match
   narrows the range of those that still fit, byte by byte. Most bytes of a text begin no piece and cost one
   table look-up, and a place costs at most the longest spelling, which is bounded: the search is linear in
   the text. */
#ifndef PN_TEXT_SPECIAL_H
#define PN_TEXT_SPECIAL_H

#include "text/vocab.h"

#define PN_SPECIAL_MAX_LEN 1024 /* bytes of one control or user-defined piece */

typedef struct pn_special_entry {
    pn_str key; /* the spelling, with U+2581 for every space when marked */
    int32_t id;
    bool control;
} pn_special_entry;

typedef struct pn_special {
    pn_special_entry *entries; /* [n] sorted by key; each key once, with the lowest id */
    size_t n;
    char *marked_keys; /* storage of the keys when marked, else NULL: they lie in the vocabulary */
    bool marked;       /* a space in the text is the same as U+2581, as in SentencePiece's normalised text */
    bool begins[256];  /* whether a key can begin with this byte of text */
} pn_special;

/* vocab must live as long. PN_ERR_FORMAT for a piece past PN_SPECIAL_MAX_LEN. On failure s is empty. */
pn_status pn_special_init(pn_special *s, const pn_vocab *vocab, bool marked, pn_error *err);
void pn_special_done(pn_special *s);

/* Length of the longest piece that text[0..len) begins with, and its id; 0 when there is none. A control
   piece counts only when it lies within the first control_len bytes. */
size_t pn_special_match(const pn_special *s, const char *text, size_t len, size_t control_len, int32_t *id);

#endif
