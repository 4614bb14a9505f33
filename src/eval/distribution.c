/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/distribution.h"

#include <math.h>
#include <string.h>

#define BLOCK 1024 /* logits whose exponentials are summed in float: they stay in cache */

static size_t block_at(size_t i, size_t n) {
    return n - i < BLOCK ? n - i : BLOCK;
}

pn_softmax pn_softmax_of(const pn_kernels *kernels, const float *logits, size_t n) {
    float e[BLOCK], greatest = kernels->max_f32(logits, n);
    double sum = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t len = block_at(i, n);
        memcpy(e, logits + i, len * sizeof *e);
        sum += (double)kernels->exp_sum_f32(e, len, greatest);
    }
    return (pn_softmax){.logits = logits, .n = n, .greatest = greatest, .log_sum = greatest + log(sum)};
}

int32_t pn_softmax_best(const pn_softmax *s) {
    size_t i = 0;
    while (i + 1 < s->n && s->logits[i] != s->greatest)
        i++;
    return (int32_t)i;
}

/* Sum of e * (a - b) in several independent sums, which a compiler may keep in vectors. */
static double weighted_difference(const float *e, const float *a, const float *b, size_t n) {
    double sums[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += (double)(e[i + j] * (a[i + j] - b[i + j]));
    for (; i < n; i++)
        sum += (double)(e[i] * (a[i] - b[i]));
    for (size_t j = 0; j < 8; j++)
        sum += sums[j];
    return sum;
}

/* With e = exp(base logit - greatest) and S their sum: the mean of base logit - other logit under the weights
   e / S, less the difference of log_sum. A constant between the logits so cancels. */
double pn_divergence(const pn_kernels *kernels, const pn_softmax *base, const pn_softmax *other) {
    float e[BLOCK];
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < base->n; i += BLOCK) {
        size_t len = block_at(i, base->n);
        memcpy(e, base->logits + i, len * sizeof *e);
        sum += (double)kernels->exp_sum_f32(e, len, base->greatest);
        weighted += weighted_difference(e, base->logits + i, other->logits + i, len);
    }
    double divergence = weighted / sum - (base->log_sum - other->log_sum);
    return divergence < 0 ? 0 : divergence; /* by rounding; a NaN stays */
}

/* ---- in short ---- */

/* Puts id behind all that are as probable, and drops the last when there is no room. */
static void insert(pn_summary *out, size_t room, int32_t id, float logit) {
    size_t i = out->n_top < room ? out->n_top++ : room - 1;
    for (; i > 0 && out->log_probs[i - 1] < logit; i--) {
        out->log_probs[i] = out->log_probs[i - 1];
        out->ids[i] = out->ids[i - 1];
    }
    out->log_probs[i] = logit;
    out->ids[i] = id;
}

/* The exponentials of a block of logits, 0 for those of the top; returns their sum. */
static double tail_block(const pn_kernels *kernels, const pn_softmax *s, const pn_summary *top, size_t first,
                         size_t len, float *e) {
    memcpy(e, s->logits + first, len * sizeof *e);
    for (size_t i = 0; i < top->n_top; i++)
        if ((size_t)top->ids[i] - first < len) e[(size_t)top->ids[i] - first] = -INFINITY;
    return (double)kernels->exp_sum_f32(e, len, s->greatest);
}

static double tail_sum(const pn_kernels *kernels, const pn_softmax *s, const pn_summary *top) {
    float e[BLOCK];
    double sum = 0;
    for (size_t i = 0; i < s->n; i += BLOCK)
        sum += tail_block(kernels, s, top, i, block_at(i, s->n), e);
    return sum;
}

/* The tokens at even distances on a line where each of the tail is as long as it is probable; the whole line
   is `sum`. */
static void draw(const pn_kernels *kernels, const pn_softmax *s, double sum, double offset, pn_summary *out) {
    const size_t wanted = pn_summary_drawn(s->n);
    float e[BLOCK];
    double before = 0;
    for (size_t first = 0; first < s->n && out->n_drawn < wanted; first += BLOCK) {
        size_t len = block_at(first, s->n), at = 0;
        double block = tail_block(kernels, s, out, first, len, e), passed = 0;
        while (out->n_drawn < wanted) {
            double point = ((double)out->n_drawn + offset) / (double)wanted * sum - before;
            if (point >= block) break;
            for (; at + 1 < len && passed + (double)e[at] <= point; at++)
                passed += (double)e[at];
            out->ids[out->n_top + out->n_drawn++] = (int32_t)(first + at);
        }
        before += block;
    }
}

pn_summary pn_summary_of(const pn_kernels *kernels, const pn_softmax *s, int32_t target, double offset) {
    pn_summary out = {.target = (float)pn_softmax_log(s, target)};
    const size_t room = pn_summary_top(s->n);
    for (size_t i = 0; i < s->n; i++)
        if (out.n_top < room || s->logits[i] > out.log_probs[room - 1])
            insert(&out, room, (int32_t)i, s->logits[i]);
    double sum = s->n > room ? tail_sum(kernels, s, &out) : 0;
    out.tail = (float)(sum * exp((double)s->greatest - s->log_sum));
    draw(kernels, s, sum, offset, &out);
    for (; out.n_drawn < pn_summary_drawn(s->n);
         out.n_drawn++) /* from a tail of nothing: they do not count */
        out.ids[out.n_top + out.n_drawn] = out.ids[0];
    for (size_t i = 0; i < out.n_top + out.n_drawn; i++)
        out.log_probs[i] = (float)pn_softmax_log(s, out.ids[i]);
    return out;
}

/* The divergence within the tail: `other` has the probability `rest` there. */
static double tail_divergence(const pn_summary *base, const pn_softmax *other, double rest) {
    const double shift = log((double)base->tail) - log(rest);
    double sum = 0;
    for (size_t i = base->n_top; i < base->n_top + base->n_drawn; i++) {
        double log_r = pn_softmax_log(other, base->ids[i]) - (double)base->log_probs[i] + shift;
        sum += expm1(log_r) - log_r;
    }
    return base->n_drawn > 0 ? sum / (double)base->n_drawn : 0;
}

double pn_summary_divergence(const pn_summary *base, const pn_softmax *other) {
    const double tail = (double)base->tail;
    double whole = tail, weighted = 0, rest = 1;
    for (size_t i = 0; i < base->n_top; i++) {
        double p = exp((double)base->log_probs[i]), log_q = pn_softmax_log(other, base->ids[i]);
        whole += p;
        rest -= exp(log_q);
        weighted += p * ((double)base->log_probs[i] - log_q);
    }
    if (rest < 1e-9) rest = 1e-9; /* less is lost in rounding; a NaN stays */
    if (tail > 0) weighted += tail * (log(tail) - log(rest));
    double divergence = weighted / whole - log(whole);
    if (divergence < 0) divergence = 0; /* by rounding */
    return tail > 0 ? divergence + tail / whole * tail_divergence(base, other, rest) : divergence;
}
