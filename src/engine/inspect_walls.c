/* SPDX-License-Identifier: Apache-2.0 */
/* The three walls of a model as far as the file alone tells them, for any decoder architecture. */
#include "engine/inspect.h"

#include "base/mem.h"

#include <stdio.h>

enum { MAX_LAYERS = 1 << 16, MAX_WIDTH = 1 << 24 };

/* "ARCH.SUFFIX"; an architecture's name that does not fit finds no key. */
typedef struct key_text {
    char text[128];
} key_text;

static key_text key_of(pn_str arch, const char *suffix) {
    key_text key = {""};
    if (arch.len < 64) snprintf(key.text, sizeof key.text, "%.*s.%s", (int)arch.len, arch.data, suffix);
    return key;
}

static bool get(const pn_gguf *g, pn_str arch, const char *suffix, uint64_t min, uint64_t max,
                uint64_t *out) {
    return pn_gguf_get_u64(g, key_of(arch, suffix).text, min, max, out, NULL) == PN_OK;
}

/* Sum over the layers of a value that stands once for all or in an array with one per layer. */
static bool sum_layers(const pn_gguf *g, pn_str arch, const char *suffix, uint64_t n_layer, uint64_t *out) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key_of(arch, suffix).text);
    uint64_t each = 0, sum = 0;
    if (!value) return false;
    if (value->type != PN_GGUF_ARRAY) {
        if (!get(g, arch, suffix, 0, MAX_WIDTH, &each)) return false;
        *out = each * n_layer;
        return true;
    }
    if (value->as.array.n != n_layer || value->as.array.type == PN_GGUF_STRING) return false;
    for (uint64_t i = 0; i < n_layer; i++) {
        int64_t n = pn_gguf_array_i64(value, i);
        if (n < 0 || n > MAX_WIDTH) return false;
        sum += (uint64_t)n;
    }
    *out = sum;
    return true;
}

/* Length of a key or value head: its own key, or the embedding divided among the query heads. */
static bool head_length(const pn_gguf *g, pn_str arch, const char *suffix, uint64_t *out) {
    uint64_t n_embd = 0, n_head = 0;
    if (pn_gguf_find_key(g, key_of(arch, suffix).text)) return get(g, arch, suffix, 0, MAX_WIDTH, out);
    if (!get(g, arch, "embedding_length", 1, MAX_WIDTH, &n_embd) ||
        !get(g, arch, "attention.head_count", 1, MAX_WIDTH, &n_head))
        return false;
    *out = n_embd / n_head;
    return true;
}

static json_t *kv_bytes_per_token(const pn_gguf *g, pn_str arch) {
    uint64_t n_layer = 0, n_heads = 0, key_len = 0, value_len = 0, bytes = 0;
    bool known = get(g, arch, "block_count", 1, MAX_LAYERS, &n_layer) &&
                 (sum_layers(g, arch, "attention.head_count_kv", n_layer, &n_heads) ||
                  (!pn_gguf_find_key(g, key_of(arch, "attention.head_count_kv").text) &&
                   sum_layers(g, arch, "attention.head_count", n_layer, &n_heads))) &&
                 head_length(g, arch, "attention.key_length", &key_len) &&
                 head_length(g, arch, "attention.value_length", &value_len) &&
                 pn_mul_u64(n_heads, 2 * (key_len + value_len), &bytes) && bytes <= INT64_MAX;
    return known ? json_integer((json_int_t)bytes) : json_null();
}

/* A 3-D tensor with one matrix per expert is read as far as the token's experts go. */
static uint64_t bytes_read(const pn_gguf_tensor *t, uint64_t n_expert, uint64_t n_used) {
    if (t->n_dims < 3 || n_expert == 0 || t->dims[2] != n_expert) return t->n_bytes;
    return t->n_bytes / n_expert * n_used;
}

static uint64_t decode_bytes_per_token(const pn_gguf *g, pn_str arch) {
    uint64_t n_expert = 0, n_used = 0, sum = 0;
    if (!get(g, arch, "expert_count", 1, MAX_WIDTH, &n_expert) ||
        !get(g, arch, "expert_used_count", 1, n_expert, &n_used))
        n_expert = 0;
    bool has_head = pn_gguf_find_tensor(g, "output.weight") != NULL;
    for (size_t i = 0; i < pn_gguf_n_tensors(g); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(g, i);
        if (t->n_dims < 2) continue;
        if (has_head && pn_str_equal(t->name, PN_STR("token_embd.weight")))
            sum += t->n_bytes / (t->dims[1] * t->dims[2] * t->dims[3]); /* one row */
        else
            sum += bytes_read(t, n_expert, n_used);
    }
    return sum;
}

json_t *pn_inspect_walls(const pn_gguf *g, pn_str arch) {
    uint64_t weights_bytes = 0;
    for (size_t i = 0; i < pn_gguf_n_tensors(g); i++)
        weights_bytes +=
            pn_gguf_tensor_at(g, i)->n_bytes; /* tensors do not overlap: no more than the files */
    return json_pack("{s:I, s:o, s:I}", "weights_bytes", (json_int_t)weights_bytes, "kv_bytes_per_token_f16",
                     kv_bytes_per_token(g, arch), "decode_bytes_per_token",
                     (json_int_t)decode_bytes_per_token(g, arch));
}
