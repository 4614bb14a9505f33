/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of every kernel slot. Scalar is checked against the slot's definition computed in double;
   then the feature mask is raised step by step, and each slot whose pointer changed goes through the same
   checks and, where its class is EXACT, must give the scalar's bits. All operands lie against inaccessible
   pages, at the start and at the end, so that a read or write outside them traps; the lengths run over every
   tail. */
#include "kernels/kernels.h"

#include "base/cpu.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static pn_kernels scalar;

/* ---- guarded memory ---- */

enum { AT_START, AT_END, N_PLACE };

static struct {
    void *map;
    size_t bytes;
} maps[16];
static size_t n_map;

/* n * size bytes between two inaccessible pages, touching the first or the second. */
static void *guarded(size_t n, size_t size, int place) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * size;
    size_t inner = (bytes + page - 1) / page * page;
    assert_true(n_map < COUNT(maps));
    uint8_t *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    if (inner > 0) assert_int_equal(mprotect(map + page, inner, PROT_READ | PROT_WRITE), 0);
    maps[n_map].map = map;
    maps[n_map++].bytes = inner + 2 * page;
    return map + page + (place == AT_END ? inner - bytes : 0);
}

static float *guarded_floats(size_t n, int place) {
    return guarded(n, sizeof(float), place);
}

static void free_guarded(void) {
    while (n_map > 0) {
        n_map--;
        munmap(maps[n_map].map, maps[n_map].bytes);
    }
}

/* ---- data and comparison ---- */

static pn_rng rng;

static float random_float(void) {
    return (float)(2 * pn_rng_unit(&rng) - 1);
}

/* kind 0: [-1, 1]; 1: magnitudes from 1e-12 to 1e12; 2: all positive. */
enum { N_KIND = 3 };
static void fill(float *x, size_t n, int kind) {
    for (size_t i = 0; i < n; i++) {
        float f = random_float();
        x[i] = kind == 0 ? f : kind == 1 ? f * powf(10, 12 * random_float()) : fabsf(f);
    }
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static bool same(float a, float b) {
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static void check_same(const char *what, size_t at, float found, float expected) {
    if (!same(found, expected))
        fail_msg("%s [%zu]: %a, expected the same bits as %a", what, at, found, expected);
}

/* |found - expected| <= c * eps * scale, plus the least denormal. */
static void check_near(const char *what, size_t at, float found, double expected, double c, double scale) {
    double bound = c * FLT_EPSILON * scale + 0x1p-149;
    if (!(fabs(found - expected) <= bound))
        fail_msg("%s [%zu]: %.9g, expected %.9g within %.3g", what, at, found, expected, bound);
}

/* Sum of products in double, and the sum of their magnitudes. */
static double dot(const float *a, const float *b, size_t n, double *magnitude) {
    double sum = 0;
    *magnitude = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * b[i];
        *magnitude += fabs((double)a[i] * b[i]);
    }
    return sum;
}

/* ---- matmul ---- */

enum { MAX_ROW = 17, MAX_TOK = 53 };

typedef struct matmul_case {
    const float *w, *x; /* [MAX_ROW, stride], [MAX_TOK, stride] */
    size_t k, stride;
    float single[MAX_TOK][MAX_ROW]; /* computed one row and one token at a time */
} matmul_case;

/* The last (at the end) or first rows and tokens together: the same bits as one by one, gaps in out
 * untouched. */
static void check_matmul_tile(const pn_kernels *t, const matmul_case *m, size_t n_row, size_t n_tok,
                              int place) {
    size_t r0 = place == AT_END ? MAX_ROW - n_row : 0, t0 = place == AT_END ? MAX_TOK - n_tok : 0;
    size_t out_stride = n_row + 2, n_out = (n_tok - 1) * out_stride + n_row;
    float *out = guarded_floats(n_out, place);
    for (size_t i = 0; i < n_out; i++)
        out[i] = 77.0f;
    t->matmul_f32(m->w + r0 * m->stride, m->stride, n_row, m->x + t0 * m->stride, m->stride, n_tok, m->k, out,
                  out_stride);
    for (size_t i = 0; i < n_out; i++) {
        size_t row = i % out_stride, tok = i / out_stride;
        check_same("matmul_f32", i, out[i], row < n_row ? m->single[t0 + tok][r0 + row] : 77.0f);
    }
    n_map--;
    munmap(maps[n_map].map, maps[n_map].bytes);
}

static void check_matmul_case(const pn_kernels *t, size_t k, size_t pad, int kind, int place) {
    static const size_t n_rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17};
    static const size_t n_toks[] = {1, 2, 3, 4, 5, 6, 8, 23, 24, 25, 26, 27, 48, 53};
    matmul_case m = {.k = k, .stride = k + pad};
    size_t n_w = (MAX_ROW - 1) * m.stride + k, n_x = (MAX_TOK - 1) * m.stride + k;
    float *w = guarded_floats(n_w, place), *x = guarded_floats(n_x, place);
    fill(w, n_w, kind);
    fill(x, n_x, kind);
    m.w = w;
    m.x = x;
    for (size_t i = 0; i < MAX_TOK * MAX_ROW; i++) {
        size_t tok = i / MAX_ROW, row = i % MAX_ROW;
        const float *wr = w + row * m.stride, *xt = x + tok * m.stride;
        t->matmul_f32(wr, m.stride, 1, xt, m.stride, 1, k, &m.single[tok][row], 1);
        double magnitude, sum = dot(wr, xt, k, &magnitude);
        check_near("matmul_f32", i, m.single[tok][row], sum, 4, magnitude);
    }
    for (size_t i = 0; i < COUNT(n_rows); i++) {
        for (size_t j = 0; j < COUNT(n_toks); j++)
            check_matmul_tile(t, &m, n_rows[i], n_toks[j], place);
    }
    free_guarded();
}

