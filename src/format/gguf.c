/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one GGUF file: header, keys, tensor descriptions, data section, in this order and each checked before
   the next. Keys and descriptions are read twice by the same function: first into a scratch record, which
   checks them all, then into an array of exactly as many. So a count in the header never drives an allocation
   by itself. */
#include "format/gguf_internal.h"

#include "base/mem.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "quant/qtype.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 1 << 24,
    MAX_KEY_LEN = 65535,
    MAX_NAME_LEN = 255,
    MIN_KEY_BYTES = 8 + 1 + 4 + 1,       /* length, one character, type, the smallest value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8 /* length, one character, no dimensions, type, offset */
};

#define ALIGNMENT_KEY "general.alignment"

typedef unsigned long long ull; /* for %llu */

/* ---- header ---- */

static const char *what_it_is_instead(const uint8_t *bytes, uint64_t len) {
    static const struct {
        const char *start, *what;
    } known[] = {
        {"version https://git-lfs", "a Git LFS pointer, not the model it stands for"},
        {"<!DOCTYPE", "a web page"},
        {"<html", "a web page"},
        {"PK\x03\x04", "a ZIP archive"},
        {"lmgg", "an old GGML model, older than GGUF"},
        {"tjgg", "an old GGML model, older than GGUF"},
        {"fmgg", "an old GGML model, older than GGUF"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].start);
        if (len >= n && memcmp(bytes, known[i].start, n) == 0) return known[i].what;
    }
    return NULL;
}

static bool has_magic(const uint8_t *bytes, uint64_t len, uint64_t at) {
    return at <= len && len - at >= 4 && memcmp(bytes + at, "GGUF", 4) == 0;
}

static pn_status check_version(uint32_t version, pn_error *err) {
    if (version == 2 || version == 3) return PN_OK;
    uint32_t swapped = version >> 24 | (version >> 8 & 0xff00) | (version << 8 & 0xff0000) | version << 24;
    if (swapped >= 1 && swapped <= 0xff)
        return pn_fail_at(err, PN_ERR_UNSUPPORTED, 4, "big-endian GGUF files are not supported");
    return pn_fail_at(err, PN_ERR_UNSUPPORTED, 4, "GGUF version %u is not supported, only 2 and 3 are",
                      version);
}

static pn_status check_count(const pn_cursor *c, uint64_t n, uint64_t min_bytes, uint64_t at,
                             const char *what, pn_error *err) {
    if (n <= pn_cursor_left(c) / min_bytes && n <= PN_NAME_INDEX_MAX) return PN_OK;
    return pn_fail_at(err, PN_ERR_FORMAT, at, "the header counts %llu %s, but only %llu bytes follow", (ull)n,
                      what, (ull)pn_cursor_left(c));
}

static pn_status read_header(pn_cursor *c, pn_gguf *g, uint64_t *n_tensors, uint64_t *n_keys, pn_error *err) {
    if (!has_magic(c->data, c->len, 0)) {
        const char *instead = what_it_is_instead(c->data, c->len);
        if (instead) return pn_fail_at(err, PN_ERR_FORMAT, 0, "not a GGUF file: it is %s", instead);
        pn_str start = {(const char *)c->data, c->len < 4 ? (size_t)c->len : 4};
        return pn_fail_at(err, PN_ERR_FORMAT, 0, "not a GGUF file: it begins with \"%s\", expected \"GGUF\"",
                          pn_quote(start).text);
    }
    pn_cursor_skip(c, 4);
    g->version = pn_cursor_u32(c);
    PN_TRY(pn_cursor_check(c, "the version", err));
    PN_TRY(check_version(g->version, err));
    uint64_t counts_at = c->pos;
    *n_tensors = pn_cursor_u64(c);
    *n_keys = pn_cursor_u64(c);
    PN_TRY(pn_cursor_check(c, "the header", err));
    PN_TRY(check_count(c, *n_tensors, MIN_TENSOR_BYTES, counts_at, "tensors", err));
    return check_count(c, *n_keys, MIN_KEY_BYTES, counts_at + 8, "keys", err);
}

/* ---- keys ---- */

static pn_status read_name(pn_cursor *c, uint64_t max_len, pn_str *out, pn_error *err) {
    uint64_t at = c->pos, len = pn_cursor_u64(c);
    PN_TRY(pn_cursor_check(c, "the length of the name", err));
    if (len == 0 || len > max_len)
        return pn_fail_at(err, PN_ERR_FORMAT, at, "the name is %llu bytes long, not 1 to %llu", (ull)len,
                          (ull)max_len);
    pn_str name = pn_cursor_bytes(c, len);
    PN_TRY(pn_cursor_check(c, "the name", err));
    if (memchr(name.data, '\0', name.len) || !pn_utf8_valid(name.data, name.len))
        return pn_fail_at(err, PN_ERR_FORMAT, at + 8, "the name \"%s\" is not UTF-8 text",
                          pn_quote(name).text);
    *out = name;
    return PN_OK;
}

