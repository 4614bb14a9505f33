/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of the attention kernels, against their definition computed in double and against themselves
   one row, or a part of the keys, at a time. Operands lie against inaccessible pages. */
#include "support/kernel_check.h"

enum { KEYS = PN_ATTN_KEYS };

static const size_t dims[] = {0,  1,  2,  3,  5,  7,  8,  9,  15, 16,  17,
                              31, 32, 33, 40, 64, 72, 77, 80, 96, 128, 256};
static const size_t n_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 24, 31, 0};

/* A cache block's keys [dim, KEYS] or values [n_key, dim], as halves and as the same floats. */
typedef struct cached {
    bool half;
    const uint16_t *halves;
    const float *floats;
} cached;

static cached guarded_cached(size_t n, bool half, int place) {
    uint16_t *halves = guarded(n, sizeof *halves, place);
    float *floats = guarded_floats(n, place);
    fill(floats, n, 0);
    for (size_t i = 0; i < n; i++) {
        halves[i] = pn_f32_to_f16(floats[i]);
        if (half) floats[i] = pn_f16_to_f32(halves[i]);
    }
    return (cached){half, halves, floats};
}

/* ---- scores ---- */

static void call_scores(const pn_kernels *t, const float *q, size_t n_row, cached keys, size_t dim,
                        float *scores, bool ahead) {
    if (keys.half)
        t->attn_scores_f16(q, n_row, keys.halves, dim, scores, ahead ? keys.halves : NULL);
    else
        t->attn_scores_f32(q, n_row, keys.floats, dim, scores, ahead ? keys.floats : NULL);
}

static void check_scores_case(const pn_kernels *t, bool half, size_t n_row, size_t dim, int place) {
    float *q = guarded_floats(n_row * dim, place), *scores = guarded_floats(n_row * KEYS, place),
          single[KEYS];
    cached keys = guarded_cached(dim * KEYS, half, place);
    fill(q, n_row * dim, 0);
    call_scores(t, q, n_row, keys, dim, scores, dim % 2);
    for (size_t r = 0; r < n_row; r++) {
        call_scores(t, q + r * dim, 1, keys, dim, single, false);
        for (size_t j = 0; j < KEYS; j++) {
            double sum = 0, magnitude = 0;
            for (size_t d = 0; d < dim; d++) {
                double product = (double)q[r * dim + d] * keys.floats[d * KEYS + j];
                sum += product;
                magnitude += fabs(product);
            }
            check_near("attn_scores", r * KEYS + j, scores[r * KEYS + j], sum, 4, magnitude);
            check_same("attn_scores", r * KEYS + j, scores[r * KEYS + j], single[j]);
        }
    }
    free_guarded();
}

static void check_scores(const pn_kernels *t, bool half) {
    for (size_t i = 0; i < COUNT(dims) * COUNT(n_rows); i++)
        check_scores_case(t, half, n_rows[i % COUNT(n_rows)], dims[i / COUNT(n_rows)],
                          (int)(i % (ASKEW + 1)));
}
static void check_attn_scores_f16(const pn_kernels *t) {
    check_scores(t, true);
}
static void check_attn_scores_f32(const pn_kernels *t) {
    check_scores(t, false);
}

/* ---- running softmax ---- */

/* A row's scores and what stands for the keys before. */
typedef struct softmax_row {
    float scores[KEYS], max, sum, shrink;
} softmax_row;

static softmax_row random_row(size_t n) {
    static const float sizes[] = {1, 20, 200, 1e4f};
    softmax_row row = {.max = -INFINITY};
    for (size_t j = 0; j < KEYS; j++)
        row.scores[j] = n % 7 == 6 ? 3.5f : sizes[n % 4] * random_float();
    if (n % 3 > 0) {
        row.max = sizes[n % 4] * random_float();
        row.sum = 1 + fabsf(random_float());
    }
    return row;
}

/* Powers below the least normal float may be lost. */
static void check_power(const char *what, size_t at, float found, double expected) {
    check_near(what, at, found, expected, 4, expected + FLT_MIN / FLT_EPSILON);
}

