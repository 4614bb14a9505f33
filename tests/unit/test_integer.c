/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of weights as integers: against NNCF (tests/golden/make_integers.py), how far off they may be, and
   what cannot be quantised. */
#include "quant/integer.h"

#include "support/kernel_check.h"

enum { GROUP = 64 };

static const struct {
    const char *name;
    pn_panel_kind kind;
} kinds[] = {
    {"INT4_SYM", PN_PANEL_INT4_SYM},
    {"INT4_ASYM", PN_PANEL_INT4_ASYM},
    {"INT8_SYM", PN_PANEL_INT8_SYM},
    {"INT8_ASYM", PN_PANEL_INT8_ASYM},
};

static pn_integer_range find_scale(pn_panel_kind kind, const float *weights, size_t n,
                                   pn_integer_scale *out) {
    float range[2];
    pn_integer_find_range(weights, n, range);
    return pn_integer_find_scale(kind, range, out);
}

/* ---- NNCF ---- */

/* As in the files. */
typedef struct record {
    float weights[GROUP];
    uint16_t d;
    uint8_t zero, padding;
    uint8_t codes[GROUP];
} record;

static void check_record(size_t k, size_t n, const record *r) {
    pn_integer_scale scale = {0};
    uint8_t codes[GROUP];
    assert_int_equal(find_scale(kinds[k].kind, r->weights, GROUP, &scale), PN_INTEGER_RANGE_OK);
    if (scale.d != r->d || scale.zero != r->zero)
        fail_msg("%s, group %zu: scale %#x and zero %u, expected %#x and %u", kinds[k].name, n, scale.d,
                 scale.zero, r->d, r->zero);
    pn_integer_round(kinds[k].kind, scale, r->weights, GROUP, codes);
    for (size_t i = 0; i < GROUP; i++)
        if (codes[i] != r->codes[i])
            fail_msg("%s, group %zu: weight %zu, %a, has code %u, expected %u", kinds[k].name, n, i,
                     r->weights[i], codes[i], r->codes[i]);
}

static void test_golden(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        char path[64];
        snprintf(path, sizeof path, "tests/golden/integers/%s.bin", kinds[k].name);
        FILE *file = fopen(path, "rb");
        if (!file) fail_msg("cannot open %s", path);
        record r;
        size_t n = 0;
        for (; fread(&r, sizeof r, 1, file) == 1; n++)
            check_record(k, n, &r);
        assert_int_equal(n, 44);
        fclose(file);
    }
}

/* ---- error ---- */

static float weight_of(pn_panel_kind kind, uint8_t code, pn_integer_scale scale) {
    pn_panel_format f = pn_panel_formats[kind];
    return pn_f16_to_f32(scale.d) * (float)(code - (f.min ? scale.zero : f.zero));
}

/* Within one step of the scale: half of one by rounding; the rest at the end of a SYM range that lacks a
   code, and by a zero that is a whole number. */
static void check_near_enough(size_t k, const float *weights, size_t n) {
    pn_integer_scale scale = {0};
    uint8_t codes[GROUP];
    assert_int_equal(find_scale(kinds[k].kind, weights, n, &scale), PN_INTEGER_RANGE_OK);
    pn_integer_round(kinds[k].kind, scale, weights, n, codes);
    float most = fabsf(pn_f16_to_f32(scale.d)) * 1.07f; /* d itself is rounded, by up to 1 / 2048 */
    for (size_t i = 0; i < n; i++) {
        assert_true(codes[i] < 1 << pn_panel_formats[kinds[k].kind].bits);
        float found = weight_of(kinds[k].kind, codes[i], scale);
        if (!(fabsf(found - weights[i]) <= most))
            fail_msg("%s: %a becomes %a with scale %a", kinds[k].name, weights[i], found,
                     pn_f16_to_f32(scale.d));
    }
}

static void test_error(void **state) {
    (void)state;
    float weights[GROUP];
    for (size_t n = 0; n < 4000; n++) {
        float size = powf(10, (float)(n % 8) - 2), shift = n % 3 == 0 ? 3 * random_float() : 0;
        for (size_t i = 0; i < GROUP; i++)
            weights[i] = size * (random_float() + shift); /* with a shift also of one sign */
        check_near_enough(n / 8 % COUNT(kinds), weights, 1 + n % GROUP);
    }
}

static void test_zeros_stay_zeros(void **state) {
    (void)state;
    const float zeros[] = {0, -0.0f, 0, 0}, tiny[] = {1e-12f, -1e-40f, 1e-45f, 0};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        pn_integer_scale scale = {0};
        uint8_t codes[4];
        for (int i = 0; i < 2; i++) {
            const float *weights = i == 0 ? zeros : tiny;
            assert_int_equal(find_scale(kinds[k].kind, weights, 4, &scale), PN_INTEGER_RANGE_OK);
            assert_true(pn_f16_to_f32(scale.d) == 0x1p-23f);
            pn_integer_round(kinds[k].kind, scale, weights, 4, codes);
            for (size_t j = 0; j < 4; j++)
                assert_true(weight_of(kinds[k].kind, codes[j], scale) == 0);
        }
    }
}

/* ---- what has no scale ---- */

static void check_range(const float *weights, size_t n, pn_integer_range expected) {
    for (size_t k = 0; k < COUNT(kinds); k++) {
        pn_integer_scale scale = {0x1234, 7};
        assert_int_equal(find_scale(kinds[k].kind, weights, n, &scale), expected);
        if (expected == PN_INTEGER_RANGE_OK) continue;
        assert_int_equal(scale.d, 0x1234);
        assert_int_equal(scale.zero, 7);
    }
}

static void test_not_finite(void **state) {
    (void)state;
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3 * GROUP; i++) {
        float weights[GROUP];
        fill(weights, GROUP, 0);
        weights[i / 3] = odd[i % 3];
        check_range(weights, GROUP, PN_INTEGER_RANGE_NOT_FINITE);
    }
}

static void test_too_large(void **state) {
    (void)state;
    const float small[] = {1, 400000, -100000}, large[] = {1, 3e7f, -2}, largest[] = {FLT_MAX, -FLT_MAX};
    check_range(small, 3, PN_INTEGER_RANGE_OK);
    check_range(large, 3, PN_INTEGER_RANGE_TOO_LARGE);
    check_range(largest, 2, PN_INTEGER_RANGE_TOO_LARGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),           cmocka_unit_test(test_error),
        cmocka_unit_test(test_zeros_stay_zeros), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_too_large),
    };
    pn_rng_seed(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
