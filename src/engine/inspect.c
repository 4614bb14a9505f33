/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/inspect.h"

#include "base/mem.h"
#include "model/arch.h"
#include "quant/qtype.h"

#include <math.h>
#include <stdio.h>

static uint64_t n_weights(const pn_gguf_tensor *t) {
    /* This fits: the bytes are within the file, and no type packs more than 8 weights in one. */
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

typedef struct totals {
    uint64_t n, bytes, weights;
} totals;

static totals count_tensors(const pn_gguf *g, const pn_qtype *type) {
    totals sum = {0};
    for (size_t i = 0; i < pn_gguf_n_tensors(g); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(g, i);
        if (type && t->type != type->id) continue;
        sum.n++;
        sum.bytes += t->n_bytes;
        sum.weights += n_weights(t);
    }
    return sum;
}

/* To the thousandth of a bit. */
static double bits_per_weight(totals sum) {
    return sum.weights ? round((double)sum.bytes * 8000 / (double)sum.weights) / 1000 : 0;
}

static json_t *describe_types(const pn_gguf *g) {
    json_t *list = json_array();
    const pn_qtype *type;
    for (size_t i = 0; list && (type = pn_qtype_at(i)); i++) {
        totals sum = count_tensors(g, type);
        if (sum.n == 0) continue;
        json_t *entry = json_pack("{s:s, s:I, s:I, s:I}", "type", type->name, "n", (json_int_t)sum.n, "bytes",
                                  (json_int_t)sum.bytes, "weights", (json_int_t)sum.weights);
        if (json_array_append_new(list, entry) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *describe_tensor(const pn_gguf_tensor *t, bool split) {
    json_t *shape = json_array();
    for (uint32_t i = 0; shape && i < t->n_dims; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)t->dims[i])) == 0) continue;
        json_decref(shape);
        shape = NULL;
    }
    json_t *entry = json_pack("{s:o, s:s, s:o, s:I, s:I}", "name", pn_inspect_text(t->name), "type",
                              pn_qtype_name(t->type), "shape", shape, "bytes", (json_int_t)t->n_bytes,
                              "offset", (json_int_t)t->offset);
    if (entry && split && json_object_set_new(entry, "shard", json_integer((json_int_t)t->shard + 1)) != 0) {
        json_decref(entry);
        entry = NULL;
    }
    return entry;
}

static json_t *list_tensors(const pn_gguf *g) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < pn_gguf_n_tensors(g); i++) {
        if (json_array_append_new(list, describe_tensor(pn_gguf_tensor_at(g, i), pn_gguf_n_shards(g) > 1)) ==
            0)
            continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* A string key as text, null when it is absent or no string. */
static json_t *text_or_null(const pn_gguf *g, const char *key) {
    const pn_gguf_value *value = pn_gguf_find_key(g, key);
    return value && value->type == PN_GGUF_STRING ? pn_inspect_text(value->as.str) : json_null();
}

static json_t *describe_tensors(const pn_gguf *g) {
    totals all = count_tensors(g, NULL);
    return json_pack("{s:I, s:o, s:f}", "n", (json_int_t)all.n, "by_type", describe_types(g),
                     "bits_per_weight", bits_per_weight(all));
}

/* Takes value, which may be NULL: then it fails. */
static bool put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static json_t *describe(const pn_gguf *g, const char *path, bool full) {
    char format[32];
    snprintf(format, sizeof format, "GGUF v%u", pn_gguf_version(g));
    const pn_gguf_value *arch_key = pn_gguf_find_key(g, "general.architecture");
    pn_str arch = arch_key && arch_key->type == PN_GGUF_STRING ? arch_key->as.str : PN_STR("");
    json_t *root = json_object();
    bool ok = root && put(root, "file", pn_inspect_text(pn_str_from(path))) &&
              put(root, "bytes", json_integer((json_int_t)pn_gguf_file_bytes(g))) &&
              put(root, "format", json_string(format)) &&
              put(root, "shards", json_integer((json_int_t)pn_gguf_n_shards(g))) &&
              put(root, "architecture", text_or_null(g, "general.architecture")) &&
              put(root, "supported", json_boolean(pn_arch_supported(arch))) &&
              put(root, "name", text_or_null(g, "general.name")) &&
              put(root, "parameters", json_integer((json_int_t)count_tensors(g, NULL).weights)) &&
              put(root, "tensors", describe_tensors(g)) && put(root, "walls", pn_inspect_walls(g, arch)) &&
              put(root, "metadata", pn_inspect_metadata(g, full)) &&
              put(root, "chat_template", text_or_null(g, "tokenizer.chat_template")) &&
              (!full || put(root, "tensor_list", list_tensors(g)));
    if (ok) return root;
    json_decref(root);
    return NULL;
}

static int append_json(const char *data, size_t len, void *user) {
    return pn_buf_append(user, data, len) == PN_OK ? 0 : -1;
}

static pn_status write_json(const json_t *root, pn_text *out, pn_error *err) {
    pn_buf buf;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_text text = {0};
    if (json_dump_callback(root, append_json, &buf, JSON_REAL_PRECISION(15)) == 0)
        text.data = pn_buf_take(&buf, &text.len);
    pn_status status = text.data ? PN_OK : pn_fail_memory(err, "the description", buf.len);
    if (text.data) *out = text;
    pn_buf_done(&buf);
    return status;
}

static pn_status check_size(const pn_gguf *g, pn_error *err) {
    uint64_t n = pn_gguf_n_tensors(g);
    for (size_t i = 0; i < pn_gguf_n_keys(g); i++) {
        const pn_gguf_value *value = pn_gguf_key_at(g, i);
        if (value->type == PN_GGUF_ARRAY)
            n += value->as.array.n; /* each element took a byte of the file: no wrap */
    }
    if (n <= PN_INSPECT_MAX_ELEMENTS) return PN_OK;
    return pn_fail(err, PN_ERR_LIMIT, "a full description would have %llu array elements, the limit is %d",
                   (unsigned long long)n, PN_INSPECT_MAX_ELEMENTS);
}

pn_status pn_inspect_json(const char *path, bool full, pn_text *out, pn_error *err) {
    if (!path || !out)
        return pn_fail(err, PN_ERR_ARGUMENT, "pn_inspect_json needs a path and a place for the text");
    pn_gguf *g;
    PN_TRY(pn_gguf_open(path, &g, err));
    pn_status status = full ? check_size(g, err) : PN_OK;
    if (status == PN_OK) {
        json_t *root = describe(g, path, full);
        status =
            root ? write_json(root, out, err) : pn_fail_memory(err, "the description", pn_gguf_file_bytes(g));
        json_decref(root);
    }
    pn_gguf_close(g);
    return status;
}
