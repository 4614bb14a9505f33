/* SPDX-License-Identifier: Apache-2.0 */
/* Both products of attention are a [n_row, k] * b [k, n] with a row of b in vectors and an element of a in
   all lanes: every output element has a lane, which takes its products by fma in order of k, so that tiles of
   any shape agree. A few rows convert b as they read it; many have it converted once, into a buffer in L1. */
#include "kernels/coded_attention.h"
#include "kernels/x86_avx512/avx512.h"

enum {
    STRIP_ROWS = 6, /* times 4 vectors: 24 accumulators, and 8 registers for operands */
    FEW_ROWS = 2 * STRIP_ROWS,
    CHUNK = 64 /* rows and columns of b that are multiplied at a time; as floats 16 KiB */
};

/* out [n_row, n] = a * b, added to out or not. */
struct product {
    const float *a;
    const char *b; /* of `bits` each: floats, halves, or codes in the order of quant/kv_run.h */
    float *out;
    size_t a_stride, b_stride, out_stride; /* elements from row to row */
    size_t n_row, k, n;
    int bits;
    bool add;
    /* To prefetch while multiplying, if not NULL: as many bytes as b in step with its rows, alternately from
       both halves, since two streams come faster than one; or else `burst` bytes before every strip. */
    const char *ahead;
    bool in_step;
    size_t burst;
};

PN_AVX512_INLINE size_t b_bytes(const struct product *p, size_t elements) {
    return elements * (size_t)p->bits / 8;
}

/* Sixteen codes of a byte. */
PN_AVX512_INLINE __m512 floats_of(__m128i codes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes));
}

/* Of codes of 4 bits c is a multiple of 16, and the row has all of the piece. */
PN_AVX512_INLINE __m512 load_b(const struct product *p, size_t i, size_t c, __mmask16 mask) {
    const char *at = p->b + b_bytes(p, i * p->b_stride + c);
    if (p->bits == 16) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at));
    if (p->bits == 8) return floats_of(_mm_maskz_loadu_epi8(mask, at));
    if (p->bits == 4) {
        const bool high = c % PN_KV_RUN_PIECE != 0;
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at - (high ? 8 : 0)));
        if (high) bytes = _mm_srli_epi16(bytes, 4);
        return floats_of(_mm_and_si128(bytes, _mm_set1_epi8(15)));
    }
    return _mm512_maskz_loadu_ps(mask, at);
}

/* Into L2, which waits for more lines at once than L1. */
PN_AVX512_INLINE void prefetch(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch(at + i, _MM_HINT_T1);
}

/* The lines of p->ahead that belong to row i of a strip, from number `first` on: those with even numbers lie
   in the first half. */
PN_AVX512_INLINE void prefetch_row(const struct product *p, size_t first, size_t i, size_t row_bytes) {
    const size_t half = b_bytes(p, p->k * p->n) / 2, n = (row_bytes + 63) / 64, every = 64 * n / row_bytes;
    if (i % every != 0) return;
    for (size_t line = first + i / every * n, end = line + n; line < end; line++)
        prefetch(p->ahead + line % 2 * half + line / 2 * 64, 64);
}

/* n_row rows x n_vec vectors (constants) from column c on, the last vector masked. */
PN_AVX512_INLINE void strip(const struct product *p, size_t n_row, size_t c, size_t n_vec, __mmask16 last) {
    const size_t k = p->k, a_stride = p->a_stride, row_bytes = b_bytes(p, 16 * n_vec),
                 first_line = b_bytes(p, c * k) / 64;
    const float *a = p->a;
    __m512 s[STRIP_ROWS * 4], w[4];
    for (size_t r = 0; r < n_row; r++) {
        for (size_t v = 0; v < n_vec; v++) {
            __mmask16 mask = v + 1 < n_vec ? 0xffff : last;
            const float *from = p->out + r * p->out_stride + c + 16 * v;
            s[r * n_vec + v] = p->add ? _mm512_maskz_loadu_ps(mask, from) : _mm512_setzero_ps();
        }
    }
    for (size_t i = 0; i < k; i++) {
        if (p->in_step && p->ahead) prefetch_row(p, first_line, i, row_bytes);
        for (size_t v = 0; v < n_vec; v++)
            w[v] = load_b(p, i, c + 16 * v, v + 1 < n_vec ? 0xffff : last);
        for (size_t r = 0; r < n_row; r++) {
            __m512 x = _mm512_set1_ps(a[r * a_stride + i]);
            for (size_t v = 0; v < n_vec; v++)
                s[r * n_vec + v] = _mm512_fmadd_ps(x, w[v], s[r * n_vec + v]);
        }
    }
    for (size_t r = 0; r < n_row; r++) {
        for (size_t v = 0; v < n_vec; v++) {
            __mmask16 mask = v + 1 < n_vec ? 0xffff : last;
            _mm512_mask_storeu_ps(p->out + r * p->out_stride + c + 16 * v, mask, s[r * n_vec + v]);
        }
    }
}