static void check_softmax_row(const softmax_row *before, const softmax_row *found, size_t begin, size_t end) {
    float m = before->scores[begin];
    for (size_t j = begin; j < end; j++)
        m = fmaxf(m, before->scores[j]);
    if (m <= before->max + PN_ATTN_SLACK) m = before->max;
    check_same("attn_softmax max", 0, found->max, m);
    check_power("attn_softmax shrink", 0, found->shrink, exp2((double)(before->max - m)));
    if (before->max == m) check_same("attn_softmax shrink of nothing new", 0, found->shrink, 1);
    if (isinf(before->max)) check_same("attn_softmax shrink from -infinity", 0, found->shrink, 0);
    double sum = (double)before->sum * (double)found->shrink;
    for (size_t j = 0; j < KEYS; j++) {
        if (j < begin || j >= end) {
            check_same("attn_softmax other keys", j, found->scores[j], before->scores[j]);
            continue;
        }
        check_power("attn_softmax", j, found->scores[j], exp2((double)(before->scores[j] - m)));
        sum += found->scores[j];
    }
    check_near("attn_softmax sum", 0, found->sum, sum, 4, sum);
}

enum { MAX_ROW = 9 };

/* All rows together: each as the definition has it, and the same bits as alone. */
static void check_softmax_case(const pn_kernels *t, size_t n_row, size_t begin, size_t end, int place) {
    softmax_row before[MAX_ROW], alone, found;
    float *scores = guarded_floats(n_row * KEYS, place), *max = guarded_floats(n_row, place),
          *sum = guarded_floats(n_row, place), *shrink = guarded_floats(n_row, place);
    for (size_t r = 0; r < n_row; r++) {
        before[r] = random_row(random_below(84));
        memcpy(scores + r * KEYS, before[r].scores, sizeof before[r].scores);
        max[r] = before[r].max;
        sum[r] = before[r].sum;
    }
    t->attn_softmax(scores, n_row, begin, end, max, sum, shrink);
    for (size_t r = 0; r < n_row; r++) {
        memcpy(found.scores, scores + r * KEYS, sizeof found.scores);
        found.max = max[r];
        found.sum = sum[r];
        found.shrink = shrink[r];
        check_softmax_row(&before[r], &found, begin, end);
        alone = before[r];
        t->attn_softmax(alone.scores, 1, begin, end, &alone.max, &alone.sum, &alone.shrink);
        assert_memory_equal(&alone, &found, sizeof alone);
    }
    free_guarded();
}

static void check_softmax_nan(const pn_kernels *t) {
    for (size_t at = 0; at < KEYS; at++) {
        float scores[2 * KEYS], max[2] = {-INFINITY, 0.5f}, sum[2] = {0, 1}, shrink[2];
        fill(scores, 2 * KEYS, 0);
        scores[at] = NAN;
        t->attn_softmax(scores, 2, 0, KEYS, max, sum, shrink);
        assert_true(isnan(scores[at]) && isnan(sum[0]) && isfinite(sum[1]));
    }
}

static void check_attn_softmax(const pn_kernels *t) {
    for (size_t begin = 0; begin < KEYS; begin++)
        for (size_t end = begin + 1; end <= KEYS; end++)
            check_softmax_case(t, (begin + end) % (MAX_ROW + 1), begin, end,
                               (int)((begin + end / 2) % (ASKEW + 1)));
    check_softmax_nan(t);
}

/* ---- mix ---- */

static void call_mix(const pn_kernels *t, const float *p, size_t n_row, cached values, size_t j, size_t n_key,
                     size_t dim, float *acc) {
    size_t at = j * dim;
    if (values.half)
        t->attn_mix_f16(p + j, n_row, values.halves + at, n_key, dim, acc, n_key % 2 ? values.halves : NULL);
    else
        t->attn_mix_f32(p + j, n_row, values.floats + at, n_key, dim, acc, n_key % 2 ? values.floats : NULL);
}

/* All rows and keys at once; then each row alone, with the keys in two calls: the same bits. */
static void check_mix_case(const pn_kernels *t, bool half, size_t n_row, size_t n_key, size_t dim,
                           int place) {
    size_t n = n_row * dim, split = n_key / 3, n_p = n_row > 0 && n_key > 0 ? (n_row - 1) * KEYS + n_key : 0;
    float *acc = guarded_floats(n, place), *start = guarded_floats(n, place),
          *single = guarded_floats(dim, place), *p = guarded_floats(n_p, place);
    cached values = guarded_cached(n_key * dim, half, place);
    fill(p, n_p, 2);
    fill(start, n, 0);
    if (n > 0) memcpy(acc, start, n * sizeof *acc);
    call_mix(t, p, n_row, values, 0, n_key, dim, acc);
    for (size_t r = 0; r < n_row; r++) {
        memcpy(single, start + r * dim, dim * sizeof *single);
        call_mix(t, p + r * KEYS, 1, values, 0, split, dim, single);
        call_mix(t, p + r * KEYS, 1, values, split, n_key - split, dim, single);
        for (size_t d = 0; d < dim; d++) {
            double sum = start[r * dim + d], magnitude = fabs(sum);
            for (size_t j = 0; j < n_key; j++) {
                double product = (double)p[r * KEYS + j] * values.floats[j * dim + d];
                sum += product;
                magnitude += fabs(product);
            }
            check_near("attn_mix", r * dim + d, acc[r * dim + d], sum, 8, magnitude);
            check_same("attn_mix", r * dim + d, acc[r * dim + d], single[d]);
        }
    }
    free_guarded();
}

