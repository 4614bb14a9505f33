/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that describes a model file. */
#include "support/gguf_build.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static char path[] = "/tmp/pn-inspect-XXXXXX";

static int setup(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state) {
    (void)state;
    return unlink(path);
}

static void write_file_at(const char *where, const gb_file *f) {
    FILE *file = fopen(where, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(f->bytes, 1, f->len, file), f->len);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const gb_file *f) {
    write_file_at(path, f);
}

static json_t *inspect(const gb_file *f, bool full) {
    pn_text text = {0};
    pn_error err = {0};
    write_file(f);
    if (pn_inspect_json(path, full, &text, &err) != PN_OK) fail_msg("%s", err.message);
    assert_int_equal(strlen(text.data), text.len);
    assert_null(strchr(text.data, '\n'));
    json_t *root = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    pn_text_free(&text);
    return root;
}

static const json_t *at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("no \"%s\"", key);
    return value;
}

/* Compares with JSON text, in which ' stands for ". */
static void assert_json(const json_t *got, const char *expected) {
    char text[512];
    snprintf(text, sizeof text, "%s", expected);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    json_t *want = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(want);
    if (!json_equal(got, want)) {
        char *dump = json_dumps(got, JSON_ENCODE_ANY);
        fail_msg("%s is not %s", dump, text);
    }
    json_decref(want);
}

static void test_sample(void **state) {
    (void)state;
    gb_file f = gb_sample(3);
    json_t *root = inspect(&f, false);
    assert_string_equal(json_string_value(at(root, "file")), path);
    assert_int_equal(json_integer_value(at(root, "bytes")), f.len);
    assert_json(at(root, "format"), "'GGUF v3'");
    assert_json(at(root, "shards"), "1");
    assert_json(at(root, "architecture"), "'llama'");
    assert_json(at(root, "supported"), "true");
    assert_json(at(root, "name"), "'sample'");
    assert_json(at(root, "parameters"), "338"); /* 256 + 5 + 64 + 12 + 1 */
    assert_json(at(root, "tensors"),
                "{'n': 5, 'by_type': [{'type': 'F32', 'n': 2, 'bytes': 24, 'weights': 6},"
                "{'type': 'F16', 'n': 1, 'bytes': 24, 'weights': 12},"
                "{'type': 'Q4_1', 'n': 1, 'bytes': 40, 'weights': 64},"
                "{'type': 'Q8_0', 'n': 1, 'bytes': 272, 'weights': 256}],"
                "'bits_per_weight': 8.521}"); /* 360 * 8 / 338 */
    /* KV: 2 + 1 heads of 64 / 4 values, for keys and values, two bytes each. Decode: no separate head, so all
       of token_embd, the two other matrices, and no vectors. */
    assert_json(at(root, "walls"),
                "{'weights_bytes': 360, 'kv_bytes_per_token_f16': 192, 'decode_bytes_per_token': 336}");
    assert_json(at(root, "chat_template"), "null");
    assert_null(json_object_get(root, "tensor_list"));
    json_decref(root);
    gb_free(&f);
}

static void test_packed_types(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    gb_tensor(&f, "a", 0x504e0714, 2, (const uint64_t[]){256, 32}, NULL);
    gb_tensor(&f, "b", 0x504e0012, 2, (const uint64_t[]){128, 16}, NULL);
    gb_tensor(&f, "c", 0x504e0714, 2, (const uint64_t[]){128, 16}, NULL);
    gb_end(&f);
    json_t *root = inspect(&f, false);
    assert_json(at(root, "tensors"),
                "{'n': 3, 'by_type': [{'type': 'INT8_SYM_CH_R16', 'n': 1, 'bytes': 2080, 'weights': 2048},"
                "{'type': 'INT4_ASYM_G128_R16', 'n': 2, 'bytes': 5320, 'weights': 10240}],"
                "'bits_per_weight': 4.818}"); /* 7400 * 8 / 12288 */
    json_decref(root);
    gb_free(&f);
}

