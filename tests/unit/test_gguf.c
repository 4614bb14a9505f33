/* SPDX-License-Identifier: Apache-2.0 */
/* The GGUF reader on sound files, and on each fault by name. */
#include "support/gguf_build.h"

#include "base/quote.h"
#include "format/name_index.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_str(pn_str got, const char *expected) {
    assert_int_equal(got.len, strlen(expected));
    assert_memory_equal(got.data, expected, got.len);
}

static pn_gguf *parse_ok(const gb_file *f) {
    pn_gguf *g = NULL;
    pn_error err = {0};
    if (pn_gguf_parse(f->bytes, f->len, "test.gguf", &g, &err) != PN_OK) fail_msg("%s", err.message);
    return g;
}

/* The file must be refused with that code and a message that holds each of the words (up to a NULL). */
static void assert_refused(const gb_file *f, pn_status code, const char *const *words) {
    pn_gguf *g = NULL;
    pn_error err = {0};
    assert_int_equal(pn_gguf_parse(f->bytes, f->len, "test.gguf", &g, &err), code);
    assert_null(g);
    assert_int_equal(err.code, code);
    assert_true(err.position <= f->len);
    assert_non_null(strstr(err.message, "test.gguf"));
    for (; *words; words++)
        if (!strstr(err.message, *words)) fail_msg("\"%s\" does not say \"%s\"", err.message, *words);
}

#define WORDS(...)                                                                                           \
    (const char *const[]) {                                                                                  \
        __VA_ARGS__, NULL                                                                                    \
    }

/* The sample with one field spoiled. */
static void assert_spoiled(gb_kind kind, const char *of, unsigned nth, uint64_t value, pn_status code,
                           const char *const *words) {
    gb_file f = gb_sample(3);
    gb_put(&f, gb_find(&f, kind, of, nth), value);
    assert_refused(&f, code, words);
    gb_free(&f);
}

/* ---- sound files ---- */

static const pn_gguf_value *key_of(const pn_gguf *g, const char *name, pn_gguf_type type) {
    const pn_gguf_value *value = pn_gguf_find_key(g, name);
    assert_non_null(value);
    assert_str(value->key, name);
    assert_int_equal(value->type, type);
    return value;
}

static void test_scalars(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        gb_file f = gb_sample(version);
        pn_gguf *g = parse_ok(&f);
        assert_int_equal(pn_gguf_version(g), version);
        assert_int_equal(pn_gguf_n_shards(g), 1);
        assert_int_equal(pn_gguf_file_bytes(g), f.len);
        assert_int_equal(pn_gguf_n_keys(g), f.n_keys);
        assert_true(key_of(g, "test.u8", PN_GGUF_U8)->as.u == 200);
        assert_true(key_of(g, "test.i8", PN_GGUF_I8)->as.i == -100);
        assert_true(key_of(g, "test.u16", PN_GGUF_U16)->as.u == 60000);
        assert_true(key_of(g, "test.i16", PN_GGUF_I16)->as.i == -30000);
        assert_true(key_of(g, "general.alignment", PN_GGUF_U32)->as.u == 64);
        assert_true(key_of(g, "test.i32", PN_GGUF_I32)->as.i == -2000000000);
        assert_true(key_of(g, "test.f32", PN_GGUF_F32)->as.f == (double)1e-5f);
        assert_true(key_of(g, "test.bool", PN_GGUF_BOOL)->as.u == 1);
        assert_true(key_of(g, "test.u64", PN_GGUF_U64)->as.u == UINT64_MAX);
        assert_true(key_of(g, "test.i64", PN_GGUF_I64)->as.i == INT64_MIN);
        assert_true(key_of(g, "test.f64", PN_GGUF_F64)->as.f == 1.5);
        assert_str(key_of(g, "general.name", PN_GGUF_STRING)->as.str, "sample");
        assert_int_equal(key_of(g, "test.u8", PN_GGUF_U8)->position,
                         gb_find(&f, GB_NUMBER, "test.u8", 0)->pos);
        assert_null(pn_gguf_find_key(g, "test.none"));
        assert_null(pn_gguf_find_key(g, ""));
        for (size_t i = 0; i < pn_gguf_n_keys(g); i++) {
            char name[64];
            pn_str key = pn_gguf_key_at(g, i)->key;
            snprintf(name, sizeof name, "%.*s", (int)key.len, key.data);
            assert_ptr_equal(pn_gguf_find_key(g, name), pn_gguf_key_at(g, i));
        }
        pn_gguf_close(g);
        gb_free(&f);
    }
}

