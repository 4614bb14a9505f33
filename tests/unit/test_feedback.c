/* SPDX-License-Identifier: Apache-2.0 */
/* What rounding with calibration is made of: second moments and their factors against plain sums, fitted
   scales against the range's own, and feedback against its definition and against rounding to the nearest. */
#include "support/check.h"

#include "base/rng.h"
#include "compress/feedback.h"
#include "compress/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 160, N_TOK = 300, ROWS = PN_PANEL_ROWS };

static pn_rng rng;

static float normal(void) {
    double u = pn_rng_unit(&rng) + 1e-12, v = pn_rng_unit(&rng);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Inputs whose columns go together, with an outlier column and one that is always zero. */
static float *make_inputs(void) {
    float *x = malloc((size_t)N_TOK * N * sizeof *x);
    for (size_t t = 0; t < N_TOK; t++) {
        float common = normal();
        for (size_t c = 0; c < N; c++)
            x[t * N + c] = normal() + common * (float)(c % 3);
        x[t * N + 5] *= 30;
        x[t * N + 77] = 0;
    }
    return x;
}

static double *moments(const float *x) {
    double *h = calloc((size_t)N * N, sizeof *h);
    for (size_t t = 0; t < N_TOK; t++)
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++)
                h[i * N + j] += (double)x[t * N + i] * (double)x[t * N + j];
    return h;
}

static double damping_of(const double *h, double share) {
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        sum += h[i * N + i];
    return share * sum / N;
}

static pn_gram gram_of(const float *x, int n_threads, size_t at_a_time) {
    pn_gram g;
    pn_pool *pool;
    assert_int_equal(pn_pool_create(n_threads, &pool, NULL), PN_OK);
    assert_int_equal(pn_gram_create(N, &g, NULL), PN_OK);
    for (size_t t = 0; t < N_TOK; t += at_a_time)
        pn_gram_add(&g, pn_kernels_host(), pool, x + t * N, N_TOK - t < at_a_time ? N_TOK - t : at_a_time);
    pn_pool_free(pool);
    return g;
}

static void factor(pn_gram *g, double damping) {
    pn_pool *pool;
    assert_int_equal(pn_pool_create(2, &pool, NULL), PN_OK);
    assert_int_equal(pn_gram_factor(g, pn_kernels_host(), pool, damping, NULL), PN_OK);
    pn_pool_free(pool);
}

static void moments_are_sums_of_products(void **state) {
    (void)state;
    float *x = make_inputs();
    double *h = moments(x);
    pn_gram one = gram_of(x, 1, N_TOK), other = gram_of(x, 3, 256);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j <= i; j++) {
            float found = one.h[i * one.stride + j];
            double size = sqrt(h[i * N + i] * h[j * N + j]);
            assert_true(fabs((double)found - h[i * N + j]) <= 1e-5 * size);
            assert_true(found == other.h[i * one.stride + j]);
        }
    pn_gram_begin(&one, N);
    assert_true(one.h[3 * one.stride + 2] == 0);
    pn_gram_free(&one);
    pn_gram_free(&other);
    free(h);
    free(x);
}

static double u_of(const pn_gram *g, size_t row, size_t column) {
    if (row == column) return 1;
    return row < column ? (double)g->h[column * g->stride + row] : 0;
}

static void factors_multiply_to_the_moments(void **state) {
    (void)state;
    float *x = make_inputs();
    double *h = moments(x), more = damping_of(h, 0.01);
    pn_gram g = gram_of(x, 2, N_TOK);
    factor(&g, 0.01);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0, expected = h[i * N + j] + (i == j ? more : 0);
            for (size_t k = i; k < N; k++)
                sum += u_of(&g, i, k) * (double)g.d[k] * u_of(&g, j, k);
            assert_true(fabs(sum - expected) <= 1e-5 * sqrt((h[i * N + i] + more) * (h[j * N + j] + more)));
        }
    for (size_t k = 0; k < N; k++)
        assert_true(g.d[k] > 0);
    pn_gram_free(&g);
    free(h);
    free(x);
}

static void moments_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    pn_pool *pool;
    float *x = make_inputs();
    x[17 * N + 20] = NAN;
    pn_gram g = gram_of(x, 1, N_TOK);
    assert_int_equal(pn_pool_create(1, &pool, NULL), PN_OK);
    assert_int_equal(pn_gram_factor(&g, pn_kernels_host(), pool, 0.01, NULL), PN_ERR_NUMERIC);
    pn_pool_free(pool);
    pn_gram_free(&g);
    free(x);
}

