/* SPDX-License-Identifier: Apache-2.0 */
/* The output head in two parts: packing loses nothing, and the greatest logits are those of the whole
 * product. */
#include "support/check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ops/ops.h"
#include "quant/pack.h"
#include "quant/split.h"

#include <math.h>
#include <stdlib.h>

enum { N_COL = 160, N_ROW = 5003, BLOCK_BYTES = 34, TOP = 40 };

static pn_rng rng;

static float normal(void) {
    double u = pn_rng_unit(&rng) + 1e-12, v = pn_rng_unit(&rng);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Q8_0 rows of normal weights. */
static uint8_t *make_rows(float scale) {
    uint8_t *rows = malloc((size_t)N_ROW * N_COL / 32 * BLOCK_BYTES), *at = rows;
    for (size_t i = 0; i < (size_t)N_ROW * N_COL / 32; i++, at += BLOCK_BYTES) {
        float w[32], greatest = 0;
        for (size_t j = 0; j < 32; j++) {
            w[j] = scale * normal();
            greatest = fmaxf(greatest, fabsf(w[j]));
        }
        uint16_t d = pn_f32_to_f16(greatest / 127);
        memcpy(at, &d, sizeof d);
        for (size_t j = 0; j < 32; j++)
            at[2 + j] = (uint8_t)(int8_t)fmaxf(-128, fminf(127, rintf(w[j] / pn_f16_to_f32(d))));
    }
    return rows;
}

typedef struct fixture {
    uint8_t *rows, *split;
    size_t split_bytes;
    pn_weight weight, whole;
    pn_pool *pool;
    pn_inputs inputs;
    void *memory, *scratch;
    pn_ops ops;
} fixture;

static uint8_t *pack(const fixture *f, pn_panel_kind kind, size_t *bytes_out) {
    const pn_qtype *type = pn_qtype_find(PN_QTYPE_ID_Q8_0);
    uint64_t bytes;
    assert_true(pn_pack_bytes(kind, N_ROW, N_COL, &bytes));
    uint8_t *packed = pn_alloc(PN_MEM_OTHER, (size_t)bytes, 1);
    for (size_t panel = 0; panel < (N_ROW + 15) / 16; panel++)
        pn_pack_panel(type, kind, f->rows, N_ROW, N_COL, panel, packed);
    *bytes_out = (size_t)bytes;
    return packed;
}

static void open_fixture(fixture *f, int n_threads, pn_precision precision) {
    size_t n_panel = (N_ROW + 15) / 16, bytes;
    *f = (fixture){.rows = make_rows(0.05f)};
    f->split = pack(f, PN_PANEL_SPLIT, &f->split_bytes);
    assert_int_equal(f->split_bytes, pn_split_bytes(n_panel, N_COL));
    f->weight = (pn_weight){
        .data = f->split,
        .kind = PN_PANEL_Q8_0,
        .n_row = N_ROW,
        .n_col = N_COL,
        .n_panel = n_panel,
        .panel_bytes = pn_panel_bytes(PN_PANEL_Q4_1, (pn_panel_shape){.n_col = N_COL}),
        .low = f->split + pn_split_low_offset(n_panel, N_COL),
        .residual = (const float *)(const void *)(f->split + pn_split_residual_offset(n_panel, N_COL))};
    f->whole = f->weight;
    f->whole.low = NULL;
    f->whole.data = pack(f, PN_PANEL_Q8_0, &bytes);
    f->whole.panel_bytes = pn_panel_bytes(PN_PANEL_Q8_0, (pn_panel_shape){.n_col = N_COL});
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
    free(f->rows);
    pn_free(f->split);
    pn_free((void *)(uintptr_t)f->whole.data);
    pn_free(f->memory);
    pn_free(f->scratch);
}

static void two_parts_hold_the_same_numbers(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 1, PN_PRECISION_HIGH);
    const pn_qtype *type = pn_qtype_find(PN_QTYPE_ID_Q8_0);
    for (size_t row = 0; row < N_ROW; row++) {
        float expected[N_COL], found[N_COL];
        double squares = 0;
        type->decode(f.rows + row * (N_COL / 32) * BLOCK_BYTES, expected, N_COL);
        pn_weight_decode_row(&f.weight, row, found);
        assert_memory_equal(found, expected, sizeof expected);
        pn_panel_decode_row(PN_PANEL_Q4_1, pn_weight_shape(&f.weight),
                            f.weight.data + row / 16 * f.weight.panel_bytes, row % 16, found);
        for (size_t c = 0; c < N_COL; c++)
            squares += pow((double)expected[c] - 16 * (double)found[c], 2);
        assert_true(fabs(sqrt(squares) - (double)f.weight.residual[row]) <= 1e-4 * sqrt(squares));
    }
    close_fixture(&f);
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
    for (int n_threads = 1; n_threads <= 3; n_threads++)
        for (pn_precision precision = PN_PRECISION_HIGH; precision <= PN_PRECISION_FAST; precision++) {
            fixture f;
            open_fixture(&f, n_threads, precision);
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
    open_fixture(&f, 2, PN_PRECISION_HIGH);
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
    open_fixture(&f, 2, PN_PRECISION_HIGH);
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
    open_fixture(&f, 2, PN_PRECISION_HIGH);
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
        cmocka_unit_test(the_greatest_are_those_of_the_whole_product),
        cmocka_unit_test(what_cannot_be_told_from_the_high_part_is_computed_whole),
        cmocka_unit_test(what_does_not_pay_is_not_tried_for_a_while),
        cmocka_unit_test(a_single_great_input_is_noticed_or_right),
    };
    pn_rng_seed(&rng, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