static void test_arrays(void **state) {
    (void)state;
    gb_file f = gb_sample(3);
    pn_gguf *g = parse_ok(&f);
    const pn_gguf_value *tokens = key_of(g, "tokenizer.ggml.tokens", PN_GGUF_ARRAY);
    static const char *const expected[] = {"<s>", "", "a", "\xc3\xa9"};
    uint64_t offset = 0;
    pn_str token;
    for (size_t i = 0; i < 4; i++) {
        assert_true(pn_gguf_next_string(tokens, &offset, &token));
        assert_str(token, expected[i]);
    }
    assert_false(pn_gguf_next_string(tokens, &offset, &token));
    offset = 0;
    assert_false(pn_gguf_next_string(key_of(g, "test.empty", PN_GGUF_ARRAY), &offset, &token));
    assert_false(pn_gguf_next_string(key_of(g, "test.flags", PN_GGUF_ARRAY), &offset, &token));
    assert_false(pn_gguf_next_string(key_of(g, "test.u8", PN_GGUF_U8), &offset, &token));

    const pn_gguf_value *scores = key_of(g, "tokenizer.ggml.scores", PN_GGUF_ARRAY);
    assert_int_equal(scores->as.array.n, 4);
    assert_true(pn_gguf_array_f64(scores, 2) == -2.5);
    assert_true(pn_gguf_array_i64(scores, 2) == -2);
    const pn_gguf_value *heads = key_of(g, "llama.attention.head_count_kv", PN_GGUF_ARRAY);
    assert_true(pn_gguf_array_i64(heads, 0) == 2 && pn_gguf_array_f64(heads, 1) == 1);
    assert_true(pn_gguf_array_i64(key_of(g, "test.flags", PN_GGUF_ARRAY), 2) == 1);
    assert_true(pn_gguf_array_i64(tokens, 0) == 0);
    pn_gguf_close(g);
    gb_free(&f);
}

/* Elements that an int64 cannot hold are saturated. */
static void test_array_extremes(void **state) {
    (void)state;
    const double floats[] = {1e300, -1e300, NAN, -0x1p63, 0x1p62, 0x1p63};
    const uint64_t wide[] = {UINT64_MAX, INT64_MAX, 5};
    gb_file f = gb_begin(3, 32);
    gb_numbers(&f, "f64", PN_GGUF_F64, 6, floats);
    gb_numbers(&f, "u64", PN_GGUF_U64, 3, wide);
    gb_end(&f);
    pn_gguf *g = parse_ok(&f);
    const pn_gguf_value *f64 = key_of(g, "f64", PN_GGUF_ARRAY), *u64 = key_of(g, "u64", PN_GGUF_ARRAY);
    const int64_t expected[] = {INT64_MAX, INT64_MIN, 0, INT64_MIN, INT64_C(1) << 62, INT64_MAX};
    for (uint64_t i = 0; i < 6; i++)
        assert_true(pn_gguf_array_i64(f64, i) == expected[i]);
    assert_true(isnan(pn_gguf_array_f64(f64, 2)));
    assert_true(pn_gguf_array_i64(u64, 0) == INT64_MAX && pn_gguf_array_i64(u64, 1) == INT64_MAX);
    assert_true(pn_gguf_array_i64(u64, 2) == 5);
    assert_true(pn_gguf_array_f64(u64, 0) == 0x1p64);
    pn_gguf_close(g);
    gb_free(&f);
}