/* ---- scales ---- */

static const pn_panel_kind kinds[] = {PN_PANEL_INT4_SYM, PN_PANEL_INT4_ASYM, PN_PANEL_INT8_SYM,
                                      PN_PANEL_INT8_ASYM};

static double loss_of(pn_panel_kind kind, pn_integer_scale scale, const float *values, const float *weight,
                      size_t n, size_t row) {
    const pn_panel_format f = pn_panel_formats[kind];
    double loss = 0;
    for (size_t c = 0; c < n; c++) {
        float v = values[c * ROWS + row];
        uint8_t code;
        pn_integer_round(kind, scale, &v, 1, &code);
        double rounded = (double)pn_f16_to_f32(scale.d) * (code - (f.min ? scale.zero : f.zero));
        loss += (double)weight[c] * pow((double)v - rounded, 2);
    }
    return loss;
}

static void fitted_scales_lose_less_than_the_range(void **state) {
    (void)state;
    enum { GROUP = 64 };
    float values[GROUP * ROWS], weight[GROUP], row[GROUP];
    for (size_t k = 0; k < 4; k++) {
        double fitted = 0, ranged = 0;
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < GROUP * ROWS; i++)
                values[i] = normal() + (round % 2 ? 0.5f : 0);
            for (size_t c = 0; c < GROUP; c++)
                weight[c] = expf(2 * normal());
            pn_integer_scale scales[ROWS], own;
            pn_fit_scales(kinds[k], (pn_fit_search){true, true}, values, weight, GROUP, scales, 1);
            for (size_t r = 0; r < ROWS; r++) {
                for (size_t c = 0; c < GROUP; c++)
                    row[c] = values[c * ROWS + r];
                float range[2];
                pn_integer_find_range(row, GROUP, range);
                assert_int_equal(pn_integer_find_scale(kinds[k], range, &own), PN_INTEGER_RANGE_OK);
                double a = loss_of(kinds[k], scales[r], values, weight, GROUP, r),
                       b = loss_of(kinds[k], own, values, weight, GROUP, r);
                assert_true(a <= 1.05 * b); /* the half of the fitted scale is rounded once more */
                fitted += a;
                ranged += b;
            }
        }
        assert_true(fitted < (pn_panel_formats[kinds[k]].bits == 4 ? 0.75 : 0.95) * ranged);
    }
}

static void groups_of_nothing_and_of_everything_have_scales(void **state) {
    (void)state;
    static const float sizes[] = {0, 1e-30f, 3e8f};
    float values[32 * ROWS], weight[32];
    for (size_t i = 0; i < 3; i++) {
        for (size_t c = 0; c < 32; c++)
            weight[c] = c % 2 ? 0 : 1;
        for (size_t j = 0; j < 32 * ROWS; j++)
            values[j] = sizes[i] * normal();
        for (size_t k = 0; k < 4; k++) {
            pn_integer_scale scales[ROWS];
            pn_fit_scales(kinds[k], (pn_fit_search){true, true}, values, weight, 32, scales, 1);
            for (size_t r = 0; r < ROWS; r++) {
                float d = pn_f16_to_f32(scales[r].d);
                assert_true(isfinite(d) && d != 0);
            }
        }
    }
}

/* ---- feedback ---- */

struct bench {
    pn_gram g;
    double *h; /* with its damping */
    pn_panel_shape shape;
    void *memory;
    pn_feedback_room room;
    float weights[N * ROWS];
};

static void begin(struct bench *b, size_t group) {
    float *x = make_inputs();
    b->h = moments(x);
    double more = damping_of(b->h, 0.01);
    for (size_t i = 0; i < N; i++)
        b->h[i * N + i] += more;
    b->g = gram_of(x, 1, N_TOK);
    factor(&b->g, 0.01);
    b->shape = (pn_panel_shape){N, group};
    b->memory = aligned_alloc(64, (pn_feedback_room_bytes(N) + 63) / 64 * 64);
    b->room = pn_feedback_room_in(b->memory, N);
    for (size_t i = 0; i < N * ROWS; i++)
        b->weights[i] = normal();
    memcpy(b->room.weights, b->weights, sizeof b->weights);
    free(x);
}

static void end(struct bench *b) {
    pn_gram_free(&b->g);
    free(b->h);
    free(b->memory);
}