/* n_row rows (a constant). */
PN_AVX512_INLINE void strip_row(const struct product *p, size_t n_row) {
    if (p->n == CHUNK) {
        strip(p, n_row, 0, 4, 0xffff);
        return;
    }
    for (size_t c = 0; c < p->n; c += 16)
        strip(p, n_row, c, 1, p->n - c < 16 ? pn_tail_mask(p->n - c) : 0xffff);
}

/* As few strips as there can be, of about the same height. */
PN_AVX512_INLINE void strips(struct product p) {
    for (size_t n_strip = (p.n_row + STRIP_ROWS - 1) / STRIP_ROWS; n_strip > 0; n_strip--) {
        size_t rows = (p.n_row + n_strip - 1) / n_strip;
        if (!p.in_step) prefetch(p.ahead, p.burst);
        switch (rows) {
        case 1:
            strip_row(&p, 1);
            break;
        case 2:
            strip_row(&p, 2);
            break;
        case 3:
            strip_row(&p, 3);
            break;
        case 4:
            strip_row(&p, 4);
            break;
        case 5:
            strip_row(&p, 5);
            break;
        default:
            strip_row(&p, 6);
            break;
        }
        p.n_row -= rows;
        p.a += rows * p.a_stride;
        p.out += rows * p.out_stride;
        p.ahead = p.in_step || p.burst == 0 ? NULL : p.ahead + p.burst;
    }
}

/* One function for each, so that what differs is constant in it. */
static void strips_of_floats(const struct product *p) {
    struct product floats = *p;
    floats.bits = 32;
    floats.in_step = true;
    strips(floats);
}

static void strips_of_halves(const struct product *p) {
    struct product halves = *p;
    halves.bits = 16;
    halves.in_step = true;
    strips(halves);
}

static void strips_of_bytes(const struct product *p) {
    struct product bytes = *p;
    bytes.bits = 8;
    bytes.in_step = true;
    strips(bytes);
}

static void strips_of_nibbles(const struct product *p) {
    struct product nibbles = *p;
    nibbles.bits = 4;
    nibbles.in_step = true;
    strips(nibbles);
}

static void strips_of_buffer(const struct product *p) {
    struct product floats = *p;
    floats.bits = 32;
    floats.in_step = false;
    floats.b_stride = CHUNK;
    strips(floats);
}

/* At most CHUNK rows and columns. */
PN_AVX512_INLINE void many_rows(struct product p) {
    _Alignas(64) float buffer[CHUNK * CHUNK];
    for (size_t i = 0; i < p.k; i++) {
        for (size_t c = 0; c < p.n; c += 16) {
            __mmask16 mask = p.n - c < 16 ? pn_tail_mask(p.n - c) : 0xffff;
            _mm512_mask_storeu_ps(buffer + i * CHUNK + c, mask, load_b(&p, i, c, mask));
        }
    }
    if (p.ahead) p.burst = b_bytes(&p, p.k * p.n) / (p.n_row / STRIP_ROWS) / 64 * 64;
    p.b = (const char *)buffer;
    strips_of_buffer(&p);
}

