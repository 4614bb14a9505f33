/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over runs of codes (quant/kv_run.h), and packing them, but for the inner product, which each
   instruction set brings. The scales are folded into the other factor, so that codes are multiplied as they
   are; the minima's part is the same for a whole row and is added to it first. Plain C, which the compiler
   turns into the vectors of the file that includes it: sums are kept in LANES parts, so that their order is
   the same whatever these are. */
#ifndef PN_KERNELS_CODED_ATTENTION_H
#define PN_KERNELS_CODED_ATTENTION_H

#include "kernels/kernels.h"
#include "quant/kv_run.h"
#include "quant/qtype.h"

#include <math.h>
#include <string.h>

#define PN_CODED_INLINE static inline __attribute__((always_inline))

enum {
    PN_CODED_CHUNK = 64, /* rows of codes that are multiplied at a time, and columns at most */
    PN_CODED_LANES = 8,
    PN_CODED_ROWS = 64, /* queries at a time: their factors are 16 KiB */
};

/* out [n_row, n] += a [n_row, k] * codes [k, n]; a has PN_CODED_CHUNK elements from row to row. */
typedef struct pn_coded_product {
    const float *a;
    size_t n_row, k, n;
    const uint8_t *codes;
    size_t row_bytes; /* from row to row of the codes */
    int bits;
    float *out;
    size_t out_stride;
    const char *ahead; /* to prefetch on the way, `burst` bytes of it; or NULL */
    size_t burst;
} pn_coded_product;

typedef void (*pn_coded_multiply)(const pn_coded_product *product);
typedef void (*pn_coded_halves)(const uint16_t *x, float *out, size_t n);

PN_CODED_INLINE size_t pn_coded_least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Eight floats, in as many registers as that takes. */
typedef float pn_coded_vector __attribute__((vector_size(4 * PN_CODED_LANES)));

/* sum += a * b for the first n of them. */
PN_CODED_INLINE void pn_coded_dot_step(const float *a, const float *b, size_t n, pn_coded_vector *sum) {
    pn_coded_vector x = {0}, y = {0};
    memcpy(&x, a, n * sizeof *a);
    memcpy(&y, b, n * sizeof *b);
    *sum += x * y;
}