static void check_matmul_f32(const pn_kernels *t) {
    static const size_t ks[] = {0,  1,  2,  3,  4,  5,  6,  7,   8,   9,   10,  11,  12,  13,
                                14, 15, 16, 17, 24, 31, 64, 511, 512, 513, 767, 768, 769, 1030};
    for (size_t i = 0; i < COUNT(ks); i++)
        check_matmul_case(t, ks[i], i % 3, (int)(i % N_KIND), (int)(i % N_PLACE));
    check_matmul_case(t, 576, 0, 1, AT_END);
    check_matmul_case(t, 8, 0, 1, AT_END);
}

/* ---- attention ---- */

typedef struct attn_case {
    size_t n_head, n_key, dim;
    bool half;
    const float *q, *p;      /* [n_head, dim], [n_head, n_key] */
    const uint16_t *kv_half; /* [n_key, dim] */
    const float *kv_float;   /* the same as floats */
} attn_case;

static void call_scores(const pn_kernels *t, const attn_case *a, size_t h, size_t n_head, size_t j,
                        size_t n_key, float *scores, size_t stride) {
    const float *q = a->q + h * a->dim;
    if (a->half)
        t->attn_scores_f16(q, n_head, a->kv_half + j * a->dim, n_key, a->dim, 0.125f, scores, stride);
    else
        t->attn_scores_f32(q, n_head, a->kv_float + j * a->dim, n_key, a->dim, 0.125f, scores, stride);
}

static void check_scores_case(const pn_kernels *t, const attn_case *a, int place) {
    float *scores = guarded_floats(a->n_head * a->n_key, place);
    call_scores(t, a, 0, a->n_head, 0, a->n_key, scores, a->n_key);
    for (size_t i = 0; i < a->n_head * a->n_key; i++) {
        size_t h = i / a->n_key, j = i % a->n_key;
        double magnitude, sum = dot(a->q + h * a->dim, a->kv_float + j * a->dim, a->dim, &magnitude);
        check_near("attn_scores", i, scores[i], 0.125 * sum, 4, 0.125 * magnitude);
        float single;
        call_scores(t, a, h, 1, j, 1, &single, 1);
        check_same("attn_scores", i, scores[i], single);
    }
}

static void call_mix(const pn_kernels *t, const attn_case *a, size_t h, size_t n_head, size_t j, size_t n_key,
                     float *acc) {
    const float *p = a->p + h * a->n_key + j;
    if (a->half)
        t->attn_mix_f16(p, a->n_key, n_head, a->kv_half + j * a->dim, n_key, a->dim, acc);
    else
        t->attn_mix_f32(p, a->n_key, n_head, a->kv_float + j * a->dim, n_key, a->dim, acc);
}