static pn_status read_type(pn_cursor *c, pn_gguf_type *out, pn_error *err) {
    uint64_t at = c->pos;
    uint32_t type = pn_cursor_u32(c);
    PN_TRY(pn_cursor_check(c, "the value type", err));
    if (type >= PN_GGUF_TYPE_COUNT) return pn_fail_at(err, PN_ERR_FORMAT, at, "%u is not a value type", type);
    *out = (pn_gguf_type)type;
    return PN_OK;
}

static pn_status check_bools(const pn_cursor *c, uint64_t at, pn_error *err) {
    for (; at < c->pos; at++)
        if (c->data[at] > 1)
            return pn_fail_at(err, PN_ERR_FORMAT, at, "a bool is %u, not 0 or 1", c->data[at]);
    return PN_OK;
}

static pn_status read_array(pn_cursor *c, pn_gguf_value *out, pn_error *err) {
    uint64_t type_at = c->pos;
    pn_gguf_type type = PN_GGUF_TYPE_COUNT;
    PN_TRY(read_type(c, &type, err));
    if (type == PN_GGUF_ARRAY)
        return pn_fail_at(err, PN_ERR_UNSUPPORTED, type_at, "arrays of arrays are not supported");
    uint64_t n_at = c->pos, n = pn_cursor_u64(c);
    PN_TRY(pn_cursor_check(c, "the array length", err));
    uint32_t size = pn_gguf_type_bytes(type);
    if (n > pn_cursor_left(c) / (size ? size : 8)) /* a string takes its length, 8 bytes, at least */
        return pn_fail_at(err, PN_ERR_FORMAT, n_at,
                          "the array has %llu elements of type %s, but only %llu bytes follow", (ull)n,
                          pn_gguf_type_name(type), (ull)pn_cursor_left(c));
    uint64_t at = c->pos;
    if (type == PN_GGUF_STRING) {
        for (uint64_t i = 0; i < n && !c->failed; i++)
            pn_cursor_skip(c, pn_cursor_u64(c));
    } else {
        pn_cursor_skip(c, n * size);
    }
    PN_TRY(pn_cursor_check(c, "an array element", err));
    if (type == PN_GGUF_BOOL) PN_TRY(check_bools(c, at, err));
    out->as.array.type = type;
    out->as.array.n = n;
    out->as.array.bytes = (pn_str){(const char *)c->data + at, (size_t)(c->pos - at)};
    return PN_OK;
}

static pn_status read_value(pn_cursor *c, pn_gguf_value *out, pn_error *err) {
    PN_TRY(read_type(c, &out->type, err));
    out->position = c->pos;
    if (out->type == PN_GGUF_ARRAY) return read_array(c, out, err);
    if (out->type == PN_GGUF_STRING) {
        out->as.str = pn_cursor_bytes(c, pn_cursor_u64(c));
        return pn_cursor_check(c, "the string", err);
    }
    pn_gguf_read_number(c, out);
    PN_TRY(pn_cursor_check(c, "the value", err));
    return out->type == PN_GGUF_BOOL ? check_bools(c, out->position, err) : PN_OK;
}

static pn_status read_key(pn_cursor *c, pn_gguf_value *out, pn_error *err) {
    PN_TRY(read_name(c, MAX_KEY_LEN, &out->key, err));
    pn_status status = read_value(c, out, err);
    if (status != PN_OK) pn_error_prefix(err, "\"%s\"", pn_quote(out->key).text);
    return status;
}

static pn_status read_keys(pn_cursor *c, uint64_t n, pn_gguf *g, pn_error *err) {
    const uint64_t start = c->pos;
    for (uint64_t i = 0; i < n; i++) {
        pn_gguf_value scratch = {0};
        pn_status status = read_key(c, &scratch, err);
        if (status != PN_OK) {
            pn_error_prefix(err, "key %llu of %llu", (ull)i + 1, (ull)n);
            return status;
        }
    }
    g->keys = pn_alloc(PN_MEM_OTHER, (size_t)n, sizeof *g->keys);
    if (!g->keys) return pn_fail_memory(err, "keys", n * sizeof *g->keys);
    g->n_keys = (size_t)n;
    c->pos = start;
    for (size_t i = 0; i < g->n_keys; i++)
        PN_TRY(read_key(c, &g->keys[i], err));
    size_t twice = PN_NAME_NONE;
    PN_TRY(pn_name_index_init(&g->key_index, g->keys, g->n_keys, sizeof *g->keys, &twice, err));
    if (twice != PN_NAME_NONE)
        return pn_fail_at(err, PN_ERR_FORMAT, g->keys[twice].position, "key \"%s\" stands twice",
                          pn_quote(g->keys[twice].key).text);
    return PN_OK;
}