static float rounded(const struct bench *b, pn_panel_kind kind, size_t r, size_t c) {
    const pn_panel_format f = pn_panel_formats[kind];
    pn_integer_scale scale = b->room.scales[r * (N / b->shape.group) + c / b->shape.group];
    return pn_f16_to_f32(scale.d) * (float)(b->room.codes[r * N + c] - (f.min ? scale.zero : f.zero));
}

static double loss_under(const struct bench *b, const double *error) {
    double loss = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            loss += error[i] * b->h[i * N + j] * error[j];
    return loss;
}

static void feedback_is_what_it_says(void **state) {
    (void)state;
    static const size_t groups[] = {32, 160};
    for (size_t k = 0; k < 4; k++)
        for (size_t g = 0; g < 2; g++) {
            struct bench b;
            double loss = 0, nearest_loss = 0;
            begin(&b, groups[g]);
            const pn_column_rounding how = {
                .kind = kinds[k], .shape = b.shape, .search = {true, true}, .gram = &b.g};
            pn_feedback_round(pn_kernels_host(), &how, &b.room);
            for (size_t r = 0; r < ROWS; r++) {
                double error[N], nearest[N];
                for (size_t c = 0; c < N; c++) {
                    pn_integer_scale scale = b.room.scales[r * (N / b.shape.group) + c / b.shape.group];
                    const float d = pn_f16_to_f32(scale.d), w = b.weights[c * ROWS + r];
                    double wanted = (double)w;
                    for (size_t before = 0; before < c; before++)
                        wanted += error[before] * u_of(&b.g, before, c);
                    const int most = (1 << pn_panel_formats[kinds[k]].bits) - 1;
                    const int zero =
                        pn_panel_formats[kinds[k]].min ? scale.zero : pn_panel_formats[kinds[k]].zero;
                    double code = fmin(fmax(wanted / (double)d + zero, 0), most);
                    assert_true(fabs(code - b.room.codes[r * N + c]) <= 0.501);
                    error[c] = (double)w - (double)rounded(&b, kinds[k], r, c);
                    uint8_t near;
                    pn_integer_round(kinds[k], scale, &w, 1, &near);
                    nearest[c] = (double)w - (double)d * (near - zero);
                    assert_true(fabs(error[c] - (double)b.room.errors[c * ROWS + r]) <= 1e-5);
                }
                loss += loss_under(&b, error);
                nearest_loss += loss_under(&b, nearest);
            }
            assert_true(loss < 0.8 * nearest_loss);
            end(&b);
        }
}

/* Stretched columns are rounded as those of a matrix that is stretched already, and the errors are those of
   the matrix as it is. */
static void stretching_is_what_it_says(void **state) {
    (void)state;
    struct bench b;
    float stretch[N], weight[N], errors[N * ROWS];
    uint8_t codes[N * ROWS];
    begin(&b, 32);
    for (size_t c = 0; c < N; c++) {
        stretch[c] = ldexpf(1, (int)(c % 5) - 2); /* powers of two, so that nothing is rounded on the way */
        weight[c] = 1 + (float)(c % 7);
    }
    pn_column_rounding how = {.kind = PN_PANEL_INT4_ASYM,
                              .shape = b.shape,
                              .search = {true, true},
                              .weight = weight,
                              .stretch = stretch};
    pn_feedback_round(pn_kernels_host(), &how, &b.room);
    memcpy(codes, b.room.codes, sizeof codes);
    memcpy(errors, b.room.errors, sizeof errors);
    for (size_t c = 0; c < N; c++) {
        weight[c] /= stretch[c] * stretch[c];
        for (size_t r = 0; r < ROWS; r++)
            b.room.weights[c * ROWS + r] *= stretch[c];
    }
    how.stretch = NULL;
    pn_feedback_round(pn_kernels_host(), &how, &b.room);
    assert_memory_equal(codes, b.room.codes, sizeof codes);
    for (size_t i = 0; i < N * ROWS; i++)
        assert_true(fabsf(errors[i] * stretch[i / ROWS] - b.room.errors[i]) <= 1e-5f);
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_sums_of_products),
        cmocka_unit_test(factors_multiply_to_the_moments),
        cmocka_unit_test(moments_that_are_no_numbers_are_refused),
        cmocka_unit_test(fitted_scales_lose_less_than_the_range),
        cmocka_unit_test(groups_of_nothing_and_of_everything_have_scales),
        cmocka_unit_test(feedback_is_what_it_says),
        cmocka_unit_test(stretching_is_what_it_says),
    };
    pn_rng_seed(&rng, 5);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