/* All heads and keys at once; then each head alone, with the keys in two calls: the same bits. */
static void check_mix_case(const pn_kernels *t, const attn_case *a, int place) {
    size_t n = a->n_head * a->dim, split = a->n_key / 3;
    float *acc = guarded_floats(n, place), *start = guarded_floats(n, place),
          *single = guarded_floats(a->dim, place);
    fill(start, n, 0);
    if (n > 0) memcpy(acc, start, n * sizeof *acc);
    call_mix(t, a, 0, a->n_head, 0, a->n_key, acc);
    for (size_t h = 0; h < a->n_head; h++) {
        memcpy(single, start + h * a->dim, a->dim * sizeof *single);
        call_mix(t, a, h, 1, 0, split, single);
        call_mix(t, a, h, 1, split, a->n_key - split, single);
        for (size_t d = 0; d < a->dim; d++) {
            double sum = start[h * a->dim + d], magnitude = fabs(sum);
            for (size_t j = 0; j < a->n_key; j++) {
                double product = (double)a->p[h * a->n_key + j] * a->kv_float[j * a->dim + d];
                sum += product;
                magnitude += fabs(product);
            }
            check_near("attn_mix", h * a->dim + d, acc[h * a->dim + d], sum, 8, magnitude);
            check_same("attn_mix", h * a->dim + d, acc[h * a->dim + d], single[d]);
        }
    }
}

static void check_attention(const pn_kernels *t, bool half,
                            void (*check)(const pn_kernels *, const attn_case *, int)) {
    static const size_t dims[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   15, 16,
                                  17, 31, 32, 33, 40, 64, 72, 77, 128, 256};
    static const size_t n_keys[] = {0, 1, 2, 7, 8, 9, 17, 64, 65, 130};
    for (size_t i = 0; i < COUNT(dims) * COUNT(n_keys); i++) {
        attn_case a = {
            .n_head = 1 + i % 8, .n_key = n_keys[i % COUNT(n_keys)], .dim = dims[i / COUNT(n_keys)]};
        a.half = half;
        int place = (int)(i / 3 % N_PLACE);
        size_t n_kv = a.n_key * a.dim;
        float *q = guarded_floats(a.n_head * a.dim, place), *p = guarded_floats(a.n_head * a.n_key, place);
        float *kv = guarded_floats(n_kv, place);
        uint16_t *kv_half = guarded(n_kv, sizeof *kv_half, place);
        fill(q, a.n_head * a.dim, 0);
        fill(p, a.n_head * a.n_key, 2);
        fill(kv, n_kv, 0);
        for (size_t j = 0; j < n_kv; j++) {
            kv_half[j] = pn_f32_to_f16(kv[j]);
            if (half) kv[j] = pn_f16_to_f32(kv_half[j]);
        }
        a.q = q;
        a.p = p;
        a.kv_float = kv;
        a.kv_half = kv_half;
        check(t, &a, place);
        free_guarded();
    }
}

static void check_attn_scores_f16(const pn_kernels *t) {
    check_attention(t, true, check_scores_case);
}
static void check_attn_scores_f32(const pn_kernels *t) {
    check_attention(t, false, check_scores_case);
}
static void check_attn_mix_f16(const pn_kernels *t) {
    check_attention(t, true, check_mix_case);
}
static void check_attn_mix_f32(const pn_kernels *t) {
    check_attention(t, false, check_mix_case);
}

/* ---- vectors: each check runs over lengths with every tail, at both places ---- */

static void for_lengths(const pn_kernels *t, size_t step, void (*check)(const pn_kernels *, size_t, int)) {
    for (size_t n = step; n <= 41 * step; n += step) {
        check(t, n, AT_START);
        check(t, n, AT_END);
        free_guarded();
    }
    check(t, 576, AT_START);
    check(t, 2050, AT_END);
    free_guarded();
}

static void max_of_length(const pn_kernels *t, size_t n, int place) {
    float *x = guarded_floats(n, place);
    for (size_t at = 0; at < n; at++) {
        fill(x, n, 0);
        x[at] = 2.0f;
        check_same("max_f32", n, t->max_f32(x, n), 2.0f);
        if (at > 41) break;
    }
    for (size_t i = 0; i < n; i++)
        x[i] = -INFINITY;
    check_same("max_f32 of -inf", n, t->max_f32(x, n), -INFINITY);
    for (size_t i = 0; i < n; i++)
        x[i] = i % 3 == 1 ? 0.0f : -0.0f;
    check_same("max_f32 of zeros", n, t->max_f32(x, n), 0.0f);
    x[n - 1] = NAN;
    (void)t->max_f32(x, n);
    fill(x, n, 1);
    check_same("max_f32", n, t->max_f32(x, n), scalar.max_f32(x, n));
}

static void check_max_f32(const pn_kernels *t) {
    for_lengths(t, 1, max_of_length);
}