static void test_tensors(void **state) {
    (void)state;
    gb_file f = gb_sample(2);
    pn_gguf *g = parse_ok(&f);
    assert_int_equal(pn_gguf_n_tensors(g), 5);
    const pn_gguf_tensor *t = pn_gguf_find_tensor(g, "token_embd.weight");
    assert_ptr_equal(t, pn_gguf_tensor_at(g, 0));
    assert_str(t->name, "token_embd.weight");
    assert_int_equal(t->n_dims, 2);
    assert_true(t->dims[0] == 64 && t->dims[1] == 4 && t->dims[2] == 1 && t->dims[3] == 1);
    assert_int_equal(t->type, 8);
    assert_int_equal(t->n_bytes, 8 * 34);
    assert_int_equal(t->shard, 0);
    size_t data_start = f.len - f.data_len;
    for (size_t i = 0; i < 5; i++) {
        t = pn_gguf_tensor_at(g, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.data);
        size_t offset_at = gb_find(&f, GB_OFFSET, name, 0)->pos;
        uint64_t relative = f.bytes[offset_at] | (uint64_t)f.bytes[offset_at + 1] << 8;
        assert_int_equal(t->offset, data_start + relative);
        assert_ptr_equal(t->data, f.bytes + t->offset);
        assert_int_equal(t->offset % 64, 0);
        assert_int_equal(t->data[1], (uint8_t)(31 + 7 * i)); /* the builder's pattern */
    }
    t = pn_gguf_find_tensor(g, "blk.0.ffn_up_exps.weight");
    assert_true(t->n_dims == 3 && t->dims[0] == 3 && t->dims[1] == 2 && t->dims[2] == 2 && t->n_bytes == 24);
    t = pn_gguf_find_tensor(g, "scale");
    assert_true(t->n_dims == 0 && t->dims[0] == 1 && t->n_bytes == 4);
    assert_null(pn_gguf_find_tensor(g, "token_embd"));
    pn_gguf_close(g);
    gb_free(&f);
}

static void test_smallest_and_default_alignment(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    pn_gguf *g = parse_ok(&f); /* no key, no tensor, not even padding */
    assert_int_equal(pn_gguf_n_keys(g) + pn_gguf_n_tensors(g), 0);
    assert_null(pn_gguf_find_key(g, "x"));
    assert_null(pn_gguf_find_tensor(g, "x"));
    pn_gguf_close(g);
    gb_tensor(&f, "x", 0, 1, (const uint64_t[]){1}, NULL);
    gb_tensor(&f, "y", 0, 1, (const uint64_t[]){1}, NULL);
    gb_end(&f);
    g = parse_ok(&f);
    assert_int_equal(pn_gguf_find_tensor(g, "y")->offset - pn_gguf_find_tensor(g, "x")->offset, 32);
    pn_gguf_close(g);
    gb_free(&f);
}

static void test_tensors_in_any_order(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        gb_tensor(&f, name, 0, 1, (const uint64_t[]){8}, NULL);
    }
    gb_end(&f);
    gb_put(&f, gb_find(&f, GB_OFFSET, "t0", 0), 96);
    gb_put(&f, gb_find(&f, GB_OFFSET, "t3", 0), 0);
    pn_gguf *g = parse_ok(&f);
    assert_int_equal(pn_gguf_find_tensor(g, "t0")->offset, f.len - f.data_len + 96);
    pn_gguf_close(g);
    gb_put(&f, gb_find(&f, GB_OFFSET, "t0", 0), 32);
    assert_refused(&f, PN_ERR_FORMAT, WORDS("t0", "t1", "overlap"));
    gb_free(&f);
}

static void test_many_keys(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    enum { N = 20000 };
    for (int i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        gb_number(&f, key, PN_GGUF_U8, (uint64_t)i & 0xff);
    }
    gb_end(&f);
    pn_gguf *g = parse_ok(&f);
    for (uint64_t i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", (int)i);
        assert_true(key_of(g, key, PN_GGUF_U8)->as.u == (i & 0xff));
    }
    pn_gguf_close(g);
    gb_free(&f);
}

/* ---- typed reads ---- */