PN_AVX512_INLINE void multiply(const struct product *whole) {
    struct product p = *whole;
    for (size_t c = 0; c < whole->n; c += CHUNK) {
        for (size_t i = 0; i < whole->k; i += CHUNK) {
            p.a = whole->a + i;
            p.b = whole->b + b_bytes(whole, i * whole->b_stride + c);
            p.out = whole->out + c;
            p.k = whole->k - i < CHUNK ? whole->k - i : CHUNK;
            p.n = whole->n - c < CHUNK ? whole->n - c : CHUNK;
            p.add = whole->add || i > 0;
            if (p.n_row > FEW_ROWS)
                many_rows(p);
            else if (p.bits == 16)
                strips_of_halves(&p);
            else
                strips_of_floats(&p);
            if (p.ahead) p.ahead += b_bytes(whole, p.k * p.n);
        }
    }
}

PN_AVX512_INLINE void attn_scores(const float *q, size_t n_row, const void *keys, int bits, size_t dim,
                                  float *scores, const void *ahead) {
    struct product p = {.a = q,
                        .b = keys,
                        .out = scores,
                        .a_stride = dim,
                        .b_stride = PN_ATTN_KEYS,
                        .out_stride = PN_ATTN_KEYS,
                        .n_row = n_row,
                        .k = dim,
                        .n = PN_ATTN_KEYS,
                        .bits = bits,
                        .ahead = ahead};
    if (dim == 0) memset(scores, 0, n_row * PN_ATTN_KEYS * sizeof *scores);
    multiply(&p);
}

PN_AVX512_INLINE void attn_mix(const float *weights, size_t n_row, const void *values, int bits, size_t n_key,
                               size_t dim, float *acc, const void *ahead) {
    struct product p = {.a = weights,
                        .b = values,
                        .out = acc,
                        .a_stride = PN_ATTN_KEYS,
                        .b_stride = dim,
                        .out_stride = dim,
                        .n_row = n_row,
                        .k = n_key,
                        .n = dim,
                        .bits = bits,
                        .add = true,
                        .ahead = ahead};
    multiply(&p);
}

void pn_attn_scores_f16_avx512(const float *q, size_t n_row, const uint16_t *keys, size_t dim, float *scores,
                               const void *ahead) {
    attn_scores(q, n_row, keys, 16, dim, scores, ahead);
}

void pn_attn_scores_f32_avx512(const float *q, size_t n_row, const float *keys, size_t dim, float *scores,
                               const void *ahead) {
    attn_scores(q, n_row, keys, 32, dim, scores, ahead);
}

void pn_attn_mix_f16_avx512(const float *p, size_t n_row, const uint16_t *values, size_t n_key, size_t dim,
                            float *acc, const void *ahead) {
    attn_mix(p, n_row, values, 16, n_key, dim, acc, ahead);
}

void pn_attn_mix_f32_avx512(const float *p, size_t n_row, const float *values, size_t n_key, size_t dim,
                            float *acc, const void *ahead) {
    attn_mix(p, n_row, values, 32, n_key, dim, acc, ahead);
}

/* ---- codes ---- */

/* Rows of other widths than CHUNK are converted one code at a time. */
static void multiply_odd_codes(const pn_coded_product *coded, struct product p) {
    _Alignas(64) float buffer[CHUNK * CHUNK];
    for (size_t i = 0; i < p.k; i++)
        pn_coded_decode(coded->codes + i * coded->row_bytes, p.n, coded->bits, buffer + i * CHUNK);
    p.b = (const char *)buffer;
    strips_of_buffer(&p);
}

static void multiply_codes(const pn_coded_product *coded) {
    struct product p = {.a = coded->a,
                        .b = (const char *)coded->codes,
                        .out = coded->out,
                        .a_stride = PN_CODED_CHUNK,
                        .b_stride = coded->row_bytes * 8 / (size_t)coded->bits,
                        .out_stride = coded->out_stride,
                        .n_row = coded->n_row,
                        .k = coded->k,
                        .n = coded->n,
                        .bits = coded->bits,
                        .add = true};
    if (p.n == CHUNK && p.n_row <= FEW_ROWS) {
        p.ahead = coded->ahead;
        if (p.bits == 8)
            strips_of_bytes(&p);
        else
            strips_of_nibbles(&p);
        return;
    }
    if (coded->ahead) prefetch(coded->ahead, coded->burst);
    if (p.n == CHUNK)
        many_rows(p);
    else
        multiply_odd_codes(coded, p);
}

PN_CODED_SLOTS(avx512)
