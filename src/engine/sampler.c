/* SPDX-License-Identifier: Apache-2.0 */
/* Logits to one token. The order of the steps is documented at pn_sampling in postern.h; each step narrows a
   list of candidates and always leaves at least one. The vocabulary is never sorted whole: candidates come
   off a heap in descending order for as long as a step wants them. */
#include "engine/engine.h"

#include <math.h>
#include <string.h>

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct pn_sampler {
    size_t n_vocab;
    candidate *candidates; /* [n_vocab] the list that the steps narrow */
    size_t n;
    bool sorted;     /* descending */
    int32_t *counts; /* [n_vocab] how often a token occurs in the penalty window; all zero between calls */
    double *weights; /* [n_vocab] unnormalised probabilities of the candidates */
};

pn_status pn_sampler_create(size_t n_vocab, pn_sampler **out, pn_error *err) {
    pn_sampler *s = pn_alloc(PN_MEM_SCRATCH, 1, sizeof *s);
    if (!s) return pn_fail_memory(err, "sampler", sizeof *s);
    s->n_vocab = n_vocab;
    s->candidates = pn_alloc(PN_MEM_SCRATCH, n_vocab, sizeof *s->candidates);
    s->counts = pn_alloc(PN_MEM_SCRATCH, n_vocab, sizeof *s->counts);
    s->weights = pn_alloc(PN_MEM_SCRATCH, n_vocab, sizeof *s->weights);
    if (!s->candidates || !s->counts || !s->weights) {
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
    pn_free(s->weights);
    pn_free(s);
}

uint64_t pn_sampler_bytes(size_t n_vocab) {
    return sizeof(pn_sampler) + n_vocab * (sizeof(candidate) + sizeof(int32_t) + sizeof(double));
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

/* ---- steps over all logits: candidates[i].id is i ---- */

static pn_status take_logits(pn_sampler *s, const float *logits, pn_error *err) {
    s->n = s->n_vocab;
    s->sorted = false;
    for (size_t i = 0; i < s->n_vocab; i++) {
        if (isnan(logits[i]))
            return pn_fail(err, PN_ERR_NUMERIC,
                           "the model gave a NaN for token %zu: its weights are broken, or a key or value "
                           "passed what a half holds and the KV cache must be f32",
                           i);
        s->candidates[i] = (candidate){logits[i], (int32_t)i};
    }
    return PN_OK;
}

/* A ban is set, not added: a logit that overflowed to infinity would become NaN. */
static void add_bias(pn_sampler *s, const pn_sampling *o) {
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        float bias = o->logit_bias[i].bias, *logit = &s->candidates[o->logit_bias[i].id].logit;
        *logit = isinf(bias) ? bias : *logit + bias;
    }
}

/* Repeat penalty as in CTRL (Keskar et al., 2019), frequency and presence as in the OpenAI interface. */
static void penalise(pn_sampler *s, const pn_sampling *o, const int32_t *history, size_t n_history) {
    if (o->repeat_penalty == 1.0f && o->frequency_penalty == 0.0f && o->presence_penalty == 0.0f) return;
    size_t n = o->penalty_last_n < 0 || (size_t)o->penalty_last_n > n_history ? n_history
                                                                              : (size_t)o->penalty_last_n;
    const int32_t *window = history + (n_history - n);
    for (size_t i = 0; i < n; i++)
        s->counts[window[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t count = s->counts[window[i]];
        if (count == 0) continue; /* done at an earlier place */
        s->counts[window[i]] = 0;
        float *logit = &s->candidates[window[i]].logit;
        *logit = *logit > 0 ? *logit / o->repeat_penalty : *logit * o->repeat_penalty;
        *logit -= (float)count * o->frequency_penalty + o->presence_penalty;
    }
}

/* ---- steps that narrow ---- */

static bool before(candidate a, candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int32_t greatest(const pn_sampler *s) {
    candidate best = s->candidates[0];
    for (size_t i = 1; i < s->n; i++)
        if (before(s->candidates[i], best)) best = s->candidates[i];
    return best.id;
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

static void keep_top_k(pn_sampler *s, const pn_sampling *o) {
    size_t k = (size_t)o->top_k;
    if (k == 0 || k >= s->n) return;
    make_heap(s->candidates, s->n);
    for (size_t i = 0; i < k; i++)
        pop(s->candidates, s->n - i);
    keep_popped(s, k);
}

static float max_logit(const pn_sampler *s) {
    float max = s->candidates[0].logit;
    for (size_t i = 1; i < s->n && !s->sorted; i++)
        if (s->candidates[i].logit > max) max = s->candidates[i].logit;
    return max;
}

/* After this logits are relative to the greatest, which is 0: no temperature, however small, overflows. */
static void apply_temperature(pn_sampler *s, const pn_sampling *o) {
    float max = max_logit(s);
    for (size_t i = 0; i < s->n; i++) {
        float *logit = &s->candidates[i].logit;
        *logit = *logit == max ? 0.0f : (*logit - max) / o->temperature;
    }
}

static double total_weight(const pn_sampler *s) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += exp((double)s->candidates[i].logit);
    return sum;
}

/* The smallest set of most probable candidates that holds top_p of the probability (Holtzman et al., 2020).
 */
static void keep_top_p(pn_sampler *s, const pn_sampling *o) {
    if (o->top_p >= 1.0f) return;
    double wanted = (double)o->top_p * total_weight(s), sum = 0;
    size_t kept = 0;
    if (!s->sorted) make_heap(s->candidates, s->n);
    do {
        if (s->sorted) {
            sum += exp((double)s->candidates[kept].logit);
        } else {
            pop(s->candidates, s->n - kept);
            sum += exp((double)s->candidates[s->n - kept - 1].logit);
        }
        kept++;
    } while (sum < wanted && kept < s->n);
    if (s->sorted)
        s->n = kept;
    else
        keep_popped(s, kept);
}

/* Candidates at least min_p times as probable as the best. */
static void keep_min_p(pn_sampler *s, const pn_sampling *o) {
    if (o->min_p <= 0.0f) return;
    float least = logf(o->min_p); /* the best is at 0 */
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->candidates[i].logit >= least) s->candidates[kept++] = s->candidates[i];
    s->n = kept;
}

static int32_t draw(pn_sampler *s, pn_rng *rng) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->weights[i] = exp((double)s->candidates[i].logit);
    double target = pn_rng_unit(rng) * sum;
    int32_t id = s->candidates[0].id; /* rounding may leave target at 0: the last that is possible at all */
    for (size_t i = 0; i < s->n && target >= 0; i++) {
        target -= s->weights[i];
        if (s->weights[i] > 0) id = s->candidates[i].id;
    }
    return id;
}

pn_status pn_sampler_next(pn_sampler *s, const pn_sampling *o, const float *logits, const int32_t *history,
                          size_t n_history, pn_rng *rng, int32_t *out, pn_error *err) {
    PN_TRY(take_logits(s, logits, err));
    add_bias(s, o);
    penalise(s, o, history, n_history);
    if (o->temperature == 0.0f) {
        *out = greatest(s);
        return PN_OK;
    }
    keep_top_k(s, o);
    apply_temperature(s, o);
    keep_top_p(s, o);
    keep_min_p(s, o);
    *out = draw(s, rng);
    return PN_OK;
}
