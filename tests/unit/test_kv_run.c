/* SPDX-License-Identifier: Apache-2.0 */
/* The format of runs of codes: which heads have one, what it saves, and how far what comes back is from what
   was packed. That every instruction set packs the same bits is tested with the kernels. */
#include "quant/kv_run.h"

#include "base/rng.h"
#include "quant/qtype.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COLUMNS = 64, RUN_BYTES = 512 };

#define GREATEST_HALF 65504.0f

static pn_rng rng;

static float uniform(void) {
    return (float)pn_rng_unit(&rng);
}

/* ---- shapes ---- */

static void test_groups(void **state) {
    (void)state;
    static const struct {
        size_t head_dim, group;
    } cases[] = {{8, 8},    {20, 20},  {64, 64},  {72, 36},   {80, 40}, {96, 48},
                 {112, 56}, {128, 64}, {256, 64}, {2048, 64}, {0, 0},   {4, 0},
                 {7, 0},    {63, 0},   {77, 0},   {134, 0},   {4096, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pn_kv_run_group(cases[i].head_dim), cases[i].group);
}

/* Of what halves take, keys and values of a block together. */
static double share(size_t head_dim, int bits) {
    const size_t group = pn_kv_run_group(head_dim);
    const pn_kv_run_shape keys = {head_dim, COLUMNS, bits},
                          values = {COLUMNS * (head_dim / group), group, bits};
    assert_int_equal(pn_kv_run_size(&keys) % 64, 0);
    assert_int_equal(pn_kv_run_size(&values) % 64, 0);
    return (double)(pn_kv_run_size(&keys) + pn_kv_run_size(&values)) /
           (double)(2 * COLUMNS * head_dim * sizeof(uint16_t));
}

static void test_savings(void **state) {
    (void)state;
    static const size_t dims[] = {64, 128, 256};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        assert_true(share(dims[i], 8) <= 0.54);
        assert_true(share(dims[i], 4) <= 0.30);
    }
}

/* ---- what comes back ---- */

typedef struct packed_row {
    pn_kv_run_shape shape;
    uint16_t x[COLUMNS], back[COLUMNS];
    _Alignas(64) unsigned char run[RUN_BYTES];
} packed_row;

static void pack_and_back(packed_row *p, int bits) {
    p->shape = (pn_kv_run_shape){1, COLUMNS, bits};
    memset(p->run, 0, sizeof p->run);
    pn_kv_run_pack(p->x, &p->shape, p->run);
    pn_kv_run_unpack(p->run, &p->shape, p->back);
}

/* No element is further off than half a step of a scale that is a little more than it need be, or by the
   least half where there is none finer. */
static void check_row(int bits, float offset, float range) {
    packed_row p;
    float least = FLT_MAX, greatest = -FLT_MAX;
    for (size_t i = 0; i < COLUMNS; i++) {
        p.x[i] = pn_f32_to_f16(offset + range * uniform());
        const float v = pn_f16_to_f32(p.x[i]);
        least = v < least ? v : least;
        greatest = v > greatest ? v : greatest;
    }
    pack_and_back(&p, bits);
    const double step = ((double)greatest - least) / ((1 << bits) - 1);
    const double scale = step * (1 + 0x1p-10) + 0x1p-24, rounding = 1e-6 * (fabs(least) + fabs(greatest));
    for (size_t i = 0; i < COLUMNS; i++) {
        const double found = (double)pn_kv_run_get(p.run, &p.shape, 0, i);
        const double error = fabs(found - (double)pn_f16_to_f32(p.x[i]));
        if (error > scale / 2 + rounding)
            fail_msg("%d bits, range %g: element %zu is off by %g, a step is %g", bits, (double)range, i,
                     error, step);
    }
}

static void test_error(void **state) {
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4)
        for (int exponent = -24; exponent <= 14; exponent++)
            for (int i = 0; i < 50; i++) {
                const float range = ldexpf(1 + uniform(), exponent);
                check_row(bits, 0, range);
                check_row(bits, -range / 2, range);
                check_row(bits, 4 * range < 30000 ? 4 * range : 0, range);
            }
}

/* What is finite stays finite, so that a run may be packed once more with fewer bits. */
static void test_greatest(void **state) {
    (void)state;
    packed_row p;
    for (int bits = 4; bits <= 8; bits += 4) {
        for (size_t i = 0; i < COLUMNS; i++)
            p.x[i] = pn_f32_to_f16(i % 2 ? GREATEST_HALF : -GREATEST_HALF);
        pack_and_back(&p, bits);
        for (size_t i = 0; i < COLUMNS; i++)
            assert_int_equal(p.back[i], p.x[i]);
    }
}

static void test_equal(void **state) {
    (void)state;
    static const float values[] = {0, -2.5f, 0x1p-24f, GREATEST_HALF, -GREATEST_HALF};
    packed_row p;
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (int bits = 4; bits <= 8; bits += 4) {
            for (size_t i = 0; i < COLUMNS; i++)
                p.x[i] = pn_f32_to_f16(values[v]);
            pack_and_back(&p, bits);
            assert_memory_equal(p.back, p.x, sizeof p.x);
        }
}

/* One element that is no number takes its row with it, and no other row. */
static void test_no_numbers(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < 3 * COLUMNS; k++)
        for (int bits = 4; bits <= 8; bits += 4) {
            const pn_kv_run_shape shape = {3, COLUMNS, bits};
            uint16_t x[3 * COLUMNS];
            unsigned char run[RUN_BYTES] = {0};
            for (size_t i = 0; i < 3 * COLUMNS; i++)
                x[i] = pn_f32_to_f16(i == COLUMNS + k / 3 ? odd[k % 3] : uniform());
            pn_kv_run_pack(x, &shape, run);
            for (size_t i = 0; i < 3 * COLUMNS; i++)
                assert_true(isnan(pn_kv_run_get(run, &shape, i / COLUMNS, i % COLUMNS)) ==
                            (i / COLUMNS == 1));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),   cmocka_unit_test(test_savings), cmocka_unit_test(test_error),
        cmocka_unit_test(test_greatest), cmocka_unit_test(test_equal),   cmocka_unit_test(test_no_numbers),
    };
    pn_rng_seed(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