/* Arguments from where exp is 0 to where it is infinite, and at the edges of both. */
static float exp_argument(size_t i) {
    static const float edges[] = {-INFINITY, -1e30f, -1e4f,  -104.0f, -103.9f, -103.2f,
                                  -88.0f,    -87.3f, -87.4f, -0.0f,   0.0f,    -1e-30f,
                                  1e-8f,     1.0f,   -1.0f,  80.0f,   0.3466f, -0.3466f};
    return i % 3 == 1 ? edges[i / 3 % COUNT(edges)] : 90 * random_float() - 15;
}

static void exp_sum_of_length(const pn_kernels *t, size_t n, int place) {
    const float shifts[] = {0.0f, 3.25f};
    float *x = guarded_floats(n, place), *args = guarded_floats(n, place);
    for (size_t s = 0; s < COUNT(shifts); s++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = exp_argument(i);
            args[i] = x[i] - shifts[s];
        }
        float found = t->exp_sum_f32(x, n, shifts[s]);
        for (size_t i = 0; i < n; i++) {
            double expected = exp((double)args[i]);
            check_near("exp_sum_f32", i, x[i], expected, 1, expected);
            if (args[i] == 0) check_same("exp_sum_f32 of 0", i, x[i], 1.0f);
            if (args[i] < -104) check_same("exp_sum_f32 of -inf", i, x[i], 0.0f);
            sum += x[i];
        }
        check_near("exp_sum_f32 sum", n, found, sum, 4, sum);
    }
    x[n / 2] = 200.0f;
    x[n - 1] = n > 1 ? NAN : x[0];
    assert_true(n == 1 || isnan(t->exp_sum_f32(x, n, 0.0f)));
    assert_true(n < 3 || (isinf(x[n / 2]) && isnan(x[n - 1])));
}

static void check_exp_sum_f32(const pn_kernels *t) {
    for_lengths(t, 1, exp_sum_of_length);
}

static void rms_norm_of_length(const pn_kernels *t, size_t n, int place) {
    float *x = guarded_floats(n, place), *weight = guarded_floats(n, place), *out = guarded_floats(n, place);
    for (int kind = 0; kind < N_KIND; kind++) {
        fill(x, n, kind);
        fill(weight, n, kind);
        double squares, eps = 1e-6f;
        dot(x, x, n, &squares);
        t->rms_norm_f32(x, weight, 1e-6f, n, out);
        for (size_t i = 0; i < n; i++) {
            double expected = x[i] / sqrt(squares / (double)n + eps) * weight[i];
            check_near("rms_norm_f32", i, out[i], expected, 4, fabs(expected));
        }
        t->rms_norm_f32(x, weight, 1e-6f, n, x);
        for (size_t i = 0; i < n; i++)
            check_same("rms_norm_f32 in place", i, x[i], out[i]);
    }
    memset(x, 0, n * sizeof *x);
    t->rms_norm_f32(x, weight, 1e-6f, n, out);
    for (size_t i = 0; i < n; i++)
        assert_true(out[i] == 0.0f);
}

static void check_rms_norm_f32(const pn_kernels *t) {
    for_lengths(t, 1, rms_norm_of_length);
}

/* first(i), second(i): where the two numbers of pair i lie. */
static void check_rope(void (*rope)(float *, const float *, size_t), size_t n, size_t first_step,
                       size_t distance, int place) {
    float *x = guarded_floats(n, place), *cos_sin = guarded_floats(n, place),
          *before = guarded_floats(n, place);
    fill(x, n, 1);
    memcpy(before, x, n * sizeof *x);
    for (size_t i = 0; i < n / 2; i++) {
        cos_sin[2 * i] = cosf((float)i);
        cos_sin[2 * i + 1] = sinf((float)i);
    }
    rope(x, cos_sin, n);
    for (size_t i = 0; i < n / 2; i++) {
        double a = before[i * first_step], b = before[i * first_step + distance];
        double c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        check_near("rope first", i, x[i * first_step], a * c - b * s, 2, fabs(a * c) + fabs(b * s));
        check_near("rope second", i, x[i * first_step + distance], a * s + b * c, 2,
                   fabs(a * s) + fabs(b * c));
    }
}

static void rope_pairs_of_length(const pn_kernels *t, size_t n, int place) {
    check_rope(t->rope_pairs_f32, n, 2, 1, place);
}
static void rope_halves_of_length(const pn_kernels *t, size_t n, int place) {
    check_rope(t->rope_halves_f32, n, 1, n / 2, place);
}
static void check_rope_pairs_f32(const pn_kernels *t) {
    for_lengths(t, 2, rope_pairs_of_length);
}
static void check_rope_halves_f32(const pn_kernels *t) {
    for_lengths(t, 2, rope_halves_of_length);
}

