/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token ids and back. One object for all kinds of vocabulary; it knows nothing of files: the caller
   hands over plain arrays. */
#ifndef PN_TEXT_TOKENIZER_H
#define PN_TEXT_TOKENIZER_H

#include "base/slice.h"

/* Numbering as in GGUF's tokenizer.ggml.token_type. */
typedef enum pn_token_kind {
    PN_TOKEN_NORMAL = 1,
    PN_TOKEN_UNKNOWN = 2,
    PN_TOKEN_CONTROL = 3,      /* recognised only in trusted text */
    PN_TOKEN_USER_DEFINED = 4, /* recognised in any text, before everything else */
    PN_TOKEN_UNUSED = 5,
    PN_TOKEN_BYTE = 6 /* "<0x41>": the byte fallback of SentencePiece */
} pn_token_kind;

typedef struct pn_tokenizer_spec {
    pn_str model; /* "gpt2": byte-level BPE; "llama": SentencePiece BPE by scores with byte fallback */
    pn_str pre;   /* name of the pre-tokenizer pattern for "gpt2"; unknown names are refused */
    const pn_str *tokens; /* [n_tokens], borrowed during create only */
    const float *scores;  /* [n_tokens] or NULL */
    const int32_t *kinds; /* [n_tokens] pn_token_kind, or NULL: all normal */
    size_t n_tokens;
    const pn_str *merges; /* [n_merges] "left right", for "gpt2" */
    size_t n_merges;
    int32_t bos_id, eos_id, unk_id; /* -1: none */
    int32_t eot_id, eom_id;         /* end of turn, end of message: end generation like EOS; -1: none */
    bool add_bos, add_space_prefix;
} pn_tokenizer_spec;

typedef struct pn_tokenizer pn_tokenizer;

/* Copies what it needs. PN_ERR_UNSUPPORTED for an unknown model or pre-tokenizer (the message lists the known
   ones). PN_ERR_FORMAT for ids or kinds out of range, control or user-defined tokens past 1024 bytes, merges
   that name no token, scores that are missing or NaN, "llama" byte tokens that are not all there, or neither
   byte tokens nor an unknown token, and a "gpt2" vocabulary without a token for any byte. Empty pieces are
   never found; of tokens spelled alike, the lowest id is. */
pn_status pn_tokenizer_create(const pn_tokenizer_spec *spec, pn_tokenizer **out, pn_error *err);
void pn_tokenizer_free(pn_tokenizer *tok);

typedef struct pn_encode_options {
    bool add_bos; /* when the spec wants one; not doubled when the trusted text already starts with it */
    /* Control tokens are recognised only where they lie wholly inside one of these ranges (sorted, disjoint;
       adjacent ranges count as one). */
    const pn_range *trusted;
    size_t n_trusted;
} pn_encode_options;

/* Encodes any bytes; n log n time, constant stack. options may be NULL: no BOS, nothing trusted. Thread-safe:
   a tokenizer is immutable and each call has its own scratch. Control and user-defined tokens are found from
   the left, the longest first; then "gpt2" encodes what lies between by words, "llama" as one text, with a
   space added in front when add_space_prefix and the text begins there or follows a control token. Plain text
   never becomes a control token (but the unknown one, where a file calls it so). Bytes that are not UTF-8 are
   encoded one by one. Bytes that a "gpt2" vocabulary has no token for are left out (as Hugging Face
   tokenizers does; some vocabularies lack control characters); "llama" uses the unknown token. out->ids is
   freed with pn_tokens_free. PN_ERR_ARGUMENT for trusted ranges out of order or outside the text;
   PN_ERR_LIMIT past 256 MiB. */
pn_status pn_tokenizer_encode(const pn_tokenizer *tok, const char *text, size_t len,
                              const pn_encode_options *options, pn_tokens *out, pn_error *err);

/* Appends the bytes of one token to buf. Control and unknown tokens give nothing unless with_control, then
   their spelling. `first`: the token begins the text or follows a control token, where the space is dropped
   that encode added. PN_ERR_ARGUMENT for an id out of range. decode does so for each token; the text of
   encode comes back byte for byte, but for bytes without a token, and U+2581 in the text, which "llama"
   cannot tell from a space. */
pn_status pn_tokenizer_decode_token(const pn_tokenizer *tok, int32_t id, bool first, bool with_control,
                                    pn_buf *buf, pn_error *err);
pn_status pn_tokenizer_decode(const pn_tokenizer *tok, const int32_t *ids, size_t n, bool with_control,
                              pn_buf *buf, pn_error *err);

/* Id of the token spelled exactly so, or -1. */
int32_t pn_tokenizer_find(const pn_tokenizer *tok, pn_str piece);
/* The token's own spelling in the vocabulary (borrowed), empty for an id out of range. */
pn_str pn_tokenizer_piece(const pn_tokenizer *tok, int32_t id);
/* Whether generation ends here: EOS, EOT or EOM of the spec, or a control or user-defined token of a known
   end-of-turn spelling (<|im_end|>, <end_of_turn>, <|eot_id|>, …; one table). */
bool pn_tokenizer_is_end(const pn_tokenizer *tok, int32_t id);

#endif
