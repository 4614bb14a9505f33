/* SPDX-License-Identifier: Apache-2.0 */
/* Weight types: every decoder against the gguf Python package (tests/golden/make_qtypes.py), names and sizes,
   and half-precision conversion over all its values. */
#include "quant/qtype.h"

#include "quant/blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A NaN may have any payload. */
static int same(float a, float b) {
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static uint8_t *read_golden(const char *name, size_t *len) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/qtypes/%s.bin", name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    uint8_t *data = malloc(1 << 20);
    assert_non_null(data);
    *len = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void check_golden(const pn_qtype *type) {
    size_t len, per_block = type->block_bytes + type->block_len * sizeof(float);
    uint8_t *data = read_golden(type->name, &len);
    size_t n_block = len / per_block, n = n_block * type->block_len;
    if (n_block < 5 || n_block * per_block != len) fail_msg("%s.bin has %zu bytes", type->name, len);
    const uint8_t *expected = data + n_block * type->block_bytes;
    float *weights = malloc(n * sizeof(float));
    assert_non_null(weights);
    type->decode(data, weights, n);
    for (size_t i = 0; i < n; i++) {
        float e;
        memcpy(&e, expected + i * sizeof e, sizeof e);
        if (!same(weights[i], e)) fail_msg("%s weight %zu: %a, expected %a", type->name, i, weights[i], e);
    }
    free(weights);
    free(data);
}

static void test_golden(void **state) {
    (void)state;
    size_t n = 0;
    for (; pn_qtype_at(n)->decode; n++)
        check_golden(pn_qtype_at(n));
    assert_int_equal(n, 15);
}

/* A zero block decodes to zeros, wherever it lies, and exactly n floats are written. */
static void test_zero_block_unaligned(void **state) {
    (void)state;
    for (size_t i = 0; pn_qtype_at(i)->decode; i++) {
        const pn_qtype *type = pn_qtype_at(i);
        uint8_t raw[1 + 2 * 256] = {0};
        float weights[256 + 1];
        assert_true(type->block_bytes < sizeof raw && type->block_len < 257);
        for (size_t j = 0; j < 257; j++)
            weights[j] = 7.0f;
        type->decode(raw + 1, weights, type->block_len);
        /* Q3_K, Q6_K and their like give -0: a zero scale times a negative code. */
        for (size_t j = 0; j < type->block_len; j++)
            assert_true(weights[j] == 0.0f);
        assert_true(weights[type->block_len] == 7.0f);
        type->decode(raw + 1, weights, 0);
    }
}

static void test_find(void **state) {
    (void)state;
    for (size_t i = 0; pn_qtype_at(i); i++) {
        const pn_qtype *type = pn_qtype_at(i);
        assert_ptr_equal(pn_qtype_find(type->id), type);
        assert_string_equal(pn_qtype_name(type->id), type->name);
        if (i > 0) assert_true(pn_qtype_at(i - 1)->id < type->id);
    }
    assert_int_equal(pn_qtype_at(15)->id, PN_QTYPE_PACKED);
    assert_int_equal(pn_qtype_at(15 + 33)->id, PN_QTYPE_PACKED + 0x714);
    assert_null(pn_qtype_at(15 + 34));
    assert_null(pn_qtype_at(SIZE_MAX));
    assert_null(pn_qtype_find(9)); /* Q8_1: known by name only */
    static const uint32_t not_packed[] = {0x11,  0x100, 0x110, 0x40f, 0x410, 0x50f,
                                          0x511, 0x5ff, 0x80f, 0x810, 0xff};
    for (size_t i = 0; i < sizeof not_packed / sizeof not_packed[0]; i++)
        assert_null(pn_qtype_find(PN_QTYPE_PACKED + not_packed[i]));
    assert_null(pn_qtype_find(UINT32_MAX));
    assert_null(pn_qtype_name(UINT32_MAX));
    assert_null(pn_qtype_name(43));
    assert_string_equal(pn_qtype_name(16), "IQ2_XXS");
    assert_string_equal(pn_qtype_name(31), "Q4_0_4_4");
}

/* Names and sizes as the gguf package has them, for every type it knows. */
static void test_names_and_sizes(void **state) {
    (void)state;
    FILE *file = fopen("tests/golden/qtypes/types.txt", "r");
    assert_non_null(file);
    unsigned id, block_len, block_bytes;
    char name[32];
    int n = 0, n_known = 0;
    for (; fscanf(file, "%u %31s %u %u", &id, name, &block_len, &block_bytes) == 4; n++) {
        if (!pn_qtype_name(id)) fail_msg("type %u (%s) has no name", id, name);
        assert_string_equal(pn_qtype_name(id), name);
        const pn_qtype *type = pn_qtype_find(id);
        if (!type) continue;
        n_known++;
        assert_int_equal(type->block_len, block_len);
        assert_int_equal(type->block_bytes, block_bytes);
    }
    fclose(file);
    assert_true(n >= 34);
    assert_int_equal(n_known, 15);
}

/* Every half, built from its definition. */
static void test_f16_to_f32_all(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
        double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        if (exponent == 31) magnitude = mantissa ? (double)NAN : (double)INFINITY;
        float expected = (float)(h >> 15 ? -magnitude : magnitude);
        if (!same(pn_f16_to_f32((uint16_t)h), expected)) fail_msg("half %#x", h);
    }
}