static void test_typed_reads(void **state) {
    (void)state;
    gb_file f = gb_sample(3);
    pn_gguf *g = parse_ok(&f);
    uint64_t u = 0;
    double d = 0;
    bool b = false;
    pn_str s;
    const pn_gguf_value *a;
    assert_int_equal(pn_gguf_get_u64(g, "test.u8", 0, 255, &u, NULL), PN_OK);
    assert_int_equal(u, 200);
    assert_int_equal(pn_gguf_get_u64(g, "test.u64", 1, UINT64_MAX, &u, NULL), PN_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(pn_gguf_get_u64_or(g, "test.none", 5, 6, 7, &u, NULL), PN_OK);
    assert_int_equal(u, 7);
    assert_int_equal(pn_gguf_get_u64_or(g, "test.u16", 60000, 60000, 7, &u, NULL), PN_OK);
    assert_int_equal(u, 60000);
    assert_int_equal(pn_gguf_get_f64_or(g, "test.f32", 0, &d, NULL), PN_OK);
    assert_true(d == (double)1e-5f);
    assert_int_equal(pn_gguf_get_f64_or(g, "test.i16", 0, &d, NULL), PN_OK);
    assert_true(d == -30000);
    assert_int_equal(pn_gguf_get_f64_or(g, "test.u8", 0, &d, NULL), PN_OK);
    assert_true(d == 200);
    assert_int_equal(pn_gguf_get_f64_or(g, "test.none", 2.5, &d, NULL), PN_OK);
    assert_true(d == 2.5);
    assert_int_equal(pn_gguf_get_bool_or(g, "test.bool", false, &b, NULL), PN_OK);
    assert_true(b);
    assert_int_equal(pn_gguf_get_bool_or(g, "test.none", false, &b, NULL), PN_OK);
    assert_false(b);
    assert_int_equal(pn_gguf_get_str_or(g, "general.name", "x", &s, NULL), PN_OK);
    assert_str(s, "sample");
    assert_int_equal(pn_gguf_get_str_or(g, "test.none", "x", &s, NULL), PN_OK);
    assert_str(s, "x");
    assert_int_equal(pn_gguf_get_array_or_none(g, "tokenizer.ggml.scores", PN_GGUF_F32, &a, NULL), PN_OK);
    assert_int_equal(a->as.array.n, 4);
    assert_int_equal(pn_gguf_get_array_or_none(g, "test.none", PN_GGUF_F32, &a, NULL), PN_OK);
    assert_null(a);
    pn_gguf_close(g);
    gb_free(&f);
}

static void assert_said(pn_status got, const pn_error *err, const char *const *words) {
    assert_int_equal(got, PN_ERR_FORMAT);
    assert_int_equal(err->code, PN_ERR_FORMAT);
    for (; *words; words++)
        if (!strstr(err->message, *words)) fail_msg("\"%s\" does not say \"%s\"", err->message, *words);
}

static void test_typed_reads_refuse(void **state) {
    (void)state;
    gb_file f = gb_sample(3);
    pn_gguf *g = parse_ok(&f);
    uint64_t u = 77;
    double d = 77;
    bool b = true;
    pn_str s = PN_STR("kept");
    const pn_gguf_value *a = NULL;
    pn_error err;
    assert_said(pn_gguf_get_u64(g, "test.none", 0, 9, &u, &err), &err, WORDS("test.none", "missing"));
    assert_said(pn_gguf_get_u64(g, "test.u8", 0, 199, &u, &err), &err,
                WORDS("test.u8", "0 to 199", "200 (u8)"));
    assert_int_equal(err.position, gb_find(&f, GB_NUMBER, "test.u8", 0)->pos);
    assert_said(pn_gguf_get_u64(g, "test.u8", 201, 300, &u, &err), &err, WORDS("201 to 300"));
    assert_said(pn_gguf_get_u64(g, "test.i8", 0, UINT64_MAX, &u, &err), &err, WORDS("-100 (i8)"));
    assert_said(pn_gguf_get_u64(g, "test.f32", 0, 9, &u, &err), &err, WORDS("integer", "1e-05 (f32)"));
    assert_said(pn_gguf_get_u64(g, "test.bool", 0, 9, &u, &err), &err, WORDS("integer", "(bool)"));
    assert_said(pn_gguf_get_u64_or(g, "general.name", 0, 9, 1, &u, &err), &err, WORDS("\"sample\" (string)"));
    assert_said(pn_gguf_get_u64_or(g, "test.flags", 0, 9, 1, &u, &err), &err, WORDS("array of 3", "bool"));
    assert_said(pn_gguf_get_f64_or(g, "test.bool", 1, &d, &err), &err, WORDS("number", "(bool)"));
    assert_said(pn_gguf_get_f64_or(g, "general.name", 1, &d, &err), &err, WORDS("number", "(string)"));
    assert_said(pn_gguf_get_bool_or(g, "test.u8", true, &b, &err), &err, WORDS("bool", "(u8)"));
    assert_said(pn_gguf_get_str_or(g, "test.u8", "", &s, &err), &err, WORDS("string", "(u8)"));
    assert_said(pn_gguf_get_array_or_none(g, "test.u8", PN_GGUF_F32, &a, &err), &err,
                WORDS("array", "f32", "(u8)"));
    assert_said(pn_gguf_get_array_or_none(g, "test.flags", PN_GGUF_F32, &a, &err), &err,
                WORDS("f32", "bool"));
    assert_true(u == 77 && d == 77 && b && s.len == 4 && !a); /* nothing was written */
    pn_gguf_close(g);
    gb_put(&f, gb_find(&f, GB_NUMBER, "test.f32", 0), 0x7fc00000);
    g = parse_ok(&f);
    assert_said(pn_gguf_get_f64_or(g, "test.f32", 1, &d, &err), &err, WORDS("finite", "nan"));
    pn_gguf_close(g);
    gb_free(&f);
}

/* ---- refusals ---- */

static void assert_not_gguf(const char *text, const char *word) {
    gb_file f = {.bytes = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
    assert_refused(&f, PN_ERR_FORMAT, WORDS("not a GGUF file", word));
}

static void test_other_files(void **state) {
    (void)state;
    assert_not_gguf("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer");
    assert_not_gguf("<!DOCTYPE html><html></html>", "web page");
    assert_not_gguf("PK\x03\x04zip", "ZIP");
    assert_not_gguf("tjgg\x01", "old GGML");
    assert_not_gguf("GGU", "not a GGUF file");
    assert_not_gguf("", "not a GGUF file");
}

static void test_versions(void **state) {
    (void)state;
    assert_spoiled(GB_VERSION, "", 0, 1, PN_ERR_UNSUPPORTED, WORDS("version 1"));
    assert_spoiled(GB_VERSION, "", 0, 4, PN_ERR_UNSUPPORTED, WORDS("version 4"));
    assert_spoiled(GB_VERSION, "", 0, 0, PN_ERR_UNSUPPORTED, WORDS("version 0"));
    assert_spoiled(GB_VERSION, "", 0, 0x03000000, PN_ERR_UNSUPPORTED, WORDS("big-endian"));
    assert_spoiled(GB_MAGIC, "", 0, 0x47475546, PN_ERR_FORMAT, WORDS("not a GGUF file"));
}

static void test_bad_counts_and_lengths(void **state) {
    (void)state;
    assert_spoiled(GB_N_KEYS, "", 0, 1u << 30, PN_ERR_FORMAT, WORDS("1073741824 keys"));
    assert_spoiled(GB_N_TENSORS, "", 0, UINT64_MAX, PN_ERR_FORMAT, WORDS("18446744073709551615 tensors"));
    assert_spoiled(GB_KEY_LEN, "general.name", 0, 0, PN_ERR_FORMAT, WORDS("key 2 of", "0 bytes long"));
    assert_spoiled(GB_KEY_LEN, "general.name", 0, 65536, PN_ERR_FORMAT, WORDS("65536 bytes long"));
    assert_spoiled(GB_STRING_LEN, "general.name", 0, UINT64_C(0xFFFFFFFFFFFF), PN_ERR_FORMAT,
                   WORDS("general.name", "281474976710655"));
    assert_spoiled(GB_STRING_LEN, "tokenizer.ggml.tokens", 3, UINT64_MAX, PN_ERR_FORMAT,
                   WORDS("tokenizer.ggml.tokens", "18446744073709551615"));
    assert_spoiled(GB_ARRAY_N, "tokenizer.ggml.tokens", 0, 1000000000, PN_ERR_FORMAT,
                   WORDS("tokenizer.ggml.tokens", "1000000000 elements of type string"));
    assert_spoiled(GB_ARRAY_N, "tokenizer.ggml.scores", 0, (UINT64_C(1) << 62) + 1, PN_ERR_FORMAT,
                   WORDS("tokenizer.ggml.scores", "elements of type f32"));
    assert_spoiled(GB_NAME_LEN, "scale", 0, 0, PN_ERR_FORMAT, WORDS("tensor 5 of 5", "0 bytes long"));
    assert_spoiled(GB_NAME_LEN, "scale", 0, 256, PN_ERR_FORMAT, WORDS("tensor 5 of 5", "256 bytes long"));
}

static void test_bad_types_and_values(void **state) {
    (void)state;
    assert_spoiled(GB_VALUE_TYPE, "test.u8", 0, 13, PN_ERR_FORMAT,
                   WORDS("test.u8", "13 is not a value type"));
    assert_spoiled(GB_ELEMENT_TYPE, "test.flags", 0, 99, PN_ERR_FORMAT, WORDS("test.flags", "99"));
    assert_spoiled(GB_ELEMENT_TYPE, "test.flags", 0, PN_GGUF_ARRAY, PN_ERR_UNSUPPORTED,
                   WORDS("arrays of arrays"));
    assert_spoiled(GB_NUMBER, "test.bool", 0, 2, PN_ERR_FORMAT, WORDS("test.bool", "a bool is 2"));
    gb_file f = gb_sample(3);
    f.bytes[gb_find(&f, GB_ARRAY_N, "test.flags", 0)->pos + 8 + 2] = 3;
    assert_refused(&f, PN_ERR_FORMAT, WORDS("test.flags", "a bool is 3"));
    gb_free(&f);
    static const uint64_t alignments[] = {0, 1, 4, 24, 33, 63, 1u << 25, UINT32_MAX};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        assert_spoiled(GB_NUMBER, "general.alignment", 0, alignments[i], PN_ERR_FORMAT,
                       WORDS("general.alignment", "power of two"));
    assert_spoiled(GB_VALUE_TYPE, "general.alignment", 0, PN_GGUF_I32, PN_ERR_FORMAT,
                   WORDS("of type i32, not u32"));
}

static void test_bad_tensors(void **state) {
    (void)state;
    const char *name = "token_embd.weight";
    assert_spoiled(GB_N_DIMS, name, 0, 5, PN_ERR_FORMAT, WORDS(name, "5 dimensions"));
    assert_spoiled(GB_N_DIMS, name, 0, 9, PN_ERR_FORMAT, WORDS(name, "9 dimensions"));
    assert_spoiled(GB_N_DIMS, name, 0, 0xFFFFFFFF, PN_ERR_FORMAT, WORDS(name, "4294967295 dimensions"));
    assert_spoiled(GB_DIM, name, 1, 0, PN_ERR_FORMAT, WORDS(name, "dimension 1 is 0"));
    assert_spoiled(GB_DIM, name, 0, 65, PN_ERR_FORMAT, WORDS(name, "65", "blocks of 32", "Q8_0"));
    assert_spoiled(GB_DIM, name, 1, 7, PN_ERR_FORMAT, WORDS(name, "overlap"));
    assert_spoiled(GB_DIM, name, 1, 1000, PN_ERR_FORMAT, WORDS(name, "the file ends at byte", "needs"));
    static const uint64_t wrapping[] = {UINT64_C(1) << 58, (UINT64_C(1) << 58) + 4, UINT64_C(1) << 63,
                                        UINT64_MAX, UINT64_MAX / 68 + 1};
    for (size_t i = 0; i < sizeof wrapping / sizeof *wrapping; i++)
        assert_spoiled(GB_DIM, name, 1, wrapping[i], PN_ERR_FORMAT, WORDS(name));
    /* 2^42+1 weights per row times four rows of a type of many bytes stay below 2^64: the data section ends
     * first. */
    assert_spoiled(GB_DIM, "blk.0.ffn_up_exps.weight", 0, (UINT64_C(1) << 42) + 1, PN_ERR_FORMAT,
                   WORDS("the file ends"));
    assert_spoiled(GB_WEIGHT_TYPE, name, 0, 16, PN_ERR_UNSUPPORTED, WORDS(name, "IQ2_XXS", "16"));
    assert_spoiled(GB_WEIGHT_TYPE, name, 0, 4242, PN_ERR_UNSUPPORTED, WORDS(name, "4242"));
    assert_spoiled(GB_OFFSET, name, 0, 8, PN_ERR_FORMAT, WORDS(name, "offset 8", "multiple of 64"));
    assert_spoiled(GB_OFFSET, name, 0, 1u << 20, PN_ERR_FORMAT, WORDS(name, "the file ends"));
    assert_spoiled(GB_OFFSET, name, 0, UINT64_MAX - 63, PN_ERR_FORMAT, WORDS(name, "too large"));
    gb_file f = gb_sample(3);
    uint64_t data_start = f.len - f.data_len; /* the tensor begins 64 bytes before 2^64 and its end wraps */
    gb_free(&f);
    assert_spoiled(GB_OFFSET, name, 0, UINT64_MAX - 63 - data_start, PN_ERR_FORMAT, WORDS(name, "too large"));
    assert_spoiled(GB_OFFSET, "blk.0.ffn_up.weight", 0, 0, PN_ERR_FORMAT,
                   WORDS(name, "blk.0.ffn_up.weight", "overlap"));
}

/* One packed matrix of a type, whose bytes end the file. */
static gb_file packed_file(uint32_t type, uint64_t n_col, uint64_t n_row) {
    gb_file f = gb_begin(3, 32);
    gb_tensor(&f, "w", type, 2, (const uint64_t[]){n_col, n_row}, NULL);
    gb_end(&f);
    return f;
}

static void test_packed_integers(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        const char *name;
        uint64_t n_col, n_row, n_bytes;
    } cases[] = {
        {0x504e0010, "INT4_SYM_CH_R16", 96, 17, 2 * (3 * 256 + 32)},
        {0x504e0013, "INT8_ASYM_CH_R16", 32, 16, 512 + 48},
        {0x504e0514, "INT4_ASYM_G32_R16", 96, 1, 3 * (256 + 40)},
        {0x504e0612, "INT8_SYM_G64_R16", 192, 33, 3 * 3 * (1024 + 32)},
        {0x504e0714, "INT4_ASYM_G128_R16", 640, 16, 5 * (1024 + 40)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gb_file f = packed_file(cases[i].type, cases[i].n_col, cases[i].n_row);
        pn_gguf *g = parse_ok(&f);
        assert_int_equal(pn_gguf_tensor_at(g, 0)->n_bytes, cases[i].n_bytes);
        pn_gguf_close(g);
        f.len--; /* as if the file lacked a byte */
        assert_refused(&f, PN_ERR_FORMAT, WORDS("\"w\"", "cut off"));
        f.len++;
        const uint64_t odd[] = {cases[i].n_col + 16, cases[i].n_col + 1, 1};
        for (size_t j = 0; j < sizeof odd / sizeof *odd; j++) {
            gb_put(&f, gb_find(&f, GB_DIM, "w", 0), odd[j]);
            assert_refused(&f, PN_ERR_FORMAT, WORDS("\"w\"", "whole blocks", cases[i].name));
        }
        gb_free(&f);
    }
    gb_file f = packed_file(0x504e0710, 128, 16);
    gb_put(&f, gb_find(&f, GB_DIM, "w", 0), 128 + 64); /* groups are whole */
    assert_refused(&f, PN_ERR_FORMAT, WORDS("blocks of 128 weights", "INT4_SYM_G128_R16"));
    gb_put(&f, gb_find(&f, GB_DIM, "w", 0), 128 * (UINT64_MAX / 1056)); /* with 32 bytes more it wraps */
    assert_refused(&f, PN_ERR_FORMAT, WORDS("\"w\""));
    gb_put(&f, gb_find(&f, GB_DIM, "w", 0), UINT64_MAX - 127);
    assert_refused(&f, PN_ERR_FORMAT, WORDS("too large"));
    gb_put(&f, gb_find(&f, GB_DIM, "w", 0), 128);
    static const uint32_t none[] = {0x504e0011, 0x504e0110, 0x504e0410, 0x504e050f,
                                    0x504e0711, 0x504e0810, 0x504e0700, 0x514e0010};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        gb_put(&f, gb_find(&f, GB_WEIGHT_TYPE, "w", 0), none[i]);
        assert_refused(&f, PN_ERR_UNSUPPORTED, WORDS("\"w\"", "not supported"));
    }
    gb_free(&f);
}

static void test_repeated_and_odd_names(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    gb_u32(&f, "a", 1);
    gb_u32(&f, "b", 1);
    gb_u32(&f, "a", 2);
    gb_end(&f);
    assert_refused(&f, PN_ERR_FORMAT, WORDS("key \"a\" stands twice"));
    gb_free(&f);
    f = gb_begin(3, 32);
    gb_tensor(&f, "t", 0, 1, (const uint64_t[]){1}, NULL);
    gb_tensor(&f, "t", 0, 1, (const uint64_t[]){1}, NULL);
    gb_end(&f);
    assert_refused(&f, PN_ERR_FORMAT, WORDS("tensor \"t\" stands twice"));
    gb_free(&f);
    f = gb_begin(3, 32);
    gb_u32(&f, "bad\xff\n", 1);
    gb_end(&f);
    assert_refused(&f, PN_ERR_FORMAT, WORDS("\"bad\\xff\\x0a\" is not UTF-8"));
    gb_free(&f);
    f = gb_begin(3, 32);
    gb_number(&f, "line\nbreak\xe2\x80\xae", PN_GGUF_BOOL, 7);
    gb_end(&f);
    assert_refused(&f, PN_ERR_FORMAT, WORDS("\"line\\x0abreak\\xe2\\x80\\xae\": a bool is 7"));
    gb_free(&f);
    f = gb_begin(3, 32);
    gb_u32(&f, "a\x01\x01", 1);
    gb_end(&f);
    f.bytes[24 + 8 + 1] = 0;
    assert_refused(&f, PN_ERR_FORMAT, WORDS("is not UTF-8 text"));
    gb_free(&f);
}

static void test_trailing_bytes(void **state) {
    (void)state;
    gb_file a = gb_sample(3), b = gb_sample(3);
    size_t len = a.len;
    a.bytes = realloc(a.bytes, 2 * len + 64);
    assert_non_null(a.bytes);
    memset(a.bytes + len, 0xee, len + 64);
    a.len = len + 100;
    pn_gguf_close(parse_ok(&a));            /* anything may follow, */
    for (size_t pad = 0; pad < 64; pad++) { /* but not another file, padded or not */
        if (pad != 0 && (len + pad) % 64 != 0) continue;
        memcpy(a.bytes + len + pad, b.bytes, len);
        a.len = len + pad + len;
        assert_refused(&a, PN_ERR_FORMAT, WORDS("another GGUF file begins"));
    }
    gb_free(&a);
    gb_free(&b);
}

/* ---- parts ---- */

static void test_quote(void **state) {
    (void)state;
    assert_string_equal(pn_quote(PN_STR("caf\xc3\xa9 \xe4\xb8\xad")).text, "caf\xc3\xa9 \xe4\xb8\xad");
    assert_string_equal(pn_quote(PN_STR("a\"b\\\n\x7f\xff\xc2\x85")).text,
                        "a\\x22b\\x5c\\x0a\\x7f\\xff\\xc2\\x85");
    assert_string_equal(pn_quote(PN_STR("\xe2\x80\xa8\xef\xbb\xbf")).text, "\\xe2\\x80\\xa8\\xef\\xbb\\xbf");
    assert_string_equal(pn_quote((pn_str){NULL, 0}).text, "");
    char long_text[300];
    for (unsigned char c = 1; c < 255; c = (unsigned char)(c + 62)) {
        memset(long_text, c, sizeof long_text);
        pn_quoted q = pn_quote((pn_str){long_text, sizeof long_text});
        size_t len = strlen(q.text);
        assert_true(len < sizeof q.text && len > sizeof q.text - 10);
        assert_string_equal(q.text + len - 3, "...");
    }
}

static void test_siphash(void **state) {
    (void)state;
    /* The worked example in appendix A of the SipHash paper. */
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t message[15];
    for (uint8_t i = 0; i < 15; i++)
        message[i] = i;
    assert_true(pn_siphash(key, message, 15) == 0xa129ca6149be45e5);
    assert_true(pn_siphash(key, message, 0) == 0x726fdb47dd0e0e31);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_array_extremes),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_smallest_and_default_alignment),
        cmocka_unit_test(test_tensors_in_any_order),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_typed_reads),
        cmocka_unit_test(test_typed_reads_refuse),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_bad_counts_and_lengths),
        cmocka_unit_test(test_bad_types_and_values),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_packed_integers),
        cmocka_unit_test(test_repeated_and_odd_names),
        cmocka_unit_test(test_trailing_bytes),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_siphash),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
