/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece BPE: characters merge into the piece of the highest score, leftmost on a tie; spaces are
   spelled U+2581; characters without a piece fall back to byte tokens (google/sentencepiece, bpe_model.cc and
   sentencepiece_processor.cc, with the identity normaliser). */
#ifndef PN_TEXT_SPM_H
#define PN_TEXT_SPM_H

#include "text/merge.h"
#include "text/vocab.h"

#define PN_SPM_MARKER     "\xE2\x96\x81" /* U+2581, lower one eighth block: a space */
#define PN_SPM_MARKER_LEN ((size_t)3)

typedef struct pn_spm {
    const pn_vocab *vocab; /* borrowed */
    uint32_t *ranks; /* [vocab->n] the order of the scores: lower is merged earlier, equal scores are equal */
    int32_t byte_ids[256];   /* all >= 0, or all -1 */
    int32_t unk_id;          /* >= 0 when there are no byte tokens */
    bool before_marker[256]; /* whether a piece has U+2581 after a character that ends with this byte */
    bool has_unused;
} pn_spm;

/* vocab must live as long. PN_ERR_FORMAT for missing or NaN scores, some but not all byte tokens, or neither
   byte tokens nor an unknown token. On failure spm is empty. */
pn_status pn_spm_init(pn_spm *spm, const pn_vocab *vocab, const pn_tokenizer_spec *spec, pn_error *err);
void pn_spm_done(pn_spm *spm);

typedef struct pn_spm_scratch {
    pn_merger merger;
    pn_buf text;      /* the part being encoded, spaces marked */
    uint32_t *splits; /* [vocab->n] bytes of the left half of each unused piece, 0: not met; NULL until one is
                         met */
    uint32_t *stack;  /* begins and lengths of parts still to be output */
    size_t cap_stack;
    bool unknown_last; /* the last token was the unknown one: the next unknown character joins it */
} pn_spm_scratch;

void pn_spm_scratch_init(pn_spm_scratch *scratch);
void pn_spm_scratch_done(pn_spm_scratch *scratch);

/* Appends the tokens of any bytes between two control or user-defined tokens, with a space before them when
   space_prefix. Bytes that are not UTF-8 become byte tokens, or the unknown token. */
pn_status pn_spm_encode(const pn_spm *spm, pn_spm_scratch *scratch, const char *text, size_t len,
                        bool space_prefix, pn_token_list *out, pn_error *err);

/* Appends the text of a piece of any kind but control and unknown: markers as spaces, byte tokens as their
   byte. drop_space leaves out one marker at the beginning. */
pn_status pn_spm_decode_piece(pn_str piece, pn_token_kind kind, bool drop_space, pn_buf *buf);

#endif