static void check_mix(const pn_kernels *t, bool half) {
    static const size_t n_keys[] = {0, 1, 2, 7, 8, 9, 17, 31, 63, 64};
    for (size_t i = 0; i < COUNT(dims) * COUNT(n_keys); i++)
        check_mix_case(t, half, n_rows[i % COUNT(n_rows)], n_keys[i % COUNT(n_keys)], dims[i / COUNT(n_keys)],
                       (int)(i / 3 % (ASKEW + 1)));
    for (size_t i = 0; i < COUNT(n_rows); i++)
        check_mix_case(t, half, n_rows[i], KEYS, 64, AT_END);
}
static void check_attn_mix_f16(const pn_kernels *t) {
    check_mix(t, true);
}
static void check_attn_mix_f32(const pn_kernels *t) {
    check_mix(t, false);
}

/* ---- codes ---- */

static const size_t coded_dims[] = {8, 20, 40, 64, 80, 96, 128, 256};

/* Halves [n] and the run that the specification makes of them. */
static void *guarded_run(pn_kv_run_shape shape, int place) {
    const size_t n = shape.n_row * shape.n_col;
    uint16_t *x = guarded(n, sizeof *x, place);
    for (size_t i = 0; i < n; i++)
        x[i] = pn_f32_to_f16(3 * random_float() + (float)(i % 7));
    void *run = guarded(pn_kv_run_size(&shape), 1, AT_END);
    memset(run, 0, pn_kv_run_size(&shape));
    pn_kv_run_pack(x, &shape, run);
    return run;
}

static pn_kv_run_shape keys_shape(size_t dim, int bits) {
    return (pn_kv_run_shape){dim, KEYS, bits};
}
static pn_kv_run_shape values_shape(size_t dim, int bits) {
    const size_t group = pn_kv_run_group(dim);
    return (pn_kv_run_shape){KEYS * (dim / group), group, bits};
}

/* With all rows, and each alone: the same bits. */
static void check_coded_scores(const pn_kernels *t, size_t n_row, size_t dim, int bits, int place) {
    const pn_kv_run_shape shape = keys_shape(dim, bits);
    float *q = guarded_floats(n_row * dim, place), *scores = guarded_floats(n_row * KEYS, place),
          single[KEYS];
    void *run = guarded_run(shape, place);
    fill(q, n_row * dim, 0);
    t->attn_scores_coded(q, n_row, run, bits, dim, scores, n_row % 2 ? run : NULL);
    for (size_t r = 0; r < n_row; r++) {
        t->attn_scores_coded(q + r * dim, 1, run, bits, dim, single, NULL);
        for (size_t j = 0; j < KEYS; j++) {
            double sum = 0, magnitude = 0;
            for (size_t d = 0; d < dim; d++) {
                const double x = q[r * dim + d], min = (double)pn_kv_run_get(run, &shape, d, j);
                sum += x * min;
                magnitude += fabs(x) * 12; /* of minimum and codes apart */
            }
            check_near("attn_scores_coded", r * KEYS + j, scores[r * KEYS + j], sum, 8, magnitude);
            check_same("attn_scores_coded", r * KEYS + j, scores[r * KEYS + j], single[j]);
        }
    }
    free_guarded();
}

static void check_attn_scores_coded(const pn_kernels *t) {
    for (size_t i = 0; i < COUNT(coded_dims) * COUNT(n_rows) * 2; i++)
        check_coded_scores(t, n_rows[i / 2 % COUNT(n_rows)], coded_dims[i / 2 / COUNT(n_rows)], i % 2 ? 4 : 8,
                           (int)(i % (ASKEW + 1)));
    check_coded_scores(t, 130, 64, 4, AT_END);
}