static float gate_argument(size_t i) {
    static const float edges[] = {-1e4f, 1e4f,  -3e38f, 3e38f, -88.0f, -89.0f, -20.0f,
                                  20.0f, -5.5f, 5.5f,   0.0f,  -0.0f,  1e-30f, -1e-30f};
    return i % 2 == 1 ? edges[i / 2 % COUNT(edges)] : 12 * random_float();
}

/* out = gate * sigmoid(y) * up, where y is the gate itself or GELU's cubic. exp(-y) carries y's relative
   error times |y|; what is below the least normal float may be lost. */
static void check_gated(void (*gated)(const float *, const float *, size_t, float *), bool gelu, size_t n,
                        int place) {
    float *gate = guarded_floats(n, place), *up = guarded_floats(n, place), *out = guarded_floats(n, place);
    for (size_t i = 0; i < n; i++)
        gate[i] = gate_argument(i);
    fill(up, n, 0);
    gated(gate, up, n, out);
    for (size_t i = 0; i < n; i++) {
        double x = gate[i], y = gelu ? 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x) : x;
        double expected = x / (1 + exp(-y)) * up[i];
        double c = 4 * (1 + fmin(fabs(y), 100));
        check_near(gelu ? "gelu_mul_f32" : "silu_mul_f32", i, out[i], expected, c,
                   fabs(expected) + FLT_MIN / FLT_EPSILON);
    }
    gated(gate, up, n, gate);
    for (size_t i = 0; i < n; i++)
        check_same("gated in place", i, gate[i], out[i]);
}

static void silu_of_length(const pn_kernels *t, size_t n, int place) {
    check_gated(t->silu_mul_f32, false, n, place);
}
static void gelu_of_length(const pn_kernels *t, size_t n, int place) {
    check_gated(t->gelu_mul_f32, true, n, place);
}
static void check_silu_mul_f32(const pn_kernels *t) {
    for_lengths(t, 1, silu_of_length);
}
static void check_gelu_mul_f32(const pn_kernels *t) {
    for_lengths(t, 1, gelu_of_length);
}

static void add_of_length(const pn_kernels *t, size_t n, int place) {
    float *x = guarded_floats(n, place), *y = guarded_floats(n, place), *before = guarded_floats(n, place);
    fill(x, n, 1);
    fill(y, n, 1);
    memcpy(before, x, n * sizeof *x);
    t->add_f32(x, y, n);
    for (size_t i = 0; i < n; i++)
        check_same("add_f32", i, x[i], before[i] + y[i]);
}
static void check_add_f32(const pn_kernels *t) {
    for_lengths(t, 1, add_of_length);
}

static void scale_of_length(const pn_kernels *t, size_t n, int place) {
    float *x = guarded_floats(n, place), *before = guarded_floats(n, place);
    fill(x, n, 1);
    memcpy(before, x, n * sizeof *x);
    t->scale_f32(x, -0.37f, n);
    for (size_t i = 0; i < n; i++)
        check_same("scale_f32", i, x[i], before[i] * -0.37f);
}
static void check_scale_f32(const pn_kernels *t) {
    for_lengths(t, 1, scale_of_length);
}

static void to_f16_of_length(const pn_kernels *t, size_t n, int place) {
    float *x = guarded_floats(n, place);
    uint16_t *out = guarded(n, sizeof *out, place);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)pn_rng_u64(&rng);
        memcpy(&x[i], &bits, sizeof bits); /* all kinds of floats, NaN too */
        if (i % 2 == 0) x[i] = random_float() * powf(2, 20 * random_float());
    }
    t->f32_to_f16(x, out, n);
    for (size_t i = 0; i < n; i++) {
        if (out[i] != pn_f32_to_f16(x[i])) fail_msg("f32_to_f16 of %a: %#x", x[i], out[i]);
    }
}
static void check_f32_to_f16(const pn_kernels *t) {
    for_lengths(t, 1, to_f16_of_length);
}

