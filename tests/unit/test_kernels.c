/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of the kernels on floats, attention and coded weights apart. Scalar is
   checked against the slot's definition computed in double; then the feature mask is raised step by step, and
   each slot whose pointer changed goes through the same checks and, where its class is EXACT, must give the
   scalar's bits. All operands lie against inaccessible pages, at the start and at the end, so that a read or
   write outside them traps; the lengths run over every tail. */
#include "base/cpu.h"
#include "support/kernel_check.h"

static pn_kernels scalar;

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

enum { MAX_TOK = 70 };

typedef struct matmul_case {
    const float *w, *x; /* [k, 16], [MAX_TOK, stride] */
    size_t k, stride;
    float start[MAX_TOK][PN_PANEL_ROWS];
    float single[MAX_TOK][PN_PANEL_ROWS]; /* start plus the product, one token and one row at a time */
} matmul_case;

/* The last (at the end) or first tokens together, k in two parts: the same bits as one by one, gaps in out
   untouched. */
static void check_matmul_tile(const pn_kernels *t, const matmul_case *m, size_t n_row, size_t n_tok,
                              int place) {
    size_t mark = guarded_mark(), t0 = place == AT_END ? MAX_TOK - n_tok : 0;
    size_t stride = n_row + 2, n_out = n_tok == 0 ? 0 : (n_tok - 1) * stride + n_row;
    const float *x = m->x + t0 * m->stride;
    float *out = guarded_floats(n_out, place);
    for (size_t i = 0; i < n_out; i++)
        out[i] = i % stride < n_row ? m->start[t0 + i / stride][i % stride] : 77.0f;
    size_t split = n_tok % 3 == 0 ? m->k / 3 : 0;
    t->matmul_f32(m->w, n_row, x, m->stride, n_tok, split, out, stride);
    t->matmul_f32(m->w + split * PN_PANEL_ROWS, n_row, x + split, m->stride, n_tok, m->k - split, out,
                  stride);
    for (size_t i = 0; i < n_out; i++)
        check_same("matmul_f32", i, out[i],
                   i % stride < n_row ? m->single[t0 + i / stride][i % stride] : 77.0f);
    free_guarded_to(mark);
}

static void check_matmul_single(const pn_kernels *t, matmul_case *m, size_t tok, size_t row) {
    float out[PN_PANEL_ROWS];
    memcpy(out, m->start[tok], sizeof out);
    t->matmul_f32(m->w, row + 1, m->x + tok * m->stride, m->stride, 1, m->k, out, PN_PANEL_ROWS);
    double sum = m->start[tok][row], magnitude = fabs(sum);
    for (size_t c = 0; c < m->k; c++) {
        double product = (double)m->w[c * PN_PANEL_ROWS + row] * m->x[tok * m->stride + c];
        sum += product;
        magnitude += fabs(product);
    }
    check_near("matmul_f32", tok * PN_PANEL_ROWS + row, out[row], sum, 2 + 0.5 * (double)m->k, magnitude);
    m->single[tok][row] = out[row];
}

static void check_matmul_case(const pn_kernels *t, size_t k, size_t pad, int kind, int place) {
    matmul_case m = {.k = k, .stride = k + pad};
    size_t n_w = k * PN_PANEL_ROWS, n_x = (MAX_TOK - 1) * m.stride + k;
    float *w = guarded_floats(n_w, place), *x = guarded_floats(n_x, place);
    fill(w, n_w, kind);
    fill(x, n_x, kind);
    fill(&m.start[0][0], MAX_TOK * PN_PANEL_ROWS, kind);
    m.w = w;
    m.x = x;
    for (size_t i = 0; i < MAX_TOK * PN_PANEL_ROWS; i++)
        check_matmul_single(t, &m, i / PN_PANEL_ROWS, i % PN_PANEL_ROWS);
    for (size_t n_tok = 0; n_tok <= MAX_TOK; n_tok++)
        check_matmul_tile(t, &m, 1 + (n_tok + k) % PN_PANEL_ROWS, n_tok, place);
    for (size_t n_row = 0; n_row <= PN_PANEL_ROWS; n_row++)
        for (size_t n_tok = 1; n_tok < 20; n_tok += 3)
            check_matmul_tile(t, &m, n_row, n_tok, place);
    free_guarded();
}