static void test_metadata(void **state) {
    (void)state;
    const int32_t nine[] = {1, 2, 3, 4, 5, 6, 7, 8, -9};
    const uint64_t wide[] = {UINT64_MAX, 7};
    gb_file f = gb_begin(2, 32);
    gb_string(&f, "bytes", "a\xff\xc3");
    gb_number(&f, "u64", PN_GGUF_U64, UINT64_MAX);
    gb_number(&f, "i64", PN_GGUF_I64, (uint64_t)INT64_MIN);
    gb_f32(&f, "f32", 1e-5f);
    gb_number(&f, "f64", PN_GGUF_F64, 0x3fb999999999999a); /* 0.1 */
    gb_number(&f, "nan", PN_GGUF_F32, 0x7fc00000);
    gb_number(&f, "inf", PN_GGUF_F64, 0xfff0000000000000);
    gb_number(&f, "yes", PN_GGUF_BOOL, 1);
    gb_numbers(&f, "eight", PN_GGUF_I32, 8, nine);
    gb_numbers(&f, "nine", PN_GGUF_I32, 9, nine);
    gb_numbers(&f, "wide", PN_GGUF_U64, 2, wide);
    gb_numbers(&f, "flags", PN_GGUF_BOOL, 2, (const uint8_t[]){0, 1});
    gb_strings(&f, "strings", 3, (const char *const[]){"", "\xfe", "z"});
    gb_strings(&f, "none", 0, NULL);
    gb_string(&f, "tokenizer.chat_template", "{{ x }}");
    gb_end(&f);
    json_t *root = inspect(&f, false);
    assert_json(
        at(root, "metadata"),
        "{'bytes': 'a\\ufffd\\ufffd', 'u64': 1.84467440737096e19, 'i64': -9223372036854775808, 'f32': "
        "1e-05,"
        " 'f64': 0.1, 'nan': 'nan', 'inf': '-inf', 'yes': true, 'eight': [1, 2, 3, 4, 5, 6, 7, 8],"
        " 'nine': {'array': 'i32', 'n': 9, 'first': [1, 2, 3, 4, 5]}, 'wide': [1.84467440737096e19, 7],"
        " 'flags': [false, true], 'strings': ['', '\\ufffd', 'z'], 'none': [],"
        " 'tokenizer.chat_template': '{{ x }}'}");
    assert_string_equal(json_object_iter_key(json_object_iter(json_object_get(root, "metadata"))), "bytes");
    assert_json(at(root, "format"), "'GGUF v2'");
    assert_json(at(root, "architecture"), "null");
    assert_json(at(root, "supported"), "false");
    assert_json(at(root, "parameters"), "0");
    assert_json(at(root, "tensors"), "{'n': 0, 'by_type': [], 'bits_per_weight': 0.0}");
    assert_json(at(at(root, "walls"), "kv_bytes_per_token_f16"), "null");
    assert_json(at(root, "chat_template"), "'{{ x }}'");
    json_decref(root);
    root = inspect(&f, true);
    assert_json(at(at(root, "metadata"), "nine"), "[1, 2, 3, 4, 5, 6, 7, 8, -9]");
    json_decref(root);
    gb_free(&f);
}

static void test_tensor_list(void **state) {
    (void)state;
    gb_file f = gb_sample(3);
    json_t *root = inspect(&f, true);
    const json_t *list = at(root, "tensor_list");
    assert_int_equal(json_array_size(list), 5);
    char expected[128];
    snprintf(
        expected, sizeof expected,
        "{'name': 'blk.0.ffn_up_exps.weight', 'type': 'F16', 'shape': [3, 2, 2], 'bytes': 24, 'offset': %zu}",
        f.len - f.data_len + 448);
    assert_json(json_array_get(list, 3), expected);
    assert_json(at(json_array_get(list, 4), "shape"), "[]");
    json_decref(root);
    gb_free(&f);
}

/* A model with its own head, grouped experts, and heads whose length is a key. */
static void test_walls(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    gb_string(&f, "general.architecture", "moe");
    gb_u32(&f, "moe.block_count", 3);
    gb_u32(&f, "moe.embedding_length", 32);
    gb_u32(&f, "moe.attention.head_count", 2);
    gb_u32(&f, "moe.attention.key_length", 24);
    gb_u32(&f, "moe.attention.value_length", 8);
    gb_u32(&f, "moe.expert_count", 4);
    gb_u32(&f, "moe.expert_used_count", 1);
    gb_tensor(&f, "token_embd.weight", 0, 2, (const uint64_t[]){32, 10}, NULL);
    gb_tensor(&f, "output.weight", 1, 2, (const uint64_t[]){32, 10}, NULL);
    gb_tensor(&f, "blk.0.ffn_up_exps.weight", 0, 3, (const uint64_t[]){32, 2, 4}, NULL);
    gb_tensor(&f, "blk.0.norm.weight", 0, 1, (const uint64_t[]){32}, NULL);
    gb_end(&f);
    json_t *root = inspect(&f, false);
    assert_json(at(root, "supported"), "false");
    /* KV: no head_count_kv, so 3 layers of 2 heads of 24 + 8 values. Decode: one row of token_embd (128), the
       head (640), one expert of four (256). */
    assert_json(at(root, "walls"),
                "{'weights_bytes': 3072, 'kv_bytes_per_token_f16': 384, 'decode_bytes_per_token': 1024}");
    json_decref(root);
    static const struct {
        const char *key;
        uint32_t value;
    } nonsense[] = {{"moe.block_count", UINT32_MAX},
                    {"moe.attention.head_count", UINT32_MAX},
                    {"moe.attention.key_length", UINT32_MAX},
                    {"moe.block_count", 0}};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        gb_put(&f, gb_find(&f, GB_NUMBER, nonsense[i].key, 0), nonsense[i].value);
        root = inspect(&f, false);
        assert_json(at(at(root, "walls"), "kv_bytes_per_token_f16"), "null");
        json_decref(root);
    }
    gb_free(&f);
}