static void check_read_streams(const pn_kernels *t) {
    for (size_t bytes = 0; bytes < 5000; bytes += 83) {
        uint8_t *data = guarded(bytes, 1, bytes % 2 ? AT_END : AT_START);
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)pn_rng_u64(&rng);
        for (int n_stream = 1; n_stream <= 5; n_stream++) {
            size_t covered = bytes / (size_t)n_stream / 256 * 256 * (size_t)n_stream;
            uint64_t expected = 0, word;
            for (size_t i = 0; i < covered; i += sizeof word) {
                memcpy(&word, data + i, sizeof word);
                expected ^= word;
            }
            assert_true(t->read_streams(data, bytes, n_stream) == expected);
        }
        free_guarded();
    }
}

/* ---- decoders ---- */

/* n_block blocks of random bytes: their half-precision scales are of all kinds, infinities and NaN too. */
static void check_decode_blocks(pn_kernels_decode_fn decode, const pn_qtype *type, size_t n_block,
                                int place) {
    size_t n = n_block * type->block_len, bytes = n_block * type->block_bytes;
    uint8_t *src = guarded(bytes, 1, place);
    float *out = guarded_floats(n, place), *expected = guarded_floats(n, place);
    for (size_t i = 0; i < bytes; i++)
        src[i] = (uint8_t)(n_block % 4 == 3 ? 0 : pn_rng_u64(&rng));
    decode(src, out, n);
    type->decode(src, expected, n);
    for (size_t i = 0; i < n; i++)
        check_same(type->name, i, out[i], expected[i]);
    free_guarded();
}

static void check_decode(pn_kernels_decode_fn decode, const pn_qtype *type) {
    for (size_t n_block = 0; n_block <= 40; n_block++) {
        check_decode_blocks(decode, type, n_block, AT_START);
        check_decode_blocks(decode, type, n_block, AT_END);
    }
    if (type->block_len == 1) check_decode_blocks(decode, type, 70000, AT_END);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    size_t offset; /* of the pointer in pn_kernels */
    void (*check)(const pn_kernels *);
} slots[] = {
#define ROW(slot, class, ret, params) {#slot, offsetof(pn_kernels, slot), check_##slot},
    PN_KERNEL_SLOTS(ROW)
#undef ROW
};

static bool differs(const pn_kernels *a, const pn_kernels *b, size_t offset) {
    return memcmp((const char *)a + offset, (const char *)b + offset, sizeof(void (*)(void))) != 0;
}

/* Checks all that `table` has and `before` has not; returns how many slots. */
static size_t check_new(const pn_kernels *table, const pn_kernels *before) {
    size_t n = 0;
    for (size_t i = 0; i < COUNT(slots); i++) {
        if (!differs(table, before, slots[i].offset)) continue;
        slots[i].check(table);
        n++;
    }
    for (size_t i = 0; pn_qtype_at(i); i++) {
        if (table->decode[i] == before->decode[i]) continue;
        check_decode(table->decode[i], pn_qtype_at(i));
        n++;
    }
    return n;
}

static void test_scalar(void **state) {
    (void)state;
    pn_kernels none = {0};
    size_t n_type = 0;
    while (pn_qtype_at(n_type))
        n_type++;
    assert_true(n_type <= PN_KERNEL_MAX_TYPES);
    assert_int_equal(check_new(&scalar, &none), COUNT(slots) + n_type);
}

static void test_variants(void **state) {
    (void)state;
    pn_kernels before = scalar;
    uint32_t mask = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t bit = 1u << i;
        const char *name = pn_cpu_feature_name(bit);
        if (strcmp(name, "scalar") == 0) continue; /* no feature has this bit */
        if (!(pn_cpu_features() & bit)) {
            print_message("skipped: %s is not there or masked off by PN_CPU\n", name);
            continue;
        }
        mask |= bit;
        pn_kernels table;
        pn_kernels_init(&table, mask);
        size_t n = check_new(&table, &before);
        print_message("%s: %zu new slots\n", name, n);
        assert_true(n > 0);
        before = table;
    }
}

static void test_host_table(void **state) {
    (void)state;
    pn_kernels table;
    pn_kernels_init(&table, pn_cpu_features());
    const pn_kernels *host = pn_kernels_host();
    assert_ptr_equal(host, pn_kernels_host());
    assert_memory_equal(host, &table, sizeof table);
    for (size_t i = 0; pn_qtype_at(i); i++) {
        const pn_qtype *type = pn_qtype_at(i);
        assert_true(pn_kernels_decoder(host, type) == host->decode[i]);
        assert_true(pn_kernels_decoder(&scalar, pn_qtype_find(type->id)) == type->decode);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_host_table),
    };
    pn_rng_seed(&rng, 1);
    pn_kernels_init(&scalar, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
