/* SPDX-License-Identifier: Apache-2.0 */
/* Parses bytes as a GGUF file and reads everything that an accepted file promises. */
#include "format/gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) abort();
}

/* Touches a byte, so that a sanitizer checks its address. */
static void touch(const void *byte) {
    volatile uint8_t value = *(const uint8_t *)byte;
    (void)value;
}

static void read_array(const pn_gguf_value *array) {
    uint64_t offset = 0, n = 0;
    pn_str s;
    for (; pn_gguf_next_string(array, &offset, &s); n++)
        if (s.len > 0) touch(s.data + s.len - 1);
    if (array->as.array.type == PN_GGUF_STRING) require(n == array->as.array.n);
    for (uint64_t i = 0; i < array->as.array.n; i++) {
        volatile double sum = pn_gguf_array_f64(array, i) + (double)pn_gguf_array_i64(array, i);
        (void)sum;
    }
}

/* Every typed read of every key: any may refuse, none may write on failure or fail without a message. */
static void read_typed(const pn_gguf *g, const char *key) {
    uint64_t u = 0;
    double f = 0;
    bool b = false;
    pn_str s = {"", 0};
    const pn_gguf_value *array = NULL;
    pn_error err = {0};
    if (pn_gguf_get_u64(g, key, 1, 1000, &u, &err) == PN_OK)
        require(u >= 1 && u <= 1000);
    else
        require(err.code == PN_ERR_FORMAT && err.message[0] != '\0');
    (void)pn_gguf_get_u64_or(g, key, 0, UINT64_MAX, 7, &u, &err);
    if (pn_gguf_get_f64_or(g, key, 1, &f, &err) == PN_OK) require(f - f == 0);
    (void)pn_gguf_get_bool_or(g, key, true, &b, &err);
    if (pn_gguf_get_str_or(g, key, "none", &s, &err) == PN_OK && s.len > 0) touch(s.data + s.len - 1);
    if (pn_gguf_get_array_or_none(g, key, PN_GGUF_STRING, &array, &err) == PN_OK && array) read_array(array);
}

static void read_keys(const pn_gguf *g) {
    for (size_t i = 0; i < pn_gguf_n_keys(g); i++) {
        const pn_gguf_value *value = pn_gguf_key_at(g, i);
        char *key = malloc(value->key.len + 1);
        if (!key) return;
        memcpy(key, value->key.data, value->key.len);
        key[value->key.len] = '\0';
        require(pn_gguf_find_key(g, key) == value);
        read_typed(g, key);
        free(key);
        if (value->type == PN_GGUF_ARRAY) read_array(value);
    }
}

static void read_tensors(const pn_gguf *g, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < pn_gguf_n_tensors(g); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(g, i);
        char name[256];
        require(t->name.len < sizeof name);
        memcpy(name, t->name.data, t->name.len);
        name[t->name.len] = '\0';
        require(pn_gguf_find_tensor(g, name) == t);
        require(t->n_bytes > 0 && t->data == data + t->offset && t->offset + t->n_bytes <= size);
        touch(t->data);
        touch(t->data + t->n_bytes - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pn_gguf *g = NULL;
    pn_error err = {0};
    pn_status status = pn_gguf_parse(data, size, "fuzz.gguf", &g, &err);
    if (status != PN_OK) {
        require(!g && err.code == status && err.message[0] != '\0');
        require(status == PN_ERR_MEMORY || err.position <= size);
        return 0;
    }
    require(pn_gguf_file_bytes(g) == size);
    read_keys(g);
    read_tensors(g, data, size);
    pn_gguf_close(g);
    return 0;
}