static void check_to_f16(float f, uint16_t expected) {
    uint16_t h = pn_f32_to_f16(f);
    if (h != expected) fail_msg("%a gives %#x, expected %#x", f, h, expected);
    h = pn_f32_to_f16(-f);
    if (h != (expected ^ 0x8000)) fail_msg("%a gives %#x, expected %#x", -f, h, expected ^ 0x8000);
}

/* All places where the rounded result changes: around the midpoint of every two neighbouring halves. 0x7c00
   takes the place of 65536, to which the overflow rounds. */
static void test_f32_to_f16_rounding(void **state) {
    (void)state;
    for (uint16_t h = 0; h < 0x7c00; h++) {
        float low = pn_f16_to_f32(h), high = h == 0x7bff ? 65536.0f : pn_f16_to_f32((uint16_t)(h + 1));
        float middle = low + (high - low) / 2;
        check_to_f16(low, h);
        check_to_f16(float_of(bits_of(low) + 1), h);
        check_to_f16(float_of(bits_of(middle) - 1), h);
        check_to_f16(middle, (uint16_t)(h + (h & 1)));
        check_to_f16(float_of(bits_of(middle) + 1), (uint16_t)(h + 1));
        check_to_f16(float_of(bits_of(high) - 1), (uint16_t)(h + 1));
    }
    check_to_f16(65536.0f, 0x7c00);
    check_to_f16(3e38f, 0x7c00);
    check_to_f16(INFINITY, 0x7c00);
    check_to_f16(1e-45f, 0);
}

static void test_nan_stays_nan(void **state) {
    (void)state;
    const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff, 0x7f801000};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        uint16_t h = pn_f32_to_f16(float_of(nans[i]));
        assert_true((h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0);
        assert_int_equal(h >> 15, nans[i] >> 31);
        assert_true(isnan(pn_f16_to_f32(h)));
    }
    for (uint32_t m = 1; m < 1024; m++)
        assert_int_equal(pn_f32_to_f16(pn_f16_to_f32((uint16_t)(0x7c00 | m))), 0x7e00 | m);
    assert_true(isnan(pn_bf16_to_f32(0x7f81)));
    assert_true(pn_bf16_to_f32(0x3f80) == 1.0f && pn_bf16_to_f32(0xc000) == -2.0f);
    assert_true(pn_bf16_to_f32(0x0001) == 0x1p-133f);
}

/* The compiler's own half type, where it has one: all halves, and a sweep over the floats. */
static void test_f16_against_compiler(void **state) {
    (void)state;
#ifdef __FLT16_MAX__
    for (uint32_t h = 0; h < 65536; h++) {
        _Float16 half;
        uint16_t bits = (uint16_t)h;
        memcpy(&half, &bits, sizeof half);
        if (!same(pn_f16_to_f32(bits), (float)half)) fail_msg("half %#x", h);
    }
    for (uint64_t b = 0; b <= UINT32_MAX; b += 1021) {
        float f = float_of((uint32_t)b);
        _Float16 half = (_Float16)f;
        uint16_t expected;
        memcpy(&expected, &half, sizeof expected);
        if (!isnan(f) && pn_f32_to_f16(f) != expected) fail_msg("float %#x", (unsigned)b);
    }
#else
    print_message("skipped: this compiler has no _Float16\n");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),         cmocka_unit_test(test_zero_block_unaligned),
        cmocka_unit_test(test_find),           cmocka_unit_test(test_names_and_sizes),
        cmocka_unit_test(test_f16_to_f32_all), cmocka_unit_test(test_f32_to_f16_rounding),
        cmocka_unit_test(test_nan_stays_nan),  cmocka_unit_test(test_f16_against_compiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