/* One NaN in x or an infinity in w: its token, or its row, and nothing else. */
static void check_matmul_nan(const pn_kernels *t) {
    enum { K = 37, TOK = 9 };
    float *w = guarded_floats(K * PN_PANEL_ROWS, AT_END), *x = guarded_floats(TOK * K, AT_END);
    float *out = guarded_floats(TOK * PN_PANEL_ROWS, AT_END);
    fill(w, K * PN_PANEL_ROWS, 2);
    fill(x, TOK * K, 2);
    x[5 * K + 36] = NAN;
    w[17 * PN_PANEL_ROWS + 3] = INFINITY;
    memset(out, 0, TOK * PN_PANEL_ROWS * sizeof *out);
    t->matmul_f32(w, PN_PANEL_ROWS, x, K, TOK, K, out, PN_PANEL_ROWS);
    for (size_t i = 0; i < TOK * PN_PANEL_ROWS; i++) {
        bool nan = i / PN_PANEL_ROWS == 5, infinite = i % PN_PANEL_ROWS == 3;
        assert_true(nan ? isnan(out[i]) : infinite ? isinf(out[i]) : isfinite(out[i]));
    }
    free_guarded();
}

static void check_matmul_f32(const pn_kernels *t) {
    static const size_t ks[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 64, 255, 256};
    for (size_t i = 0; i < COUNT(ks); i++)
        check_matmul_case(t, ks[i], i % 3, (int)(i % N_KIND), (int)(i % N_PLACE));
    check_matmul_case(t, 8, 0, 1, AT_END);
    check_matmul_nan(t);
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

static void find_range_of_length(const pn_kernels *t, size_t n, int place) {
    if (n == 0) return;
    float *x = guarded_floats(n, place), found[2], expected[2];
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    fill(x, n, 1);
    for (size_t i = 0; i < 4; i++) {
        if (i > 0) x[n - n / (2 * i) - 1] = odd[i - 1];
        pn_integer_find_range(x, n, expected);
        t->find_range(x, n, found);
        for (int end = 0; end < 2; end++)
            if (found[end] != expected[end] && !(isnan(found[end]) && isnan(expected[end])))
                fail_msg("find_range of %zu: %a, expected %a", n, found[end], expected[end]);
    }
}
static void check_find_range(const pn_kernels *t) {
    for_lengths(t, 1, find_range_of_length);
}

static void round_codes_of_length(const pn_kernels *t, size_t n, int place) {
    static const pn_panel_kind kinds[] = {PN_PANEL_INT4_SYM, PN_PANEL_INT4_ASYM, PN_PANEL_INT8_SYM,
                                          PN_PANEL_INT8_ASYM};
    float *x = guarded_floats(n, place);
    uint8_t *codes = guarded(n, 1, place), *expected = malloc(n + 1);
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const bool four = pn_panel_formats[kinds[k]].bits == 4;
        const pn_integer_scale scale = {pn_f32_to_f16(four ? -0.15f : 0.01f),
                                        pn_panel_formats[kinds[k]].min ? (four ? 9 : 140) : 0};
        fill(x, n, 1);
        const float lost = pn_integer_round(kinds[k], scale, x, n, expected),
                    found = t->round_codes(kinds[k], scale, x, n, codes);
        assert_memory_equal(codes, expected, n);
        assert_true(fabsf(found - lost) <= 1e-5f * lost);
    }
    free(expected);
}
static void check_round_codes(const pn_kernels *t) {
    for_lengths(t, 1, round_codes_of_length);
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

/* Byte b of vector v of a step: its high four bits from one part, its low four from the other. */
static void check_join_split(const pn_kernels *t) {
    for (size_t n = 0; n <= 20; n++) {
        int place = n % 2 ? AT_END : AT_START;
        size_t steps = n / 2, scales = n % 4 < 2 ? 32 : 0, h_bytes = 256 + 2 * scales, bytes = 512 + scales;
        uint8_t *high = guarded(steps, h_bytes, place), *low = guarded(steps, 256, place),
                *panel = guarded(steps, bytes, place);
        for (size_t i = 0; i < steps * h_bytes; i++)
            high[i] = (uint8_t)pn_rng_u64(&rng);
        for (size_t i = 0; i < steps * 256; i++)
            low[i] = (uint8_t)pn_rng_u64(&rng);
        t->join_split(high, low, steps, scales, panel);
        for (size_t s = 0; s < steps; s++) {
            for (size_t v = 0; v < 8; v++)
                for (size_t b = 0; b < 64; b++) {
                    size_t at = v % 4 * 64 + b, shift = v / 4 * 4;
                    int h = high[s * h_bytes + at] >> shift & 15, l = low[s * 256 + at] >> shift & 15;
                    assert_int_equal(panel[s * bytes + v * 64 + b], h << 4 | l);
                }
            assert_memory_equal(panel + s * bytes + 512, high + s * h_bytes + 256, scales);
        }
        free_guarded();
    }
}

static void check_peak(uint64_t (*peak)(size_t)) {
    static const size_t rounds[] = {0, 1, 2, 7, 4096};
    for (size_t i = 0; i < COUNT(rounds); i++)
        assert_int_equal(peak(rounds[i]), rounds[i] * PN_PEAK_ROUND);
}
static void check_peak_codes(const pn_kernels *t) {
    check_peak(t->peak_codes);
}
static void check_peak_f32(const pn_kernels *t) {
    check_peak(t->peak_f32);
}

/* ---- halves ---- */

/* Sign, 5 bits of exponent, 10 of fraction; sign, 8 and 7. */
static float value_of_half(uint16_t h) {
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, sign = h >> 15 ? -1 : 1;
    if (exponent == 31) return fraction > 0 ? NAN : (float)(sign * INFINITY);
    return (float)(sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25)));
}
static float value_of_bfloat(uint16_t h) {
    int exponent = h >> 7 & 255;
    double fraction = h & 127, sign = h >> 15 ? -1 : 1;
    if (exponent == 255) return fraction > 0 ? NAN : (float)(sign * INFINITY);
    return (float)(sign * (exponent == 0 ? ldexp(fraction, -133) : ldexp(128 + fraction, exponent - 134)));
}

