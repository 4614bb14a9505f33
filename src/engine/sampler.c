/* SPDX-License-Identifier: Apache-2.0 */
/* Logits to one token. The order of the steps is documented at pn_sampling in postern.h; each step narrows a
   list of candidates and always leaves at least one. The vocabulary is never sorted, and hardly ever copied:
   vectors find its greatest logits, and only what can still be drawn becomes a candidate. */
#include "engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate {
    float logit;  /* after apply_temperature relative to the greatest and divided by the temperature */
    float weight; /* exp(logit) then: the unnormalised probability */
    int32_t id;
} candidate;

struct pn_sampler {
    const pn_kernels *kernels;
    size_t n_vocab;
    candidate *candidates; /* [n_vocab] the list that the steps narrow */
    size_t n;
    bool sorted;     /* descending */
    float *scratch;  /* [n_vocab] */
    int32_t *counts; /* [n_vocab] how often a token occurs in the penalty window; all zero between calls */
};

pn_status pn_sampler_create(const pn_kernels *kernels, size_t n_vocab, pn_sampler **out, pn_error *err) {
    pn_sampler *s = pn_alloc(PN_MEM_SCRATCH, 1, sizeof *s);
    if (!s) return pn_fail_memory(err, "sampler", sizeof *s);
    s->kernels = kernels;
    s->n_vocab = n_vocab;
    s->candidates = pn_alloc(PN_MEM_SCRATCH, n_vocab, sizeof *s->candidates);
    s->counts = pn_alloc(PN_MEM_SCRATCH, n_vocab, sizeof *s->counts);
    s->scratch = pn_alloc(PN_MEM_SCRATCH, n_vocab, sizeof *s->scratch);
    if (!s->candidates || !s->counts || !s->scratch) {
        pn_sampler_free(s);
        return pn_fail_memory(err, "sampler", pn_sampler_bytes(n_vocab));
    }
    *out = s;
    return PN_OK;
}

void pn_sampler_free(pn_sampler *s) {
    if (!s) return;
    pn_free(s->candidates);
    pn_free(s->counts);
    pn_free(s->scratch);
    pn_free(s);
}

uint64_t pn_sampler_bytes(size_t n_vocab) {
    return sizeof(pn_sampler) + n_vocab * (sizeof(candidate) + sizeof(int32_t) + sizeof(float));
}

pn_sampling pn_sampling_default(void) {
    return (pn_sampling){.temperature = 0.8f,
                         .top_k = 40,
                         .top_p = 0.95f,
                         .min_p = 0.05f,
                         .repeat_penalty = 1.0f,
                         .penalty_last_n = 64};
}

static pn_status check_range(const char *name, double value, double min, double max, pn_error *err) {
    if (value >= min && value <= max) return PN_OK; /* false for NaN */
    return pn_fail(err, PN_ERR_ARGUMENT, "%s is %.10g: expected %.10g to %.10g", name, value, min, max);
}

pn_status pn_sampling_check(const pn_sampling *o, size_t n_vocab, pn_error *err) {
    PN_TRY(check_range("temperature", (double)o->temperature, 0, 100, err));
    PN_TRY(check_range("top_k", o->top_k, 0, INT32_MAX, err));
    PN_TRY(check_range("top_p", (double)o->top_p, 0, 1, err));
    PN_TRY(check_range("min_p", (double)o->min_p, 0, 1, err));
    PN_TRY(check_range("repeat_penalty", (double)o->repeat_penalty, (double)1e-6f, 100, err));
    PN_TRY(check_range("presence_penalty", (double)o->presence_penalty, -100, 100, err));
    PN_TRY(check_range("frequency_penalty", (double)o->frequency_penalty, -100, 100, err));
    PN_TRY(check_range("penalty_last_n", o->penalty_last_n, -1, INT32_MAX, err));
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        const pn_logit_bias *bias = &o->logit_bias[i];
        if (bias->id < 0 || (size_t)bias->id >= n_vocab)
            return pn_fail(err, PN_ERR_ARGUMENT, "logit_bias names token %d: the vocabulary has ids 0 to %zu",
                           (int)bias->id, n_vocab - 1);
        if (!(bias->bias < INFINITY)) /* true for NaN */
            return pn_fail(err, PN_ERR_ARGUMENT, "logit_bias of token %d is %g: expected a number or -inf",
                           (int)bias->id, (double)bias->bias);
    }
    return PN_OK;
}

/* ---- steps over all logits ---- */

static pn_status check_numbers(const pn_sampler *s, const float *logits, pn_error *err) {
    int bad = 0; /* whole passes without a branch become vectors */
    for (size_t i = 0; i < s->n_vocab; i++)
        bad |= logits[i] != logits[i];
    if (!bad) return PN_OK;
    size_t i = 0;
    while (!isnan(logits[i]))
        i++;
    return pn_fail(
        err, PN_ERR_NUMERIC,
        "the model gave a NaN for token %zu: its weights are broken, or a key or value passed what a "
        "half holds and the KV cache must be f32",
        i);
}

