/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of a vocabulary: spelling and kind by id, id by spelling. Private to the tokenizer's files. */
#ifndef PN_TEXT_VOCAB_H
#define PN_TEXT_VOCAB_H

#include "text/tokenizer.h"

typedef struct pn_vocab {
    size_t n;
    char *spellings;   /* all pieces, one after the other */
    uint32_t *offsets; /* [n + 1] into spellings */
    uint8_t *kinds;    /* [n] pn_token_kind */
    uint32_t *slots;   /* [n_slots] open addressing by the hash of the piece: id + 1 and a tag, 0 is free */
    size_t n_slots;    /* a power of two, at least twice n */
    size_t max_len;    /* of the longest piece, bytes */
} pn_vocab;

/* Copies the spec's tokens and kinds. Of pieces spelled alike, the lowest id is found; an empty piece never
   is. PN_ERR_FORMAT for no tokens, too many, or a kind that is none. On failure vocab is empty. */
pn_status pn_vocab_init(pn_vocab *vocab, const pn_tokenizer_spec *spec, pn_error *err);
void pn_vocab_done(pn_vocab *vocab);

int32_t pn_vocab_find(const pn_vocab *vocab, const char *text, size_t len); /* -1: none */
/* The token that plain text may become: a normal, user-defined or unused one (no control token), or -1. */
int32_t pn_vocab_find_plain(const pn_vocab *vocab, const char *text, size_t len);

static inline pn_str pn_vocab_piece(const pn_vocab *vocab, int32_t id) {
    uint32_t begin = vocab->offsets[id];
    return (pn_str){vocab->spellings + begin, vocab->offsets[id + 1] - begin};
}

static inline pn_token_kind pn_vocab_kind(const pn_vocab *vocab, int32_t id) {
    return (pn_token_kind)vocab->kinds[id];
}

/* Token ids in the order of the text. The first push that cannot allocate sticks in `failed`; check once at
 * the end. */
typedef struct pn_token_list {
    int32_t *ids;
    size_t n, cap;
    bool failed;
} pn_token_list;

void pn_token_list_push(pn_token_list *list, int32_t id);

#endif
