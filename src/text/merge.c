/* SPDX-License-Identifier: Apache-2.0 */
#include "text/merge.h"

#include "base/mem.h"

/* Room for one more element of the array; false when it cannot be had. */
static bool grow(void **array, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 64;
    void *grown = pn_realloc(*array, more, size);
    if (!grown) return false;
    *array = grown;
    *cap = more;
    return true;
}

static void heap_push(pn_merger *m, pn_candidate c) {
    void *heap = m->heap;
    if (!grow(&heap, m->n_heap, &m->cap_heap, sizeof c)) m->failed = true;
    m->heap = heap;
    if (m->failed) return;
    size_t at = m->n_heap++;
    while (at > 0 && m->heap[(at - 1) / 2].order > c.order) {
        m->heap[at] = m->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->heap[at] = c;
}

static pn_candidate heap_pop(pn_merger *m) {
    pn_candidate top = m->heap[0], last = m->heap[--m->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->n_heap) break;
        if (child + 1 < m->n_heap && m->heap[child + 1].order < m->heap[child].order) child++;
        if (m->heap[child].order >= last.order) break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = last;
    return top;
}

static void consider(pn_merger *m, int32_t left, int32_t right, pn_pair_fn pair, void *ctx) {
    if (left < 0 || right < 0) return;
    const pn_symbol *l = &m->symbols[left], *r = &m->symbols[right];
    uint32_t rank;
    int32_t id;
    if (!pair(ctx, l, r, &rank, &id)) return;
    heap_push(m, (pn_candidate){(uint64_t)rank << 32 | (uint32_t)left, (uint32_t)right, l->len + r->len, id});
}

void pn_merger_begin(pn_merger *m) {
    m->n_symbols = 0;
    m->n_heap = 0;
    m->failed = false;
}

void pn_merger_add(pn_merger *m, uint32_t begin, uint32_t len, int32_t id) {
    void *symbols = m->symbols;
    if (!grow(&symbols, m->n_symbols, &m->cap_symbols, sizeof *m->symbols)) m->failed = true;
    m->symbols = symbols;
    if (m->failed) return;
    int32_t at = (int32_t)m->n_symbols++;
    m->symbols[at] = (pn_symbol){begin, len, at - 1, -1, id};
    if (at > 0) m->symbols[at - 1].next = at;
}

bool pn_merger_run(pn_merger *m, pn_pair_fn pair, void *ctx) {
    for (size_t i = 1; i < m->n_symbols && !m->failed; i++)
        consider(m, (int32_t)i - 1, (int32_t)i, pair, ctx);
    while (m->n_heap > 0 && !m->failed) {
        pn_candidate c = heap_pop(m);
        int32_t at = (int32_t)(uint32_t)c.order;
        pn_symbol *left = &m->symbols[at], *right = &m->symbols[c.right];
        /* Symbols only grow and die, so an unchanged sum of lengths means an unchanged pair. */
        if (left->len == 0 || right->len == 0 || left->len + right->len != c.len) continue;
        left->len = c.len;
        left->id = c.id;
        left->next = right->next;
        if (right->next >= 0) m->symbols[right->next].prev = at;
        right->len = 0;
        consider(m, left->prev, at, pair, ctx);
        consider(m, at, left->next, pair, ctx);
    }
    return !m->failed;
}

void pn_merger_done(pn_merger *m) {
    pn_free(m->symbols);
    pn_free(m->heap);
    *m = (pn_merger){0};
}