/* A ban is set, not added: a logit that overflowed to infinity would become NaN. */
static void add_bias(const pn_sampling *o, float *logits) {
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        float bias = o->logit_bias[i].bias, *logit = &logits[o->logit_bias[i].id];
        *logit = isinf(bias) ? bias : *logit + bias;
    }
}

static bool has_penalties(const pn_sampling *o) {
    return o->repeat_penalty != 1.0f || o->frequency_penalty != 0.0f || o->presence_penalty != 0.0f;
}

/* Repeat penalty as in CTRL (Keskar et al., 2019), frequency and presence as in the OpenAI interface. */
static void penalise(pn_sampler *s, const pn_sampling *o, const int32_t *history, size_t n_history,
                     float *logits) {
    size_t n = o->penalty_last_n < 0 || (size_t)o->penalty_last_n > n_history ? n_history
                                                                              : (size_t)o->penalty_last_n;
    const int32_t *window = history + (n_history - n);
    for (size_t i = 0; i < n; i++)
        s->counts[window[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t count = s->counts[window[i]];
        if (count == 0) continue; /* done at an earlier place */
        s->counts[window[i]] = 0;
        float *logit = &logits[window[i]];
        *logit = *logit > 0 ? *logit / o->repeat_penalty : *logit * o->repeat_penalty;
        *logit -= (float)count * o->frequency_penalty + o->presence_penalty;
    }
}

/* The logits with bias and penalties: in scratch, or as given where there are none. */
static const float *adjust(pn_sampler *s, const pn_sampling *o, const float *logits, const int32_t *history,
                           size_t n_history) {
    if (o->n_logit_bias == 0 && !has_penalties(o)) return logits;
    memcpy(s->scratch, logits, s->n_vocab * sizeof *logits);
    add_bias(o, s->scratch);
    if (has_penalties(o)) penalise(s, o, history, n_history, s->scratch);
    return s->scratch;
}

static int32_t greatest(const pn_sampler *s, const float *logits) {
    float max = s->kernels->max_f32(logits, s->n_vocab);
    int32_t i = 0;
    while (logits[i] != max)
        i++;
    return i;
}

pn_top pn_sampling_top(const pn_sampling *o) {
    if (o->n_logit_bias > 0 || has_penalties(o)) return (pn_top){0};
    if (o->temperature == 0.0f) return (pn_top){.n = 1, .margin = INFINITY};
    const float slack = 1.001f; /* for the rounding of weights */
    float margin = o->min_p > 0 ? -logf(o->min_p) * o->temperature * slack : INFINITY;
    return (pn_top){.n = (size_t)o->top_k, .margin = margin};
}

/* ---- steps that narrow ---- */

static bool before(candidate a, candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(candidate *heap, size_t n, size_t i) {
    candidate moving = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], moving)) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

static void make_heap(candidate *heap, size_t n) {
    for (size_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
}

/* Moves the greatest of heap[0..n) to heap[n-1]. */
static void pop(candidate *heap, size_t n) {
    candidate top = heap[0];
    heap[0] = heap[n - 1];
    sift_down(heap, n - 1, 0);
    heap[n - 1] = top;
}

/* The last n_popped candidates were popped, so they ascend from front to back: brings them to the front,
 * descending. */
static void keep_popped(pn_sampler *s, size_t n_popped) {
    candidate *first = s->candidates + (s->n - n_popped);
    for (size_t i = 0, j = n_popped - 1; i < j; i++, j--) {
        candidate swap = first[i];
        first[i] = first[j];
        first[j] = swap;
    }
    memmove(s->candidates, first, n_popped * sizeof *first);
    s->n = n_popped;
    s->sorted = true;
}

/* Puts a candidate that beats the last of a heap in its place: the heap's root is the one that all others are
   before. */
static void replace_last(candidate *heap, size_t n, candidate fresh) {
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child], heap[child + 1])) child++;
        if (!before(fresh, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = fresh;
}

static int compare(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return before(*y, *x) - before(*x, *y);
}

/* The k greatest become the candidates. A block whose greatest is no better than the last of the k so far, as
   almost all are, is passed over. */
static void take_top_k(pn_sampler *s, const float *logits, size_t k) {
    enum { BLOCK = 128 };
    candidate *heap = s->candidates;
    for (size_t i = 0; i < k; i++)
        heap[i] = (candidate){.logit = logits[i], .id = (int32_t)i};
    qsort(heap, k, sizeof *heap, compare);
    for (size_t i = 0; i < k / 2; i++) { /* ascending: a heap with the last one as its root */
        candidate swap = heap[i];
        heap[i] = heap[k - 1 - i];
        heap[k - 1 - i] = swap;
    }
    for (size_t begin = k; begin < s->n_vocab; begin += BLOCK) {
        size_t end = begin + BLOCK < s->n_vocab ? begin + BLOCK : s->n_vocab;
        if (!(s->kernels->max_f32(logits + begin, end - begin) > heap[0].logit)) continue;
        for (size_t i = begin; i < end; i++)
            if (logits[i] > heap[0].logit) /* on a tie the lower id stays */
                replace_last(heap, k, (candidate){.logit = logits[i], .id = (int32_t)i});
    }
    qsort(heap, k, sizeof *heap, compare);
    s->n = k;
    s->sorted = true;
}

/* Relative to the greatest, so that no temperature, however small, overflows; infinities may be equal. */
static float tempered(float logit, float max, const pn_sampling *o) {
    return logit == max ? 0.0f : (logit - max) / o->temperature;
}

/* Gives the candidates their weights; those at least min_p times as probable as the best, whose weight is 1,
   stay. Returns their sum. */
static double apply_temperature(pn_sampler *s, const pn_sampling *o) {
    float max = s->candidates[0].logit;
    double sum = 0;
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        candidate c = s->candidates[i];
        c.logit = tempered(c.logit, max, o);
        c.weight = expf(c.logit);
        if (!(c.weight >= o->min_p)) continue;
        s->candidates[kept++] = c;
        sum += (double)c.weight;
    }
    s->n = kept;
    return sum;
}