static void check_widen(void (*widen)(const uint16_t *, float *, size_t), float (*value_of)(uint16_t),
                        size_t n, int place) {
    uint16_t *x = guarded(n, sizeof *x, place);
    float *out = guarded_floats(n, place);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint16_t)(n < 65536 ? pn_rng_u64(&rng) : i);
    widen(x, out, n);
    for (size_t i = 0; i < n; i++)
        check_same("widen", i, out[i], value_of(x[i]));
}

static void from_f16_of_length(const pn_kernels *t, size_t n, int place) {
    check_widen(t->f16_to_f32, value_of_half, n, place);
}
static void from_bf16_of_length(const pn_kernels *t, size_t n, int place) {
    check_widen(t->bf16_to_f32, value_of_bfloat, n, place);
}
static void check_f16_to_f32(const pn_kernels *t) {
    for_lengths(t, 1, from_f16_of_length);
    from_f16_of_length(t, 65536, AT_END);
    free_guarded();
}
static void check_bf16_to_f32(const pn_kernels *t) {
    for_lengths(t, 1, from_bf16_of_length);
    from_bf16_of_length(t, 65536, AT_END);
    free_guarded();
}

/* ---- the table ---- */

#define SLOT(slot)                                                                                           \
    { #slot, offsetof(pn_kernels, slot), check_##slot }

static const kernel_slot slots[] = {
    SLOT(matmul_f32),   SLOT(f16_to_f32),     SLOT(bf16_to_f32),     SLOT(max_f32),      SLOT(exp_sum_f32),
    SLOT(rms_norm_f32), SLOT(rope_pairs_f32), SLOT(rope_halves_f32), SLOT(silu_mul_f32), SLOT(gelu_mul_f32),
    SLOT(add_f32),      SLOT(scale_f32),      SLOT(f32_to_f16),      SLOT(read_streams), SLOT(peak_codes),
    SLOT(peak_f32),     SLOT(join_split),     SLOT(find_range),      SLOT(round_codes),
};

/* Checked by test_kernels_coded.c and test_kernels_attention.c. */
static const char *const elsewhere[] = {
    "quantise",     "matmul_codes", "codes_to_f32", "join_split",        "attn_scores_f16", "attn_scores_f32",
    "attn_softmax", "attn_mix_f16", "attn_mix_f32", "attn_scores_coded", "attn_mix_coded",  "kv_pack",
};

static bool is_checked(const char *name) {
    for (size_t i = 0; i < COUNT(slots); i++)
        if (strcmp(slots[i].name, name) == 0) return true;
    for (size_t i = 0; i < COUNT(elsewhere); i++)
        if (strcmp(elsewhere[i], name) == 0) return true;
    return false;
}

static void test_every_slot_is_checked(void **state) {
    (void)state;
    static const char *const names[] = {
#define NAME(slot, class, ret, params) #slot,
        PN_KERNEL_SLOTS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (!is_checked(names[i])) fail_msg("no test checks the slot %s", names[i]);
}

static size_t check_new(const pn_kernels *table, const pn_kernels *before) {
    return check_new_slots(slots, COUNT(slots), table, before);
}

static void test_scalar(void **state) {
    (void)state;
    pn_kernels none = {0};
    assert_int_equal(check_new(&scalar, &none), COUNT(slots));
}

static void test_variants(void **state) {
    (void)state;
    for_each_feature_step(check_new);
}

static void test_host_table(void **state) {
    (void)state;
    pn_kernels table;
    pn_kernels_init(&table, pn_cpu_features());
    assert_ptr_equal(pn_kernels_host(), pn_kernels_host());
    assert_memory_equal(pn_kernels_host(), &table, sizeof table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_slot_is_checked),
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_host_table),
    };
    pn_rng_seed(&rng, 1);
    pn_kernels_init(&scalar, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
