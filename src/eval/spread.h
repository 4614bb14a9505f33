/* SPDX-License-Identifier: Apache-2.0 */
/* Mean and standard error of numbers that come one by one (Welford, 1962: no large sums cancel). */
#ifndef PN_EVAL_SPREAD_H
#define PN_EVAL_SPREAD_H

#include <postern.h>

#include <math.h>

typedef struct pn_spread {
    size_t n;
    double mean, squares; /* sum of squared distances from the mean */
} pn_spread;

static inline void pn_spread_add(pn_spread *s, double x) {
    double from_old = x - s->mean;
    s->n++;
    s->mean += from_old / (double)s->n;
    s->squares += from_old * (x - s->mean);
}

/* The mean, and its standard error as if the numbers were independent; 0 of a single one. */
static inline pn_estimate pn_spread_mean(const pn_spread *s) {
    double n = (double)s->n;
    return (pn_estimate){.value = s->mean, .error = s->n > 1 ? sqrt(s->squares / n / (n - 1)) : 0};
}

/* e to that: what a mean of logarithms stands for. */
static inline pn_estimate pn_spread_exp(const pn_spread *s) {
    pn_estimate mean = pn_spread_mean(s);
    double value = exp(mean.value);
    return (pn_estimate){.value = value, .error = value * mean.error};
}

#endif