/* Without top_k: every token that min_p and top_p may keep becomes a candidate with its weight. What is less
   likely than an even share of 1 - top_p cannot be kept: all such tokens together weigh less than
   1 - top_p. Returns the weight of all that min_p keeps. */
static double take_all(pn_sampler *s, const pn_sampling *o, const float *logits) {
    float max = s->kernels->max_f32(logits, s->n_vocab);
    for (size_t i = 0; i < s->n_vocab; i++)
        s->scratch[i] = tempered(logits[i], max, o); /* logits may be the scratch */
    double sum = (double)s->kernels->exp_sum_f32(s->scratch, s->n_vocab, 0);
    if (o->min_p > 0) {
        sum = 0;
        for (size_t i = 0; i < s->n_vocab; i++)
            sum += s->scratch[i] >= o->min_p ? (double)s->scratch[i] : 0.0;
    }
    const float margin = 0.999f; /* for the rounding of weights and sum */
    float share = margin * (1.0f - o->top_p) * (float)sum / (float)s->n_vocab;
    float least = share > o->min_p ? share : o->min_p;
    s->n = 0;
    s->sorted = false;
    for (size_t i = 0; i < s->n_vocab; i++)
        if (s->scratch[i] >= least && s->scratch[i] > 0)
            s->candidates[s->n++] =
                (candidate){.logit = logf(s->scratch[i]), .weight = s->scratch[i], .id = (int32_t)i};
    return sum;
}

/* The smallest set of most probable candidates that holds top_p of the probability (Holtzman et al., 2020).
 */
static void keep_top_p(pn_sampler *s, const pn_sampling *o, double total) {
    if (o->top_p >= 1.0f) return;
    double wanted = (double)o->top_p * total, sum = 0;
    size_t kept = 0;
    if (!s->sorted) make_heap(s->candidates, s->n);
    do {
        if (s->sorted) {
            sum += (double)s->candidates[kept].weight;
        } else {
            pop(s->candidates, s->n - kept);
            sum += (double)s->candidates[s->n - kept - 1].weight;
        }
        kept++;
    } while (sum < wanted && kept < s->n);
    if (s->sorted)
        s->n = kept;
    else
        keep_popped(s, kept);
}

static int32_t draw(const pn_sampler *s, pn_rng *rng) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += (double)s->candidates[i].weight;
    double target = pn_rng_unit(rng) * sum;
    int32_t id = s->candidates[0].id; /* rounding may leave target at 0: the last that is possible at all */
    for (size_t i = 0; i < s->n && target >= 0; i++) {
        target -= (double)s->candidates[i].weight;
        if (s->candidates[i].weight > 0) id = s->candidates[i].id;
    }
    return id;
}

pn_status pn_sampler_next(pn_sampler *s, const pn_sampling *o, const float *logits, const int32_t *history,
                          size_t n_history, pn_rng *rng, int32_t *out, pn_error *err) {
    PN_TRY(check_numbers(s, logits, err));
    logits = adjust(s, o, logits, history, n_history);
    if (o->temperature == 0.0f) {
        *out = greatest(s, logits);
        return PN_OK;
    }
    size_t k = (size_t)o->top_k;
    double total;
    if (k > 0 && k < s->n_vocab) {
        take_top_k(s, logits, k);
        total = apply_temperature(s, o);
    } else {
        total = take_all(s, o, logits);
    }
    keep_top_p(s, o, total);
    *out = draw(s, rng);
    return PN_OK;
}
