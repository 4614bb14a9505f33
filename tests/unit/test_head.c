/* SPDX-License-Identifier: Apache-2.0 */
/* The output head in two parts: packing loses nothing, and the greatest logits are those of the whole
 * product. */
#include "support/check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ops/ops.h"
#include "quant/split.h"

#include <math.h>
#include <stdlib.h>

enum { N_COL = 160, N_ROW = 5003, BLOCK_BYTES = 34, TOP = 40 };

#define SCALE 0.05f

static pn_rng rng;

static float normal(void) {
    double u = pn_rng_unit(&rng) + 1e-12, v = pn_rng_unit(&rng);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

enum { N_PANEL = (N_ROW + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS };

static const pn_panel_kind kinds[] = {PN_PANEL_Q8_0, PN_PANEL_INT8_SYM, PN_PANEL_INT8_ASYM};

typedef struct fixture {
    pn_panel_kind kind;
    uint8_t *data[2]; /* whole and in two parts */
    pn_weight weight, whole;
    pn_pool *pool;
    pn_inputs inputs;
    void *memory, *scratch;
    pn_ops ops;
} fixture;

static void normal_weights(float *w, size_t n, float scale) {
    for (size_t i = 0; i < n; i++)
        w[i] = scale * normal();
}

/* A panel of Q8_0 rows of normal weights, both ways. */
static void pack_blocks(fixture *f, size_t panel, size_t n_row) {
    uint8_t rows[PN_PANEL_ROWS * N_COL / 32][BLOCK_BYTES];
    for (size_t i = 0; i < n_row * N_COL / 32; i++) {
        float w[32], greatest = 0;
        normal_weights(w, 32, SCALE);
        for (size_t j = 0; j < 32; j++)
            greatest = fmaxf(greatest, fabsf(w[j]));
        uint16_t d = pn_f32_to_f16(greatest / 127);
        memcpy(rows[i], &d, sizeof d);
        for (size_t j = 0; j < 32; j++)
            rows[i][2 + j] = (uint8_t)(int8_t)fmaxf(-128, fminf(127, rintf(w[j] / pn_f16_to_f32(d))));
    }
    const size_t row_bytes = sizeof rows / PN_PANEL_ROWS;
    pn_panel_pack(pn_qtype_find(PN_QTYPE_ID_Q8_0), rows, row_bytes, n_row, N_COL,
                  f->data[0] + panel * f->whole.panel_bytes);
    pn_split_pack(rows, row_bytes, n_row, N_PANEL, N_COL, panel, f->data[1]);
}

/* The same of an INT8 kind. */
static void pack_integers(fixture *f, size_t panel, size_t n_row) {
    uint8_t codes[PN_PANEL_ROWS * N_COL];
    pn_integer_scale scales[PN_PANEL_ROWS];
    for (size_t r = 0; r < n_row; r++) {
        float w[N_COL], range[2];
        normal_weights(w, N_COL, SCALE);
        pn_integer_find_range(w, N_COL, range);
        assert_int_equal(pn_integer_find_scale(f->kind, range, &scales[r]), PN_INTEGER_RANGE_OK);
        pn_integer_round(f->kind, scales[r], w, N_COL, codes + r * N_COL);
    }
    pn_integer_pack(f->kind, (pn_panel_shape){N_COL, N_COL}, codes, scales, n_row,
                    f->data[0] + panel * f->whole.panel_bytes);
    pn_split_pack_integers(f->kind, codes, scales, n_row, N_PANEL, N_COL, panel, f->data[1]);
}

static void make_weights(fixture *f) {
    const pn_panel_shape shape = {N_COL, N_COL};
    f->whole = (pn_weight){.kind = f->kind,
                           .n_row = N_ROW,
                           .n_col = N_COL,
                           .group = N_COL,
                           .n_panel = N_PANEL,
                           .panel_bytes = pn_panel_bytes(f->kind, shape)};
    f->weight = f->whole;
    f->weight.panel_bytes = pn_panel_bytes(pn_split_high(f->kind), shape);
    f->data[0] = pn_alloc(PN_MEM_OTHER, N_PANEL * f->whole.panel_bytes, 1);
    f->data[1] = pn_alloc(PN_MEM_OTHER, pn_split_bytes(f->kind, N_PANEL, N_COL), 1);
    f->whole.data = f->data[0];
    f->weight.data = f->data[1];
    f->weight.split = pn_split_at(f->kind, f->data[1], N_PANEL, N_COL);
    for (size_t panel = 0; panel < N_PANEL; panel++) {
        size_t left = N_ROW - panel * PN_PANEL_ROWS, n_row = left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
        (f->kind == PN_PANEL_Q8_0 ? pack_blocks : pack_integers)(f, panel, n_row);
    }
}

static void open_fixture(fixture *f, pn_panel_kind kind, int n_threads, pn_precision precision) {
    *f = (fixture){.kind = kind};
    make_weights(f);
    assert_int_equal(pn_pool_create(n_threads, &f->pool, NULL), PN_OK);
    uint64_t input_bytes;
    assert_true(pn_ops_inputs_bytes(pn_ops_planes(precision), N_COL, 8, &input_bytes));
    f->memory = pn_alloc(PN_MEM_OTHER, (size_t)input_bytes, 1);
    f->inputs = pn_ops_inputs(pn_ops_planes(precision), N_COL, 8, f->memory);
    size_t floats = (pn_ops_scratch_floats(N_COL, 4, 64) + 15) / 16 * 16;
    f->scratch = pn_alloc(PN_MEM_OTHER, floats * (size_t)n_threads, sizeof(float));
    f->ops = (pn_ops){.kernels = pn_kernels_host(),
                      .pool = f->pool,
                      .inputs = precision == PN_PRECISION_EXACT ? NULL : &f->inputs,
                      .scratch = f->scratch,
                      .scratch_stride = floats};
}

static void close_fixture(fixture *f) {
    pn_pool_free(f->pool);
    pn_free(f->data[0]);
    pn_free(f->data[1]);
    pn_free(f->memory);
    pn_free(f->scratch);
}

/* What the high part and what goes with it stand for. */
static void decode_high(const fixture *f, size_t row, float *out) {
    const size_t panel = row / PN_PANEL_ROWS, in_panel = row % PN_PANEL_ROWS;
    const uint8_t *high = f->weight.data + panel * f->weight.panel_bytes;
    pn_panel_decode_row(pn_split_high(f->kind), pn_weight_shape(&f->weight), high, in_panel, out);
    uint16_t scales[PN_PANEL_ROWS * 3 / 2];
    const uint8_t *zeros = (const uint8_t *)(scales + PN_PANEL_ROWS);
    float offset = 0;
    if (f->kind != PN_PANEL_Q8_0) {
        pn_split_scales(f->kind, &f->weight.split, high, panel, N_COL, (uint8_t *)scales);
        float zero = f->kind == PN_PANEL_INT8_ASYM ? (float)zeros[in_panel] : 128;
        offset = pn_f16_to_f32(scales[in_panel]) * (135.5f - zero);
    }
    for (size_t c = 0; c < N_COL; c++)
        out[c] = 16 * out[c] + offset;
}

static void two_parts_hold_the_same_numbers(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fixture f;
        open_fixture(&f, kinds[k], 1, PN_PRECISION_HIGH);
        for (size_t row = 0; row < N_ROW; row++) {
            float expected[N_COL], found[N_COL];
            double squares = 0;
            pn_weight_decode_row(&f.whole, row, expected);
            pn_weight_decode_row(&f.weight, row, found);
            assert_memory_equal(found, expected, sizeof expected);
            decode_high(&f, row, found);
            for (size_t c = 0; c < N_COL; c++)
                squares += pow((double)expected[c] - (double)found[c], 2);
            assert_true(fabs(sqrt(squares) - (double)f.weight.split.residual[row]) <= 1e-4 * sqrt(squares));
        }
        close_fixture(&f);
    }
}

/* Few rows are not worth it, nor are other kinds. */
static void large_heads_of_8_bits_come_in_two_parts(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        pn_panel_kind split = pn_split_kind(kinds[k], 8192);
        assert_int_equal(split, PN_PANEL_SPLIT_Q8_0 + (int)k);
        assert_int_equal(pn_split_whole(split), kinds[k]);
        assert_int_equal(pn_split_kind(kinds[k], 8191), kinds[k]);
    }
    assert_int_equal(pn_split_kind(PN_PANEL_INT4_SYM, 100000), PN_PANEL_INT4_SYM);
    assert_int_equal(pn_split_whole(PN_PANEL_INT4_SYM), PN_PANEL_INT4_SYM);
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Returns whether the short way was gone. */
static bool check_head(fixture *f, const float *x, pn_top top) {
    static float expected[N_ROW], found[N_ROW], sorted[N_ROW];
    pn_matmul_job job = {&f->whole, NULL, expected};
    const pn_matmul_input input = {.x = x};
    pn_ops_matmul(&f->ops, &job, 1, &input, 1);
    bool partial = pn_ops_head(&f->ops, &f->weight, x, top, found);
    if (!partial) {
        assert_memory_equal(found, expected, sizeof expected);
        return false;
    }
    memcpy(sorted, expected, sizeof expected);
    qsort(sorted, N_ROW, sizeof *sorted, descending);
    float least = fmaxf(sorted[top.n - 1], sorted[0] - top.margin);
    for (size_t r = 0; r < N_ROW; r++) {
        if (expected[r] >= least)
            assert_true(found[r] == expected[r]);
        else
            assert_true(found[r] < least);
    }
    return true;
}

static pn_top greatest(size_t n) {
    return (pn_top){n, INFINITY};
}

static void the_greatest_are_those_of_the_whole_product(void **state) {
    (void)state;
    static const size_t tops[] = {1, 2, TOP, PN_HEAD_TOP_MAX};
    static const float margins[] = {INFINITY, 0.5f, 0};
    for (int n = 0; n < 9; n++)
        for (pn_precision precision = PN_PRECISION_HIGH; precision <= PN_PRECISION_FAST; precision++) {
            fixture f;
            open_fixture(&f, kinds[n % 3], 1 + n / 3, precision);
            int n_partial = 0;
            for (int i = 0; i < 40; i++) {
                float x[N_COL], row[N_COL];
                pn_weight_decode_row(&f.weight, (size_t)i * 97, row);
                for (size_t c = 0; c < N_COL; c++) /* near some row, as a trained model's are */
                    x[c] = normal() + 20.0f * (float)(i % 5) * row[c];
                n_partial += check_head(&f, x, (pn_top){tops[i % 4], margins[i / 4 % 3]});
            }
            if (precision == PN_PRECISION_EXACT)
                assert_int_equal(n_partial, 0);
            else
                assert_true(n_partial > 5);
            close_fixture(&f);
        }
}

static void what_cannot_be_told_from_the_high_part_is_computed_whole(void **state) {
    (void)state;
    fixture f;
    float x[N_COL] = {0};
    open_fixture(&f, PN_PANEL_INT8_ASYM, 2, PN_PRECISION_HIGH);
    assert_false(check_head(&f, x, greatest(1))); /* all logits are equal */
    for (size_t c = 0; c < N_COL; c++)
        x[c] = normal();
    assert_false(pn_ops_head(&f.ops, &f.weight, x, greatest(0), (float[N_ROW]){0}));
    assert_false(pn_ops_head(&f.ops, &f.weight, x, greatest(PN_HEAD_TOP_MAX + 1), (float[N_ROW]){0}));
    x[7] = NAN;
    float found[N_ROW];
    assert_false(pn_ops_head(&f.ops, &f.weight, x, greatest(1), found));
    assert_true(isnan(found[0]) && isnan(found[N_ROW - 1]));
    close_fixture(&f);
}

/* After a failure the short way rests, longer each time, and a success ends that. */
static void what_does_not_pay_is_not_tried_for_a_while(void **state) {
    (void)state;
    static float logits[N_ROW];
    fixture f;
    float flat[N_COL] = {0}, peaked[N_COL];
    pn_head_record record = {0};
    open_fixture(&f, PN_PANEL_INT8_ASYM, 2, PN_PRECISION_HIGH);
    f.ops.head = &record;
    pn_weight_decode_row(&f.weight, 99, peaked);
    for (size_t c = 0; c < N_COL; c++)
        peaked[c] *= 50;
    assert_true(pn_ops_head(&f.ops, &f.weight, peaked, greatest(1), logits));
    unsigned rest[3] = {0};
    for (int round = 0; round < 3; round++) {
        assert_false(pn_ops_head(&f.ops, &f.weight, flat, greatest(1), logits));
        for (; record.whole > 0; rest[round]++)
            assert_false(pn_ops_head(&f.ops, &f.weight, peaked, greatest(1), logits));
    }
    assert_true(0 < rest[0] && rest[0] < rest[1] && rest[1] < rest[2]);
    assert_true(pn_ops_head(&f.ops, &f.weight, peaked, greatest(1), logits));
    assert_int_equal(record.pause, 0);
    close_fixture(&f);
}

/* One input that is all of x: the low part is not many small errors any more. */
static void a_single_great_input_is_noticed_or_right(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, PN_PANEL_INT8_ASYM, 2, PN_PRECISION_HIGH);
    for (size_t c = 0; c < N_COL; c += 3) {
        float x[N_COL];
        for (size_t i = 0; i < N_COL; i++)
            x[i] = 0.01f * normal();
        x[c] = 1000;
        check_head(&f, x, greatest(1 + c % TOP));
    }
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_parts_hold_the_same_numbers),
        cmocka_unit_test(large_heads_of_8_bits_come_in_two_parts),
        cmocka_unit_test(the_greatest_are_those_of_the_whole_product),
        cmocka_unit_test(what_cannot_be_told_from_the_high_part_is_computed_whole),
        cmocka_unit_test(what_does_not_pay_is_not_tried_for_a_while),
        cmocka_unit_test(a_single_great_input_is_noticed_or_right),
    };
    pn_rng_seed(&rng, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
