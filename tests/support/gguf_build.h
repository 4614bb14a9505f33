/* SPDX-License-Identifier: Apache-2.0 */
/* Makes small GGUF files in memory for tests, and remembers where every field stands so that tests can spoil
   it. Call order: gb_begin, keys, tensors, gb_end. Runs on plain malloc, so that it does not disturb the
   counters and the failure hook of base/mem; out of memory ends the test program. */
#ifndef PN_TESTS_SUPPORT_GGUF_BUILD_H
#define PN_TESTS_SUPPORT_GGUF_BUILD_H

#include "format/gguf.h"

typedef enum gb_kind {
    GB_MAGIC,
    GB_VERSION,
    GB_N_TENSORS,
    GB_N_KEYS,
    GB_KEY_LEN,
    GB_VALUE_TYPE,
    GB_STRING_LEN,
    GB_ELEMENT_TYPE,
    GB_ARRAY_N,
    GB_NUMBER, /* the value itself, of any number type or bool */
    GB_NAME_LEN,
    GB_N_DIMS,
    GB_DIM,
    GB_WEIGHT_TYPE,
    GB_OFFSET,
    GB_KIND_COUNT
} gb_kind;

typedef struct gb_field {
    gb_kind kind;
    char of[64]; /* key or tensor name, or "" */
    size_t pos;
    unsigned width; /* bytes */
} gb_field;

typedef struct gb_file {
    uint8_t *bytes; /* complete after gb_end */
    size_t len;
    gb_field *fields;
    size_t n_fields;
    uint64_t n_keys, n_tensors, alignment;
    uint8_t *data; /* the data section, until gb_end puts it behind the rest */
    size_t data_len;
} gb_file;

/* alignment is the one that tensors are laid out by; a key "general.alignment" is the caller's to add. */
gb_file gb_begin(uint32_t version, uint64_t alignment);
void gb_free(gb_file *f);

/* One number or bool; bits are its low bytes as they stand in the file. */
void gb_number(gb_file *f, const char *key, pn_gguf_type type, uint64_t bits);
void gb_u32(gb_file *f, const char *key, uint32_t value);
void gb_f32(gb_file *f, const char *key, float value);
void gb_string(gb_file *f, const char *key, const char *text);
/* n elements of a number type at `elements`, little-endian and packed. */
void gb_numbers(gb_file *f, const char *key, pn_gguf_type type, uint64_t n, const void *elements);
void gb_strings(gb_file *f, const char *key, uint64_t n, const char *const *strings);

/* A tensor with the bytes at `data`, or with a pattern when data is NULL. */
void gb_tensor(gb_file *f, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
               const void *data);

/* Completes bytes[0..len); nothing can be added afterwards. */
void gb_end(gb_file *f);

/* The field of that kind of the key or tensor `of` ("" for the header); the nth of them for dimensions. */
const gb_field *gb_find(const gb_file *f, gb_kind kind, const char *of, unsigned nth);
/* Overwrites a field, little-endian. */
void gb_put(gb_file *f, const gb_field *field, uint64_t value);

/* A small model-like file with a field of every kind: all number types, strings, arrays, tensors of several
 * types. */
gb_file gb_sample(uint32_t version);

#endif
