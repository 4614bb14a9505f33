/* SPDX-License-Identifier: Apache-2.0 */
#include "logprobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keeps top [n_top] sorted; of equals the lower id comes first. */
static void offer(scored_token *t, int n_top, int32_t id, float logit) {
    if (t->n_top == n_top && (n_top == 0 || logit <= t->top[n_top - 1].logprob)) return;
    int at = t->n_top < n_top ? t->n_top++ : n_top - 1;
    for (; at > 0 && t->top[at - 1].logprob < logit; at--)
        t->top[at] = t->top[at - 1];
    t->top[at] = (token_logprob){id, logit};
}

void logprobs_score(const float *logits, size_t n_vocab, int32_t id, int n_top, scored_token *out) {
    float greatest = -INFINITY;
    double sum = 0;
    *out = (scored_token){.token.id = id};
    for (size_t i = 0; i < n_vocab; i++)
        if (logits[i] > greatest) greatest = logits[i];
    for (size_t i = 0; i < n_vocab; i++) {
        sum += exp((double)logits[i] - (double)greatest);
        offer(out, n_top, (int32_t)i, logits[i]);
    }
    const double all = (double)greatest + log(sum);
    out->token.logprob = (float)((double)logits[id] - all);
    for (int i = 0; i < out->n_top; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - all);
}

bool logprobs_add(scored_tokens *list, const pn_model *model, const float *logits, size_t n_vocab, int32_t id,
                  int n_top) {
    list->n_entries += (size_t)n_top + 1;
    if (list->n_entries > LOGPROBS_ENTRIES_MAX) return false;
    if (list->n == list->cap) {
        const size_t cap = list->cap > 0 ? list->cap * 2 : 32;
        scored_token *items = realloc(list->items, cap * sizeof *items);
        if (items == NULL) return false;
        list->items = items;
        list->cap = cap;
    }
    scored_token *t = &list->items[list->n];
    if (logits != NULL)
        logprobs_score(logits, n_vocab, id, n_top, t);
    else
        *t = (scored_token){.token.id = id, .unscored = true};
    list->n++; /* so that what there is of it is freed */
    bool named = pn_detokenize(model, &id, 1, true, &t->piece, NULL) == PN_OK;
    for (int i = 0; named && i < t->n_top; i++)
        named = pn_detokenize(model, &t->top[i].id, 1, true, &t->top_pieces[i], NULL) == PN_OK;
    return named;
}

static void free_pieces(scored_token *t) {
    pn_text_free(&t->piece);
    for (int i = 0; i < t->n_top; i++)
        pn_text_free(&t->top_pieces[i]);
}

void logprobs_drop(scored_tokens *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        free_pieces(&list->items[i]);
    list->n -= n;
    if (list->n > 0) memmove(list->items, list->items + n, list->n * sizeof *list->items);
}

void logprobs_keep(scored_tokens *list, size_t n) {
    while (list->n > n)
        free_pieces(&list->items[--list->n]);
}

void logprobs_free(scored_tokens *list) {
    logprobs_drop(list, list->n);
    free(list->items);
    *list = (scored_tokens){0};
}
