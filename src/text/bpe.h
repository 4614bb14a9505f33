/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-level BPE as GPT-2 has it: bytes are spelled by 256 printable characters, words come from the
   pre-tokenizer, and neighbouring tokens merge by the rank of their pair (Sennrich et al., 2016; Hugging Face
   tokenizers' models/bpe). */
#ifndef PN_TEXT_BPE_H
#define PN_TEXT_BPE_H

#include "text/merge.h"
#include "text/pretok.h"
#include "text/vocab.h"

typedef struct pn_merge_rule {
    uint64_t pair; /* left id in the upper half, right id in the lower */
    uint32_t rank; /* 0: free slot; else the place in the file, from 1 */
    int32_t id;    /* of both together */
} pn_merge_rule;

typedef struct pn_bpe {
    const pn_vocab *vocab; /* borrowed */
    pn_pretok *pretok;
    int32_t byte_ids[256]; /* token of each byte, or -1 */
    pn_merge_rule *rules;  /* [n_slots] open addressing by pair */
    size_t n_slots;        /* a power of two */
} pn_bpe;

/* vocab must live as long. PN_ERR_UNSUPPORTED for an unknown pre-tokenizer; PN_ERR_FORMAT when no byte has a
   token, or for a merge that names no token (the message names it). On failure bpe is empty. */
pn_status pn_bpe_init(pn_bpe *bpe, const pn_vocab *vocab, const pn_tokenizer_spec *spec, pn_error *err);
void pn_bpe_done(pn_bpe *bpe);

typedef struct pn_bpe_scratch {
    pn_pretok_scratch *pretok;
    pn_merger merger;
} pn_bpe_scratch;

pn_status pn_bpe_scratch_init(pn_bpe_scratch *scratch, const pn_bpe *bpe, pn_error *err);
void pn_bpe_scratch_done(pn_bpe_scratch *scratch);

/* Appends the tokens of any bytes. Each byte that is not UTF-8 is a word of its own. Bytes that the
   vocabulary has no token for are left out, as Hugging Face tokenizers does. */
pn_status pn_bpe_encode(const pn_bpe *bpe, pn_bpe_scratch *scratch, const char *text, size_t len,
                        pn_token_list *out, pn_error *err);

/* Appends the bytes that a piece spells; a piece with a character outside the alphabet stands for itself. */
pn_status pn_bpe_decode_piece(pn_str piece, pn_buf *buf);

#endif