static pn_status find_alignment(const pn_gguf *g, uint64_t *out, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(g, ALIGNMENT_KEY);
    if (!value) {
        *out = DEFAULT_ALIGNMENT;
        return PN_OK;
    }
    if (value->type != PN_GGUF_U32)
        return pn_fail_at(err, PN_ERR_FORMAT, value->position, ALIGNMENT_KEY " is of type %s, not u32",
                          pn_gguf_type_name(value->type));
    uint64_t alignment = value->as.u;
    if (alignment < MIN_ALIGNMENT || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
        return pn_fail_at(err, PN_ERR_FORMAT, value->position,
                          ALIGNMENT_KEY " is %llu, not a power of two from %d to %d", (ull)alignment,
                          MIN_ALIGNMENT, MAX_ALIGNMENT);
    *out = alignment;
    return PN_OK;
}

/* ---- tensors ---- */

static pn_status read_dims(pn_cursor *c, pn_gguf_tensor *t, pn_error *err) {
    uint64_t at = c->pos;
    t->n_dims = pn_cursor_u32(c);
    PN_TRY(pn_cursor_check(c, "the number of dimensions", err));
    if (t->n_dims > PN_GGUF_MAX_DIMS)
        return pn_fail_at(err, PN_ERR_FORMAT, at, "%u dimensions, at most %d are possible", t->n_dims,
                          PN_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < PN_GGUF_MAX_DIMS; i++)
        t->dims[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        at = c->pos;
        t->dims[i] = pn_cursor_u64(c);
        PN_TRY(pn_cursor_check(c, "a dimension", err));
        if (t->dims[i] == 0) return pn_fail_at(err, PN_ERR_FORMAT, at, "dimension %u is 0", i);
    }
    return PN_OK;
}

static pn_status read_weight_type(pn_cursor *c, pn_gguf_tensor *t, pn_error *err) {
    uint64_t at = c->pos;
    t->type = pn_cursor_u32(c);
    PN_TRY(pn_cursor_check(c, "the weight type", err));
    if (pn_qtype_find(t->type)) return PN_OK;
    const char *name = pn_qtype_name(t->type);
    return pn_fail_at(err, PN_ERR_UNSUPPORTED, at, "weight type %u%s%s%s is not supported", t->type,
                      name ? " (" : "", name ? name : "", name ? ")" : "");
}

/* Bytes of the tensor: whole blocks per row, times rows. All products are checked, the dimensions being
 * anything. */
static pn_status size_tensor(pn_gguf_tensor *t, pn_error *err) {
    const pn_qtype *type = pn_qtype_find(t->type);
    if (t->dims[0] % type->block_len != 0)
        return pn_fail_at(err, PN_ERR_FORMAT, t->position,
                          "rows of %llu weights are not whole blocks of %u weights, as type %s needs",
                          (ull)t->dims[0], type->block_len, type->name);
    uint64_t n_bytes = t->dims[0] / type->block_len;
    uint64_t n_rows = t->dims[1] / type->block_rows + (t->dims[1] % type->block_rows != 0);
    bool fits = pn_mul_u64(n_bytes, type->block_bytes, &n_bytes) &&
                pn_add_u64(n_bytes, type->row_bytes, &n_bytes) && pn_mul_u64(n_bytes, n_rows, &n_bytes);
    for (uint32_t i = 2; i < PN_GGUF_MAX_DIMS && fits; i++)
        fits = pn_mul_u64(n_bytes, t->dims[i], &n_bytes);
    if (!fits)
        return pn_fail_at(err, PN_ERR_FORMAT, t->position,
                          "dimensions [%llu, %llu, %llu, %llu] are too large", (ull)t->dims[0],
                          (ull)t->dims[1], (ull)t->dims[2], (ull)t->dims[3]);
    t->n_bytes = n_bytes;
    return PN_OK;
}

static pn_status read_tensor(pn_cursor *c, pn_gguf_tensor *t, pn_error *err) {
    t->position = c->pos;
    PN_TRY(read_name(c, MAX_NAME_LEN, &t->name, err));
    pn_status status = read_dims(c, t, err);
    if (status == PN_OK) status = read_weight_type(c, t, err);
    if (status == PN_OK) status = size_tensor(t, err);
    if (status == PN_OK) {
        t->offset = pn_cursor_u64(c); /* in the data section, until place_tensor knows where that is */
        status = pn_cursor_check(c, "the offset", err);
    }
    if (status != PN_OK) pn_error_prefix(err, "\"%s\"", pn_quote(t->name).text);
    return status;
}

static pn_status read_tensors(pn_cursor *c, uint64_t n, pn_gguf *g, pn_error *err) {
    const uint64_t start = c->pos;
    for (uint64_t i = 0; i < n; i++) {
        pn_gguf_tensor scratch = {0};
        pn_status status = read_tensor(c, &scratch, err);
        if (status != PN_OK) {
            pn_error_prefix(err, "tensor %llu of %llu", (ull)i + 1, (ull)n);
            return status;
        }
    }
    g->tensors = pn_alloc(PN_MEM_OTHER, (size_t)n, sizeof *g->tensors);
    if (!g->tensors) return pn_fail_memory(err, "tensor descriptions", n * sizeof *g->tensors);
    g->n_tensors = (size_t)n;
    c->pos = start;
    for (size_t i = 0; i < g->n_tensors; i++)
        PN_TRY(read_tensor(c, &g->tensors[i], err));
    return PN_OK;
}

/* ---- data section ---- */

static pn_status place_tensor(const pn_cursor *c, uint64_t data_start, uint64_t alignment, pn_gguf_tensor *t,
                              pn_error *err) {
    uint64_t begin, end;
    if (t->offset % alignment != 0)
        return pn_fail_at(err, PN_ERR_FORMAT, t->position,
                          "tensor \"%s\": offset %llu is not a multiple of %llu", pn_quote(t->name).text,
                          (ull)t->offset, (ull)alignment);
    if (!pn_add_u64(data_start, t->offset, &begin) || !pn_add_u64(begin, t->n_bytes, &end))
        return pn_fail_at(err, PN_ERR_FORMAT, t->position, "tensor \"%s\": offset %llu is too large",
                          pn_quote(t->name).text, (ull)t->offset);
    if (end > c->len)
        return pn_fail_at(
            err, PN_ERR_FORMAT, t->position,
            "the file ends at byte %llu, but tensor \"%s\" needs bytes %llu to %llu: cut off or damaged",
            (ull)c->len, pn_quote(t->name).text, (ull)begin, (ull)end);
    t->offset = begin;
    t->data = c->data + begin;
    return PN_OK;
}

typedef struct extent {
    uint64_t begin;
    size_t tensor;
} extent;

static int compare_extents(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static pn_status fail_overlap(const pn_gguf_tensor *a, const pn_gguf_tensor *b, pn_error *err) {
    return pn_fail_at(err, PN_ERR_FORMAT, b->position,
                      "tensors \"%s\" and \"%s\" overlap: bytes %llu to %llu and %llu to %llu",
                      pn_quote(a->name).text, pn_quote(b->name).text, (ull)a->offset,
                      (ull)a->offset + a->n_bytes, (ull)b->offset, (ull)b->offset + b->n_bytes);
}

static bool follows(const pn_gguf_tensor *a, const pn_gguf_tensor *b) {
    return a->offset + a->n_bytes <= b->offset;
}

static pn_status check_overlap(const pn_gguf *g, pn_error *err) {
    const pn_gguf_tensor *t = g->tensors;
    size_t n_ordered = 1;
    while (n_ordered < g->n_tensors && follows(&t[n_ordered - 1], &t[n_ordered]))
        n_ordered++;
    if (n_ordered >= g->n_tensors) return PN_OK; /* as nearly all files are */

    extent *extents = pn_alloc(PN_MEM_OTHER, g->n_tensors, sizeof *extents);
    if (!extents) return pn_fail_memory(err, "tensor order", g->n_tensors * sizeof *extents);
    for (size_t i = 0; i < g->n_tensors; i++)
        extents[i] = (extent){t[i].offset, i};
    qsort(extents, g->n_tensors, sizeof *extents, compare_extents);
    pn_status status = PN_OK;
    for (size_t i = 1; i < g->n_tensors && status == PN_OK; i++) {
        const pn_gguf_tensor *a = &t[extents[i - 1].tensor], *b = &t[extents[i].tensor];
        if (!follows(a, b)) status = fail_overlap(a, b, err);
    }
    pn_free(extents);
    return status;
}

static uint64_t align_up(uint64_t x, uint64_t alignment) {
    return (x + alignment - 1) & ~(alignment - 1); /* x is a position in a file, far from wrapping */
}

static pn_status check_nothing_joined(const pn_cursor *c, uint64_t end, uint64_t alignment, pn_error *err) {
    uint64_t aligned = align_up(end, alignment);
    if (!has_magic(c->data, c->len, end) && !has_magic(c->data, c->len, aligned)) return PN_OK;
    return pn_fail_at(
        err, PN_ERR_FORMAT, has_magic(c->data, c->len, end) ? end : aligned,
        "another GGUF file begins after the last tensor: parts of a split model must be separate files "
        "under their own names, or be merged by a tool that knows the format");
}

pn_status pn_gguf_read_shard(const uint8_t *bytes, uint64_t len, uint32_t shard, pn_gguf *g, pn_error *err) {
    pn_cursor c = pn_cursor_make(bytes, len);
    uint64_t n_tensors = 0, n_keys = 0, alignment = DEFAULT_ALIGNMENT;
    PN_TRY(read_header(&c, g, &n_tensors, &n_keys, err));
    PN_TRY(read_keys(&c, n_keys, g, err));
    PN_TRY(find_alignment(g, &alignment, err));
    PN_TRY(read_tensors(&c, n_tensors, g, err));
    uint64_t data_start = align_up(c.pos, alignment), data_end = c.pos;
    for (size_t i = 0; i < g->n_tensors; i++) {
        pn_gguf_tensor *t = &g->tensors[i];
        t->shard = shard;
        PN_TRY(place_tensor(&c, data_start, alignment, t, err));
        if (t->offset + t->n_bytes > data_end) data_end = t->offset + t->n_bytes;
    }
    PN_TRY(check_overlap(g, err));
    PN_TRY(check_nothing_joined(&c, data_end, alignment, err));
    g->n_shards = 1;
    g->file_bytes = len;
    return PN_OK;
}

/* ---- the object ---- */

pn_status pn_gguf_index_tensors(pn_gguf *g, pn_error *err) {
    size_t twice = PN_NAME_NONE;
    PN_TRY(pn_name_index_init(&g->tensor_index, g->tensors, g->n_tensors, sizeof *g->tensors, &twice, err));
    if (twice == PN_NAME_NONE) return PN_OK;
    const pn_gguf_tensor *t = &g->tensors[twice];
    const pn_gguf_tensor *first = &g->tensors[pn_name_index_find(&g->tensor_index, t->name)];
    if (first->shard == t->shard)
        return pn_fail_at(err, PN_ERR_FORMAT, t->position, "tensor \"%s\" stands twice",
                          pn_quote(t->name).text);
    return pn_fail_at(err, PN_ERR_FORMAT, t->position, "tensor \"%s\" stands in shard %u and in shard %u",
                      pn_quote(t->name).text, first->shard + 1, t->shard + 1);
}

void pn_gguf_done(pn_gguf *g) {
    pn_name_index_done(&g->key_index);
    pn_name_index_done(&g->tensor_index);
    pn_free(g->keys);
    pn_free(g->tensors);
    for (uint32_t i = 0; i < g->n_maps; i++)
        pn_map_close(&g->maps[i]);
    pn_free(g->maps);
    *g = (pn_gguf){0};
}

void pn_gguf_close(pn_gguf *g) {
    if (!g) return;
    pn_gguf_done(g);
    pn_free(g);
}

uint32_t pn_gguf_version(const pn_gguf *g) {
    return g->version;
}

uint32_t pn_gguf_n_shards(const pn_gguf *g) {
    return g->n_shards;
}

uint64_t pn_gguf_file_bytes(const pn_gguf *g) {
    return g->file_bytes;
}

size_t pn_gguf_n_keys(const pn_gguf *g) {
    return g->n_keys;
}

const pn_gguf_value *pn_gguf_key_at(const pn_gguf *g, size_t i) {
    return &g->keys[i];
}

const pn_gguf_value *pn_gguf_find_key(const pn_gguf *g, const char *key) {
    size_t i = pn_name_index_find(&g->key_index, pn_str_from(key));
    return i != PN_NAME_NONE ? &g->keys[i] : NULL;
}

size_t pn_gguf_n_tensors(const pn_gguf *g) {
    return g->n_tensors;
}

const pn_gguf_tensor *pn_gguf_tensor_at(const pn_gguf *g, size_t i) {
    return &g->tensors[i];
}

const pn_gguf_tensor *pn_gguf_find_tensor(const pn_gguf *g, const char *name) {
    size_t i = pn_name_index_find(&g->tensor_index, pn_str_from(name));
    return i != PN_NAME_NONE ? &g->tensors[i] : NULL;
}
