/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/gram.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { WIDE = PN_PANEL_ROWS, BLOCK = 64 };

static size_t stride_of(size_t n) {
    return (n + WIDE - 1) / WIDE * WIDE;
}

uint64_t pn_gram_bytes(size_t max_n) {
    const uint64_t stride = stride_of(max_n);
    return stride * (stride + PN_GRAM_TOKENS + BLOCK + 1) * sizeof(float);
}

pn_status pn_gram_create(size_t max_n, pn_gram *out, pn_error *err) {
    const size_t stride = stride_of(max_n);
    pn_gram g = {.max_n = max_n,
                 .h = pn_pages_alloc(PN_MEM_SCRATCH, stride * stride * sizeof(float)),
                 .turned = pn_alloc(PN_MEM_SCRATCH, stride * PN_GRAM_TOKENS, sizeof(float)),
                 .d = pn_alloc(PN_MEM_SCRATCH, stride, sizeof(float))};
    if (!g.h || !g.turned || !g.d) {
        pn_gram_free(&g);
        return pn_fail_memory(err, "second moments of inputs", stride * stride * sizeof(float));
    }
    pn_gram_begin(&g, max_n);
    *out = g;
    return PN_OK;
}

void pn_gram_free(pn_gram *g) {
    const size_t stride = stride_of(g->max_n);
    pn_pages_free(PN_MEM_SCRATCH, g->h, stride * stride * sizeof(float));
    pn_free(g->turned);
    pn_free(g->d);
    *g = (pn_gram){0};
}

void pn_gram_begin(pn_gram *g, size_t n) {
    g->n = n;
    g->stride = stride_of(n);
    memset(g->h, 0, g->stride * g->stride * sizeof *g->h);
}

/* ---- adding ---- */

struct adding {
    pn_gram *gram;
    const pn_kernels *kernels;
    const float *x;
    size_t n_tok;
};

static void turn(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct adding *a = arg;
    for (size_t c = begin; c < end; c++)
        for (size_t t = 0; t < a->n_tok; t++)
            a->gram->turned[c * PN_GRAM_TOKENS + t] = a->x[t * a->gram->n + c];
}

/* Sixteen columns of H, from the first row that they have below the diagonal. */
static void add_columns(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct adding *a = arg;
    pn_gram *g = a->gram;
    for (size_t panel = begin; panel < end; panel++) {
        _Alignas(64) float w[PN_GRAM_TOKENS * WIDE];
        size_t c = panel * WIDE, n = g->n - c < WIDE ? g->n - c : WIDE;
        memset(w, 0, a->n_tok * WIDE * sizeof *w);
        for (size_t t = 0; t < a->n_tok; t++)
            memcpy(w + t * WIDE, a->x + t * g->n + c, n * sizeof *w);
        a->kernels->matmul_f32(w, WIDE, g->turned + c * PN_GRAM_TOKENS, PN_GRAM_TOKENS, g->n - c, a->n_tok,
                               g->h + c * g->stride + c, g->stride);
    }
}

void pn_gram_add(pn_gram *g, const pn_kernels *kernels, pn_pool *pool, const float *x, size_t n_tok) {
    for (size_t t = 0; t < n_tok; t += PN_GRAM_TOKENS) {
        struct adding a = {g, kernels, x + t * g->n, n_tok - t < PN_GRAM_TOKENS ? n_tok - t : PN_GRAM_TOKENS};
        pn_pool_run(pool, turn, &a, g->n, 16);
        pn_pool_run(pool, add_columns, &a, g->stride / WIDE, 1);
    }
}

/* ---- factors: rows from the last to the first, in blocks ---- */

struct factoring {
    pn_gram *gram;
    const pn_kernels *kernels;
    size_t first, end; /* rows of the block */
    float
        *scaled; /* [first, BLOCK]: -D[k] times column k of U, for what the block takes from the rows above */
};

/* d[k] = D[k] and h[k][i] = U[i][k] within the block. */
static bool factor_corner(pn_gram *g, size_t first, size_t end) {
    for (size_t k = end; k-- > first;) {
        float *row = g->h + k * g->stride;
        g->d[k] = row[k];
        if (!(row[k] > 0) || isinf(row[k])) return false;
        for (size_t i = first; i < k; i++)
            row[i] /= row[k];
        for (size_t j = first; j < k; j++)
            for (size_t i = first; i <= j; i++)
                g->h[j * g->stride + i] -= row[j] * row[k] * row[i];
    }
    return true;
}

/* The rest of the block's rows, some columns of it. */
static void factor_columns(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct factoring *f = arg;
    pn_gram *g = f->gram;
    const size_t from = begin * WIDE, to = end * WIDE < f->first ? end * WIDE : f->first;
    for (size_t k = f->end; k-- > f->first;) {
        float *row = g->h + k * g->stride, d = row[k];
        for (size_t i = from; i < to; i++)
            row[i] /= d;
        for (size_t j = f->first; j < k; j++) {
            float *other = g->h + j * g->stride, share = row[j] * d;
            for (size_t i = from; i < to; i++)
                other[i] -= share * row[i];
        }
        for (size_t i = from; i < to; i++)
            f->scaled[i * BLOCK + (k - f->first)] = -d * row[i];
    }
}

/* What the block takes from sixteen columns of the rows above it. */
static void take_from_columns(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct factoring *f = arg;
    pn_gram *g = f->gram;
    const size_t n = f->end - f->first;
    for (size_t panel = begin; panel < end; panel++) {
        _Alignas(64) float w[BLOCK * WIDE];
        const size_t c = panel * WIDE;
        for (size_t k = 0; k < n; k++)
            memcpy(w + k * WIDE, g->h + (f->first + k) * g->stride + c, WIDE * sizeof *w);
        f->kernels->matmul_f32(w, WIDE, f->scaled + c * BLOCK, BLOCK, f->first - c, n,
                               g->h + c * g->stride + c, g->stride);
    }
}

static void damp(pn_gram *g, double damping) {
    double sum = 0;
    for (size_t i = 0; i < g->n; i++)
        sum += (double)g->h[i * g->stride + i];
    const float more = sum > 0 ? (float)(damping * sum / (double)g->n) : 1.0f;
    for (size_t i = 0; i < g->n; i++)
        g->h[i * g->stride + i] += more;
}

pn_status pn_gram_factor(pn_gram *g, const pn_kernels *kernels, pn_pool *pool, double damping,
                         pn_error *err) {
    float *scaled = pn_alloc(PN_MEM_SCRATCH, g->stride * BLOCK, sizeof *scaled);
    if (!scaled) return pn_fail_memory(err, "factors of second moments", g->stride * BLOCK * sizeof *scaled);
    damp(g, damping);
    bool positive = true;
    for (size_t end = g->n; end > 0 && positive;) {
        const size_t first = (end - 1) / BLOCK * BLOCK;
        struct factoring f = {g, kernels, first, end, scaled};
        positive = factor_corner(g, first, end);
        if (positive && first > 0) {
            pn_pool_run(pool, factor_columns, &f, first / WIDE, 1);
            pn_pool_run(pool, take_from_columns, &f, first / WIDE, 1);
        }
        end = first;
    }
    pn_free(scaled);
    return positive
               ? PN_OK
               : pn_fail(
                     err, PN_ERR_NUMERIC,
                     "the inputs of a matrix overflow or are too nearly dependent: calibrate on more text");
}