/* Sum of a[i] * b[i]. */
PN_CODED_INLINE float pn_coded_dot(const float *a, const float *b, size_t n) {
    pn_coded_vector sum = {0};
    size_t i = 0;
    for (; i + PN_CODED_LANES <= n; i += PN_CODED_LANES)
        pn_coded_dot_step(a + i, b + i, PN_CODED_LANES, &sum);
    if (i < n) pn_coded_dot_step(a + i, b + i, n - i, &sum);
    float s[PN_CODED_LANES];
    memcpy(s, &sum, sizeof s);
    for (size_t half = PN_CODED_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            s[l] += s[l + half];
    return s[0];
}

/* out[i] = a[i] * b[i] */
PN_CODED_INLINE void pn_coded_fold(const float *a, const float *b, size_t n, float *out) {
    size_t i = 0;
    for (; i + PN_CODED_LANES <= n; i += PN_CODED_LANES) {
        pn_coded_vector x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        x *= y;
        memcpy(out + i, &x, sizeof x);
    }
    for (; i < n; i++)
        out[i] = a[i] * b[i];
}

/* out[i] += x; from 0 where it is new. */
PN_CODED_INLINE void pn_coded_add(float *out, float x, size_t n, bool new) {
    size_t i = 0;
    for (; i + PN_CODED_LANES <= n; i += PN_CODED_LANES) {
        pn_coded_vector v;
        if (new)
            v = (pn_coded_vector){0};
        else
            memcpy(&v, out + i, sizeof v);
        v += x;
        memcpy(out + i, &v, sizeof v);
    }
    for (; i < n; i++)
        out[i] = (new ? 0.0f : out[i]) + x;
}

/* Halves [n_key, n_group] as floats [n_group][PN_ATTN_KEYS]. */
PN_CODED_INLINE void pn_coded_by_group(const uint16_t *x, size_t n_key, size_t n_group, float *out,
                                       pn_coded_halves halves) {
    float row[PN_KV_RUN_MAX_GROUPS];
    if (n_group == 1) {
        halves(x, out, n_key);
        return;
    }
    for (size_t j = 0; j < n_key; j++) {
        halves(x + j * n_group, row, n_group);
        for (size_t g = 0; g < n_group; g++)
            out[g * PN_ATTN_KEYS + j] = row[g];
    }
}

/* As the slot attn_scores_coded. */
PN_CODED_INLINE void pn_coded_scores(const float *q, size_t n_row, const void *run, int bits, size_t dim,
                                     float *scores, const void *ahead, pn_coded_halves halves,
                                     pn_coded_multiply multiply) {
    const pn_kv_run_shape shape = {dim, PN_ATTN_KEYS, bits};
    const size_t row_bytes = pn_kv_run_row_bytes(&shape);
    const uint8_t *codes = run;
    const uint16_t *scales = (const uint16_t *)(const void *)(codes + pn_kv_run_code_bytes(&shape));
    float factor[PN_CODED_CHUNK], min[PN_CODED_CHUNK], a[PN_CODED_ROWS * PN_CODED_CHUNK];
    for (size_t d = 0; d < dim; d += PN_CODED_CHUNK) {
        const size_t k = pn_coded_least(dim - d, PN_CODED_CHUNK);
        halves(scales + d, factor, k);
        halves(scales + dim + d, min, k);
        for (size_t first = 0; first < n_row; first += PN_CODED_ROWS) {
            const size_t n = pn_coded_least(n_row - first, PN_CODED_ROWS);
            float *out = scores + first * PN_ATTN_KEYS;
            for (size_t r = 0; r < n; r++) {
                const float *x = q + (first + r) * dim + d;
                const float base = pn_coded_dot(x, min, k);
                pn_coded_add(out + r * PN_ATTN_KEYS, base, PN_ATTN_KEYS, d == 0);
                pn_coded_fold(x, factor, k, a + r * PN_CODED_CHUNK);
            }
            const pn_coded_product p = {.a = a,
                                        .n_row = n,
                                        .k = k,
                                        .n = PN_ATTN_KEYS,
                                        .codes = codes + d * row_bytes,
                                        .row_bytes = row_bytes,
                                        .bits = bits,
                                        .out = out,
                                        .out_stride = PN_ATTN_KEYS,
                                        .ahead =
                                            first == 0 && ahead ? (const char *)ahead + d * row_bytes : NULL,
                                        .burst = k * row_bytes};
            multiply(&p);
        }
    }
}

/* As the slot attn_mix_coded. */
PN_CODED_INLINE void pn_coded_mix(const float *weights, size_t n_row, const void *run, int bits, size_t begin,
                                  size_t n_key, size_t dim, float *acc, const void *ahead,
                                  pn_coded_halves halves, pn_coded_multiply multiply) {
    const size_t group = pn_kv_run_group(dim), n_group = dim / group;
    const pn_kv_run_shape shape = {PN_ATTN_KEYS * n_group, group, bits};
    const size_t row_bytes = n_group * pn_kv_run_row_bytes(&shape);
    const uint8_t *codes = run;
    const uint16_t *scales = (const uint16_t *)(const void *)(codes + pn_kv_run_code_bytes(&shape));
    float factor[PN_ATTN_KEYS * PN_KV_RUN_MAX_GROUPS], min[PN_ATTN_KEYS * PN_KV_RUN_MAX_GROUPS],
        a[PN_CODED_ROWS * PN_CODED_CHUNK];
    pn_coded_by_group(scales + begin * n_group, n_key, n_group, factor, halves);
    pn_coded_by_group(scales + shape.n_row + begin * n_group, n_key, n_group, min, halves);
    for (size_t g = 0; g < n_group; g++) {
        for (size_t first = 0; first < n_row; first += PN_CODED_ROWS) {
            const size_t n = pn_coded_least(n_row - first, PN_CODED_ROWS);
            float *out = acc + first * dim + g * group;
            for (size_t r = 0; r < n; r++) {
                const float *x = weights + (first + r) * PN_ATTN_KEYS + begin;
                const float base = pn_coded_dot(x, min + g * PN_ATTN_KEYS, n_key);
                pn_coded_add(out + r * dim, base, group, false);
                pn_coded_fold(x, factor + g * PN_ATTN_KEYS, n_key, a + r * PN_CODED_CHUNK);
            }
            const size_t share = PN_ATTN_KEYS * row_bytes / n_group;
            const pn_coded_product p = {.a = a,
                                        .n_row = n,
                                        .k = n_key,
                                        .n = group,
                                        .codes = codes + begin * row_bytes + g * (row_bytes / n_group),
                                        .row_bytes = row_bytes,
                                        .bits = bits,
                                        .out = out,
                                        .out_stride = dim,
                                        .ahead = first == 0 && ahead ? (const char *)ahead + g * share : NULL,
                                        .burst = share};
            multiply(&p);
        }
    }
}

/* The codes of one row as floats, for shapes that have no vectors of their own. */
PN_CODED_INLINE void pn_coded_decode(const uint8_t *row, size_t n, int bits, float *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = (float)pn_kv_run_code(row, n, bits, i);
}

/* ---- packing: quant/kv_run.c says what it is to give ---- */

PN_CODED_INLINE void pn_coded_range(const float *x, size_t n, float *least, float *greatest, bool *finite) {
    float lo[PN_CODED_LANES], hi[PN_CODED_LANES], zero[PN_CODED_LANES];
    for (size_t l = 0; l < PN_CODED_LANES; l++) {
        lo[l] = hi[l] = x[0];
        zero[l] = 0; /* x - x: NaN for what is no number */
    }
    size_t i = 0;
    for (; i + PN_CODED_LANES <= n; i += PN_CODED_LANES)
        for (size_t l = 0; l < PN_CODED_LANES; l++) {
            lo[l] = x[i + l] < lo[l] ? x[i + l] : lo[l];
            hi[l] = x[i + l] > hi[l] ? x[i + l] : hi[l];
            zero[l] += x[i + l] - x[i + l];
        }
    for (size_t l = 0; i < n; i++, l++) {
        lo[l] = x[i] < lo[l] ? x[i] : lo[l];
        hi[l] = x[i] > hi[l] ? x[i] : hi[l];
        zero[l] += x[i] - x[i];
    }
    float sum = 0;
    for (size_t l = 0; l < PN_CODED_LANES; l++) {
        lo[0] = lo[l] < lo[0] ? lo[l] : lo[0];
        hi[0] = hi[l] > hi[0] ? hi[l] : hi[0];
        sum += zero[l];
    }
    *least = lo[0];
    *greatest = hi[0];
    *finite = sum == 0;
}

PN_CODED_INLINE void pn_coded_pack_nibbles(const uint8_t *codes, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i += PN_KV_RUN_PIECE) {
        const size_t half = pn_coded_least(n - i, PN_KV_RUN_PIECE) / 2;
        for (size_t b = 0; b < half; b++)
            out[i / 2 + b] = (uint8_t)(codes[i + b] | codes[i + half + b] << 4);
    }
}

