/* SPDX-License-Identifier: Apache-2.0 */
/* What logits say of the next token, and how far two such distributions are apart. A NaN or an infinity among
   the logits makes the results NaN or infinite: the caller looks at them. */
#ifndef PN_EVAL_DISTRIBUTION_H
#define PN_EVAL_DISTRIBUTION_H

#include "kernels/kernels.h"

/* The softmax of n logits: log-probability of token i = logits[i] - log_sum. */
typedef struct pn_softmax {
    const float *logits;
    size_t n;
    float greatest;
    double log_sum;
} pn_softmax;

/* n >= 1. The logits are borrowed. */
pn_softmax pn_softmax_of(const pn_kernels *kernels, const float *logits, size_t n);
static inline double pn_softmax_log(const pn_softmax *s, int32_t id) {
    return (double)s->logits[id] - s->log_sum;
}
/* The most probable token, the lowest id on a tie. */
int32_t pn_softmax_best(const pn_softmax *s);

/* The divergence of Kullback and Leibler (1951) of `other` from `base` over the same tokens, in nats: sum of
   base * log(base / other). Exactly 0 for equal logits, never negative. */
double pn_divergence(const pn_kernels *kernels, const pn_softmax *base, const pn_softmax *other);

/* A distribution in short: its most probable tokens, and some drawn from all others. */
#define PN_SUMMARY_TOP   32
#define PN_SUMMARY_DRAWN 16
#define PN_SUMMARY_MAX   (PN_SUMMARY_TOP + PN_SUMMARY_DRAWN)
typedef struct pn_summary {
    float target;                    /* log-probability of the token that came in the text */
    float tail;                      /* probability of all tokens but the top ones */
    size_t n_top;                    /* the lesser of PN_SUMMARY_TOP and the vocabulary */
    size_t n_drawn;                  /* 0 when those are all */
    int32_t ids[PN_SUMMARY_MAX];     /* the top ones, the most probable first, then those drawn */
    float log_probs[PN_SUMMARY_MAX]; /* theirs */
} pn_summary;

static inline size_t pn_summary_top(size_t n_vocab) {
    return n_vocab < PN_SUMMARY_TOP ? n_vocab : PN_SUMMARY_TOP;
}
static inline size_t pn_summary_drawn(size_t n_vocab) {
    return n_vocab > PN_SUMMARY_TOP ? PN_SUMMARY_DRAWN : 0;
}

/* Tokens are drawn in proportion to their probability, at even distances beginning by `offset` in [0, 1) of
   one, so that the same call draws the same tokens. */
pn_summary pn_summary_of(const pn_kernels *kernels, const pn_softmax *s, int32_t target, double offset);

/* An estimate of pn_divergence without bias, and never negative. With the tail taken for one token the
   divergence is known: a lower bound, since joining tokens can only bring distributions nearer. What is lost
   is the divergence within the tail, times its probability; of that the tokens drawn give the mean of r - 1 -
   log r, where r is the ratio of their shares of the two tails (Schulman, "Approximating KL Divergence",
   2020): hardly any noise while the two are near, but a token that `other` alone finds probable counts much
   when it is drawn, which is seldom. The summary's log-probabilities may be rounded: they are made to sum to
   one again, so that an error counts by its square. */
double pn_summary_divergence(const pn_summary *base, const pn_softmax *other);

#endif