/* In a split model each tensor tells its shard. */
static void test_shards(void **state) {
    (void)state;
    char names[2][64];
    for (int i = 0; i < 2; i++) {
        gb_file f = gb_begin(3, 32);
        gb_number(&f, "split.no", PN_GGUF_U16, (uint64_t)i);
        gb_number(&f, "split.count", PN_GGUF_U16, 2);
        gb_tensor(&f, i ? "b" : "a", 0, 1, (const uint64_t[]){4}, NULL);
        gb_end(&f);
        snprintf(names[i], sizeof names[i], "%s-0000%d-of-00002.gguf", path, i + 1);
        write_file_at(names[i], &f);
        gb_free(&f);
    }
    pn_text text = {0};
    pn_error err = {0};
    if (pn_inspect_json(names[1], true, &text, &err) != PN_OK) fail_msg("%s", err.message);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_json(at(root, "shards"), "2");
    assert_json(at(at(root, "metadata"), "split.no"), "0");
    assert_json(at(json_array_get(at(root, "tensor_list"), 0), "shard"), "1");
    assert_json(at(json_array_get(at(root, "tensor_list"), 1), "shard"), "2");
    json_decref(root);
    pn_text_free(&text);
    assert_int_equal(unlink(names[0]) + unlink(names[1]), 0);
}

static void test_failures(void **state) {
    (void)state;
    pn_text text = {0};
    pn_error err = {0};
    assert_int_equal(pn_inspect_json("/nonexistent/model.gguf", false, &text, &err), PN_ERR_IO);
    assert_non_null(strstr(err.message, "/nonexistent/model.gguf"));
    assert_int_equal(pn_inspect_json(NULL, false, &text, &err), PN_ERR_ARGUMENT);
    assert_int_equal(pn_inspect_json(path, false, NULL, &err), PN_ERR_ARGUMENT);
    gb_file f = gb_sample(3);
    gb_put(&f, gb_find(&f, GB_N_DIMS, "scale", 0), 9);
    write_file(&f);
    assert_int_equal(pn_inspect_json(path, false, &text, &err), PN_ERR_FORMAT);
    assert_null(text.data);
    gb_free(&f);

    enum { TOO_MANY = (1 << 22) + 1 };
    uint8_t *zeros = calloc(TOO_MANY, 1);
    assert_non_null(zeros);
    f = gb_begin(3, 32);
    gb_numbers(&f, "large", PN_GGUF_U8, TOO_MANY, zeros);
    gb_end(&f);
    json_decref(inspect(&f, false));
    assert_int_equal(pn_inspect_json(path, true, &text, &err), PN_ERR_LIMIT);
    assert_null(text.data);
    gb_free(&f);
    free(zeros);
}

static void *counted_malloc(size_t bytes) {
    return pn_alloc(PN_MEM_OTHER, 1, bytes);
}

/* Every allocation in turn fails, jansson's own among them. */
static void test_every_allocation_fails(void **state) {
    (void)state;
    static const char name[] = "odd \xff name"; /* so that cleaning it allocates */
    gb_file f = gb_sample(3);
    memcpy(f.bytes + gb_find(&f, GB_STRING_LEN, "general.name", 0)->pos + 8, name, 6);
    write_file(&f);
    json_malloc_t plain_malloc;
    json_free_t plain_free;
    json_get_alloc_funcs(&plain_malloc, &plain_free);
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    unsigned n_failures = 0;
    for (uint64_t nth = 1;; nth++) {
        pn_text text = {0};
        pn_error err = {0};
        json_set_alloc_funcs(counted_malloc, pn_free);
        pn_mem_fail_at(nth);
        pn_status status = pn_inspect_json(path, true, &text, &err);
        pn_mem_fail_at(0);
        json_set_alloc_funcs(plain_malloc, plain_free);
        if (status == PN_OK) {
            pn_text_free(&text);
            break;
        }
        assert_int_equal(status, PN_ERR_MEMORY);
        assert_int_equal(err.code, PN_ERR_MEMORY);
        assert_null(text.data);
        assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), held);
        n_failures++;
    }
    assert_true(n_failures > 200);
    gb_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),   cmocka_unit_test(test_packed_types),
        cmocka_unit_test(test_metadata), cmocka_unit_test(test_tensor_list),
        cmocka_unit_test(test_walls),    cmocka_unit_test(test_shards),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_every_allocation_fails),
    };
    return cmocka_run_group_tests_name("inspect", tests, setup, teardown);
}
