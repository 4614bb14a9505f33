/* SPDX-License-Identifier: Apache-2.0 */
#include "support/gguf_build.h"

#include "quant/qtype.h"

#include <stdio.h>
#include <stdlib.h>

/* Room for `bytes`, which grow from `had`; capacities are powers of two. */
static void *grow(void *block, size_t had, size_t bytes) {
    size_t cap = 64;
    while (cap < had)
        cap *= 2;
    if (block && bytes <= cap) return block;
    while (cap < bytes)
        cap *= 2;
    void *grown = realloc(block, cap);
    if (!grown) abort();
    return grown;
}

static void put_bytes(gb_file *f, const void *bytes, size_t len) {
    f->bytes = grow(f->bytes, f->len, f->len + len);
    if (len) memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
}

static void put_uint(gb_file *f, uint64_t value, unsigned width) {
    uint8_t bytes[8];
    for (unsigned i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    put_bytes(f, bytes, width);
}

static void put_field(gb_file *f, gb_kind kind, const char *of, uint64_t value, unsigned width) {
    f->fields = grow(f->fields, f->n_fields * sizeof *f->fields, (f->n_fields + 1) * sizeof *f->fields);
    gb_field *field = &f->fields[f->n_fields++];
    *field = (gb_field){.kind = kind, .pos = f->len, .width = width};
    snprintf(field->of, sizeof field->of, "%s", of);
    put_uint(f, value, width);
}

gb_file gb_begin(uint32_t version, uint64_t alignment) {
    gb_file f = {.alignment = alignment};
    put_field(&f, GB_MAGIC, "", 0x46554747, 4);
    put_field(&f, GB_VERSION, "", version, 4);
    put_field(&f, GB_N_TENSORS, "", 0, 8);
    put_field(&f, GB_N_KEYS, "", 0, 8);
    return f;
}

void gb_free(gb_file *f) {
    free(f->bytes);
    free(f->fields);
    free(f->data);
    *f = (gb_file){0};
}

static unsigned type_width(pn_gguf_type type) {
    static const unsigned width[PN_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return width[type];
}

static void put_key(gb_file *f, const char *key, pn_gguf_type type) {
    put_field(f, GB_KEY_LEN, key, strlen(key), 8);
    put_bytes(f, key, strlen(key));
    put_field(f, GB_VALUE_TYPE, key, (uint64_t)type, 4);
    f->n_keys++;
}

void gb_number(gb_file *f, const char *key, pn_gguf_type type, uint64_t bits) {
    put_key(f, key, type);
    put_field(f, GB_NUMBER, key, bits, type_width(type));
}

void gb_u32(gb_file *f, const char *key, uint32_t value) {
    gb_number(f, key, PN_GGUF_U32, value);
}

void gb_f32(gb_file *f, const char *key, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    gb_number(f, key, PN_GGUF_F32, bits);
}

static void put_string(gb_file *f, const char *key, const char *text) {
    put_field(f, GB_STRING_LEN, key, strlen(text), 8);
    put_bytes(f, text, strlen(text));
}

void gb_string(gb_file *f, const char *key, const char *text) {
    put_key(f, key, PN_GGUF_STRING);
    put_string(f, key, text);
}

static void put_array(gb_file *f, const char *key, pn_gguf_type type, uint64_t n) {
    put_key(f, key, PN_GGUF_ARRAY);
    put_field(f, GB_ELEMENT_TYPE, key, (uint64_t)type, 4);
    put_field(f, GB_ARRAY_N, key, n, 8);
}

void gb_numbers(gb_file *f, const char *key, pn_gguf_type type, uint64_t n, const void *elements) {
    put_array(f, key, type, n);
    put_bytes(f, elements, (size_t)n * type_width(type));
}

void gb_strings(gb_file *f, const char *key, uint64_t n, const char *const *strings) {
    put_array(f, key, PN_GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_string(f, key, strings[i]);
}

void gb_tensor(gb_file *f, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
               const void *data) {
    uint64_t all[PN_GGUF_MAX_DIMS] = {1, 1, 1, 1};
    put_field(f, GB_NAME_LEN, name, strlen(name), 8);
    put_bytes(f, name, strlen(name));
    put_field(f, GB_N_DIMS, name, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) {
        put_field(f, GB_DIM, name, dims[i], 8);
        all[i] = dims[i];
    }
    size_t start = (f->data_len + (size_t)f->alignment - 1) / (size_t)f->alignment * (size_t)f->alignment;
    size_t len = (size_t)pn_qtype_bytes(pn_qtype_find(type), all);
    put_field(f, GB_WEIGHT_TYPE, name, type, 4);
    put_field(f, GB_OFFSET, name, start, 8);
    f->data = grow(f->data, f->data_len, start + len);
    memset(f->data + f->data_len, 0, start - f->data_len);
    for (size_t i = 0; i < len; i++)
        f->data[start + i] = data ? ((const uint8_t *)data)[i] : (uint8_t)(31 * i + 7 * f->n_tensors);
    f->data_len = start + len;
    f->n_tensors++;
}

void gb_end(gb_file *f) {
    gb_put(f, gb_find(f, GB_N_TENSORS, "", 0), f->n_tensors);
    gb_put(f, gb_find(f, GB_N_KEYS, "", 0), f->n_keys);
    while (f->len % f->alignment != 0)
        put_uint(f, 0, 1);
    put_bytes(f, f->data, f->data_len);
    uint8_t *exact = realloc(f->bytes, f->len); /* so that a sanitizer sees a read past the end */
    if (!exact) abort();
    f->bytes = exact;
}

const gb_field *gb_find(const gb_file *f, gb_kind kind, const char *of, unsigned nth) {
    for (size_t i = 0; i < f->n_fields; i++)
        if (f->fields[i].kind == kind && strcmp(f->fields[i].of, of) == 0 && nth-- == 0) return &f->fields[i];
    fprintf(stderr, "the test file has no such field of \"%s\"\n", of);
    abort();
}

void gb_put(gb_file *f, const gb_field *field, uint64_t value) {
    for (unsigned i = 0; i < field->width; i++)
        f->bytes[field->pos + i] = (uint8_t)(value >> (8 * i));
}

gb_file gb_sample(uint32_t version) {
    enum { F32 = 0, F16 = 1, Q4_1 = 3, Q8_0 = 8 };
    static const char *const tokens[] = {"<s>", "", "a", "\xc3\xa9"};
    static const float scores[] = {0, -1, -2.5f, -3};
    static const uint8_t flags[] = {0, 1, 1};
    static const int32_t heads[] = {2, 1};
    gb_file f = gb_begin(version, 64);
    gb_string(&f, "general.architecture", "llama");
    gb_string(&f, "general.name", "sample");
    gb_u32(&f, "general.alignment", 64);
    gb_number(&f, "test.u8", PN_GGUF_U8, 200);
    gb_number(&f, "test.i8", PN_GGUF_I8, (uint64_t)-100);
    gb_number(&f, "test.u16", PN_GGUF_U16, 60000);
    gb_number(&f, "test.i16", PN_GGUF_I16, (uint64_t)-30000);
    gb_number(&f, "test.i32", PN_GGUF_I32, (uint64_t)-2000000000);
    gb_f32(&f, "test.f32", 1e-5f);
    gb_number(&f, "test.bool", PN_GGUF_BOOL, 1);
    gb_number(&f, "test.u64", PN_GGUF_U64, UINT64_MAX);
    gb_number(&f, "test.i64", PN_GGUF_I64, (uint64_t)INT64_MIN);
    gb_number(&f, "test.f64", PN_GGUF_F64, 0x3ff8000000000000); /* 1.5 */
    gb_u32(&f, "llama.block_count", 2);
    gb_u32(&f, "llama.embedding_length", 64);
    gb_u32(&f, "llama.attention.head_count", 4);
    gb_numbers(&f, "llama.attention.head_count_kv", PN_GGUF_I32, 2, heads);
    gb_strings(&f, "tokenizer.ggml.tokens", 4, tokens);
    gb_numbers(&f, "tokenizer.ggml.scores", PN_GGUF_F32, 4, scores);
    gb_numbers(&f, "test.flags", PN_GGUF_BOOL, 3, flags);
    gb_strings(&f, "test.empty", 0, NULL);
    gb_tensor(&f, "token_embd.weight", Q8_0, 2, (const uint64_t[]){64, 4}, NULL);
    gb_tensor(&f, "blk.0.attn_norm.weight", F32, 1, (const uint64_t[]){5}, NULL);
    gb_tensor(&f, "blk.0.ffn_up.weight", Q4_1, 2, (const uint64_t[]){32, 2}, NULL);
    gb_tensor(&f, "blk.0.ffn_up_exps.weight", F16, 3, (const uint64_t[]){3, 2, 2}, NULL);
    gb_tensor(&f, "scale", F32, 0, NULL, NULL);
    gb_end(&f);
    return f;
}
