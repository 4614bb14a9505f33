/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities of tokens and of their likeliest alternatives. */
#ifndef SERVER_LOGPROBS_H
#define SERVER_LOGPROBS_H

#include <postern.h>

#define LOGPROBS_TOP_MAX 20
/* An entry takes some hundred bytes on its way to the client. */
#define LOGPROBS_ENTRIES_MAX ((size_t)1 << 18)

typedef struct token_logprob {
    int32_t id;
    float logprob; /* natural */
} token_logprob;

typedef struct scored_token {
    token_logprob token;
    bool unscored;                       /* the first of a prompt: nothing predicts it */
    token_logprob top[LOGPROBS_TOP_MAX]; /* [n_top], likeliest first */
    int n_top;
    pn_text piece, top_pieces[LOGPROBS_TOP_MAX]; /* their bytes, which need not be whole characters */
} scored_token;

typedef struct scored_tokens {
    scored_token *items;
    size_t n, cap;
    size_t n_entries; /* tokens and alternatives added since this was set to 0; no more than
                         LOGPROBS_ENTRIES_MAX */
} scored_tokens;

/* What the logits [n_vocab] say of a token, and the n_top <= LOGPROBS_TOP_MAX likeliest. */
void logprobs_score(const float *logits, size_t n_vocab, int32_t id, int n_top, scored_token *out);
/* Adds one with its piece; logits of NULL: unscored. False without memory, or
   when there are too many. */
bool logprobs_add(scored_tokens *list, const pn_model *model, const float *logits, size_t n_vocab, int32_t id,
                  int n_top);
/* Forgets the first n, or all after them. */
void logprobs_drop(scored_tokens *list, size_t n);
void logprobs_keep(scored_tokens *list, size_t n);
void logprobs_free(scored_tokens *list);

#endif