/* One row of at most PN_ATTN_KEYS, which a group of values has as well. */
PN_CODED_INLINE void pn_coded_pack_row(const float *x, size_t n, int bits, uint8_t *out, float *scale,
                                       float *min) {
    const float levels = bits == 8 ? 255.0f : 15.0f;
    uint8_t codes[PN_ATTN_KEYS];
    float least, greatest;
    bool finite;
    pn_coded_range(x, n, &least, &greatest, &finite);
    *scale = finite ? pn_f16_to_f32(pn_kv_run_scale(least, greatest, bits)) : 0.0f;
    *min = finite ? least : NAN;
    const float inverse = *scale > 0 ? 1.0f / *scale : 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float code = rintf((x[i] - least) * inverse);
        codes[i] = finite ? (uint8_t)(int)(code < levels ? code : levels) : 0;
    }
    if (bits == 8)
        memcpy(out, codes, n);
    else
        pn_coded_pack_nibbles(codes, n, out);
}

/* As the slot kv_pack. */
PN_CODED_INLINE void pn_coded_pack(const uint16_t *x, pn_kv_run_shape shape, void *run,
                                   pn_coded_halves halves) {
    uint8_t *codes = run;
    uint16_t *scales = (uint16_t *)(void *)(codes + pn_kv_run_code_bytes(&shape)),
             *mins = scales + shape.n_row;
    float row[PN_ATTN_KEYS], scale, min;
    for (size_t r = 0; r < shape.n_row; r++) {
        halves(x + r * shape.n_col, row, shape.n_col);
        pn_coded_pack_row(row, shape.n_col, shape.bits, codes + r * pn_kv_run_row_bytes(&shape), &scale,
                          &min);
        scales[r] = pn_f32_to_f16(scale);
        mins[r] = pn_f32_to_f16(min);
    }
}

/* The three slots of an instruction set that has pn_f16_to_f32_ISA and multiply_codes of its own. */
#define PN_CODED_SLOTS(isa)                                                                                  \
    void pn_attn_scores_coded_##isa(const float *q, size_t n_row, const void *run, int bits, size_t dim,     \
                                    float *scores, const void *ahead) {                                      \
        pn_coded_scores(q, n_row, run, bits, dim, scores, ahead, pn_f16_to_f32_##isa, multiply_codes);       \
    }                                                                                                        \
    void pn_attn_mix_coded_##isa(const float *p, size_t n_row, const void *run, int bits, size_t begin,      \
                                 size_t n_key, size_t dim, float *acc, const void *ahead) {                  \
        pn_coded_mix(p, n_row, run, bits, begin, n_key, dim, acc, ahead, pn_f16_to_f32_##isa,                \
                     multiply_codes);                                                                        \
    }                                                                                                        \
    void pn_kv_pack_##isa(const uint16_t *x, pn_kv_run_shape shape, void *run) {                             \
        pn_coded_pack(x, shape, run, pn_f16_to_f32_##isa);                                                   \
    }

#endif