static void check_coded_mix(const pn_kernels *t, size_t n_row, size_t begin, size_t n_key, size_t dim,
                            int bits) {
    const pn_kv_run_shape shape = values_shape(dim, bits);
    const size_t group = shape.n_col, n_group = dim / group;
    float *p = guarded_floats(n_row * KEYS, AT_END), *acc = guarded_floats(n_row * dim, AT_END),
          *start = guarded_floats(n_row * dim, AT_END), *single = guarded_floats(dim, AT_END);
    void *run = guarded_run(shape, AT_END);
    fill(p, n_row * KEYS, 2);
    fill(start, n_row * dim, 0);
    if (n_row > 0) memcpy(acc, start, n_row * dim * sizeof *acc);
    t->attn_mix_coded(p, n_row, run, bits, begin, n_key, dim, acc, n_row % 2 ? run : NULL);
    for (size_t r = 0; r < n_row; r++) {
        memcpy(single, start + r * dim, dim * sizeof *single);
        t->attn_mix_coded(p + r * KEYS, 1, run, bits, begin, n_key, dim, single, NULL);
        for (size_t d = 0; d < dim; d++) {
            double sum = start[r * dim + d], magnitude = fabs(sum);
            for (size_t j = begin; j < begin + n_key; j++) {
                const double w = p[r * KEYS + j];
                sum += w * (double)pn_kv_run_get(run, &shape, j * n_group + d / group, d % group);
                magnitude += fabs(w) * 12;
            }
            check_near("attn_mix_coded", r * dim + d, acc[r * dim + d], sum, 8, magnitude);
            check_same("attn_mix_coded", r * dim + d, acc[r * dim + d], single[d]);
        }
    }
    free_guarded();
}

static void check_attn_mix_coded(const pn_kernels *t) {
    static const size_t n_keys[] = {0, 1, 2, 7, 8, 9, 17, 31, 63, 64};
    for (size_t i = 0; i < COUNT(coded_dims) * COUNT(n_keys) * 2; i++) {
        const size_t n_key = n_keys[i / 2 % COUNT(n_keys)];
        check_coded_mix(t, n_rows[i / 2 % COUNT(n_rows)], random_below(KEYS - n_key + 1), n_key,
                        coded_dims[i / 2 / COUNT(n_keys)], i % 2 ? 4 : 8);
    }
    check_coded_mix(t, 130, 0, KEYS, 64, 8);
}

/* Ordinary rows, rows of one value, denormals, outliers, and such that are no numbers. */
static uint16_t half_of_kind(size_t kind, size_t i) {
    static const float sizes[] = {1, 1e-7f, 60000, 0};
    if (kind == 4) return pn_f32_to_f16(i == 5 ? 60000.0f : random_float());
    if (kind == 5) return pn_f32_to_f16(i == 3 ? INFINITY : random_float());
    if (kind == 6) return pn_f32_to_f16(i == 0 ? NAN : random_float());
    if (kind == 7) return pn_f32_to_f16(-2.5f);
    if (kind == 8) return pn_f32_to_f16(1e-4f * random_float()); /* the scale is a denormal */
    return pn_f32_to_f16(sizes[kind % 4] * random_float());
}

static void check_kv_pack(const pn_kernels *t) {
    for (size_t d = 0; d < COUNT(coded_dims); d++)
        for (int bits = 4; bits <= 8; bits += 4)
            for (int of_values = 0; of_values < 2; of_values++) {
                const pn_kv_run_shape s =
                    of_values ? values_shape(coded_dims[d], bits) : keys_shape(coded_dims[d], bits);
                const size_t size = pn_kv_run_size(&s);
                uint16_t *x = guarded(s.n_row * s.n_col, sizeof *x, AT_END);
                for (size_t i = 0; i < s.n_row * s.n_col; i++)
                    x[i] = half_of_kind(i / s.n_col % 9, i % s.n_col);
                uint8_t *want = guarded(size, 1, AT_END), *found = guarded(size, 1, AT_END);
                memset(want, 0, size);
                memset(found, 0, size);
                pn_kv_run_pack(x, &s, want);
                t->kv_pack(x, s, found);
                assert_memory_equal(want, found, size);
                free_guarded();
            }
}

/* ---- the table ---- */

#define SLOT(slot)                                                                                           \
    { #slot, offsetof(pn_kernels, slot), check_##slot }

static const kernel_slot slots[] = {
    SLOT(attn_scores_f16), SLOT(attn_scores_f32),   SLOT(attn_softmax),   SLOT(attn_mix_f16),
    SLOT(attn_mix_f32),    SLOT(attn_scores_coded), SLOT(attn_mix_coded), SLOT(kv_pack),
};

static size_t check_new(const pn_kernels *table, const pn_kernels *before) {
    return check_new_slots(slots, COUNT(slots), table, before);
}

static void test_scalar(void **state) {
    (void)state;
    pn_kernels scalar, none = {0};
    pn_kernels_init(&scalar, 0);
    assert_int_equal(check_new(&scalar, &none), COUNT(slots));
}

static void test_variants(void **state) {
    (void)state;
    for_each_feature_step(check_new);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_variants),
    };
    pn_rng_seed(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
