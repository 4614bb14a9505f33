/* SPDX-License-Identifier: Apache-2.0 */
#include "format/gguf_write.h"

#include "base/mem.h"
#include "base/new_file.h"
#include "format/gguf_internal.h"
#include "quant/qtype.h"

#include <errno.h>
#include <unistd.h>

enum { MAX_PADDING = 64 };

/* Of a tensor in the data section. */
struct extent {
    uint64_t offset, bytes;
    bool written;
};

struct pn_gguf_writer {
    pn_new_file file; /* its error holds for the whole writer */
    uint32_t alignment;
    pn_buf keys, tensors; /* sections of the header, until it is written */
    uint64_t n_keys, n_tensors;
    struct extent *extents;   /* [n_tensors] */
    uint64_t offset;          /* in the data section, where the next tensor will be */
    uint64_t data_at;         /* where that section begins; 0: the header is not written */
    uint64_t n_written;       /* tensors */
    size_t text_at, text_len; /* of pn_gguf_reserve_text, in keys */
};

static pn_status create(const char *path, uint32_t alignment,
                        pn_status (*begin)(const char *, pn_new_file *, pn_error *), pn_gguf_writer **out,
                        pn_error *err) {
    pn_gguf_writer *w = pn_alloc(PN_MEM_OTHER, 1, sizeof *w);
    if (!w) return pn_fail_memory(err, "GGUF writer", sizeof *w);
    w->file.fd = -1;
    w->alignment = alignment;
    pn_buf_init(&w->keys, PN_BUF_NO_BOUND);
    pn_buf_init(&w->tensors, PN_BUF_NO_BOUND);
    pn_status status = begin(path, &w->file, err);
    if (status != PN_OK) {
        pn_gguf_writer_free(w);
        return status;
    }
    pn_gguf_write_u32(w, "general.alignment", alignment);
    *out = w;
    return PN_OK;
}

pn_status pn_gguf_writer_create(const char *path, uint32_t alignment, pn_gguf_writer **out, pn_error *err) {
    return create(path, alignment, pn_new_file_begin, out, err);
}

pn_status pn_gguf_writer_resume(const char *path, uint32_t alignment, pn_gguf_writer **out, pn_error *err) {
    return create(path, alignment, pn_new_file_resume, out, err);
}

void pn_gguf_writer_free(pn_gguf_writer *w) {
    if (!w) return;
    pn_new_file_done(&w->file);
    pn_buf_done(&w->keys);
    pn_buf_done(&w->tensors);
    pn_free(w->extents);
    pn_free(w);
}

/* ---- the header ---- */

static void put_u32(pn_buf *buf, uint32_t value) {
    pn_buf_append(buf, &value, sizeof value);
}
static void put_u64(pn_buf *buf, uint64_t value) {
    pn_buf_append(buf, &value, sizeof value);
}
static void put_str(pn_buf *buf, pn_str text) {
    put_u64(buf, text.len);
    pn_buf_append(buf, text.data, text.len);
}

static void put_number(pn_buf *buf, const pn_gguf_value *value) {
    float narrow = (float)value->as.f;
    switch (pn_gguf_type_class(value->type)) {
    case PN_GGUF_CLASS_U: /* little-endian: the low bytes come first */
        pn_buf_append(buf, &value->as.u, pn_gguf_type_bytes(value->type));
        break;
    case PN_GGUF_CLASS_I:
        pn_buf_append(buf, &value->as.i, pn_gguf_type_bytes(value->type));
        break;
    default:
        if (value->type == PN_GGUF_F32)
            pn_buf_append(buf, &narrow, sizeof narrow);
        else
            pn_buf_append(buf, &value->as.f, sizeof value->as.f);
        break;
    }
}

void pn_gguf_write_key(pn_gguf_writer *w, const pn_gguf_value *value) {
    if (pn_str_equal(value->key, PN_STR("general.alignment"))) return;
    put_str(&w->keys, value->key);
    put_u32(&w->keys, value->type);
    if (value->type == PN_GGUF_STRING) {
        put_str(&w->keys, value->as.str);
    } else if (value->type == PN_GGUF_ARRAY) {
        put_u32(&w->keys, value->as.array.type);
        put_u64(&w->keys, value->as.array.n);
        pn_buf_append(&w->keys, value->as.array.bytes.data, value->as.array.bytes.len);
    } else {
        put_number(&w->keys, value);
    }
    w->n_keys++;
}

void pn_gguf_write_u32(pn_gguf_writer *w, const char *key, uint32_t value) {
    put_str(&w->keys, pn_str_from(key));
    put_u32(&w->keys, PN_GGUF_U32);
    put_u32(&w->keys, value);
    w->n_keys++;
}

void pn_gguf_write_str(pn_gguf_writer *w, const char *key, const char *value) {
    put_str(&w->keys, pn_str_from(key));
    put_u32(&w->keys, PN_GGUF_STRING);
    put_str(&w->keys, pn_str_from(value));
    w->n_keys++;
}

void pn_gguf_reserve_text(pn_gguf_writer *w, const char *key, size_t n) {
    static const char spaces[64] = "                                                                ";
    put_str(&w->keys, pn_str_from(key));
    put_u32(&w->keys, PN_GGUF_STRING);
    put_u64(&w->keys, n);
    w->text_at = w->keys.len;
    w->text_len = n;
    for (size_t left = n, some; left > 0; left -= some) {
        some = left < sizeof spaces ? left : sizeof spaces;
        pn_buf_append(&w->keys, spaces, some);
    }
    w->n_keys++;
}

static uint64_t align_up(uint64_t x, uint64_t alignment) {
    return (x + alignment - 1) / alignment * alignment;
}

void pn_gguf_write_tensor(pn_gguf_writer *w, pn_str name, uint32_t type, uint32_t n_dims,
                          const uint64_t dims[PN_GGUF_MAX_DIMS]) {
    struct extent *extents = pn_realloc(w->extents, (size_t)w->n_tensors + 1, sizeof *extents);
    if (!extents) {
        w->file.error = ENOMEM;
        return;
    }
    w->extents = extents;
    put_str(&w->tensors, name);
    put_u32(&w->tensors, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        put_u64(&w->tensors, dims[i]);
    put_u32(&w->tensors, type);
    put_u64(&w->tensors, w->offset);
    struct extent extent = {.offset = w->offset, .bytes = pn_qtype_bytes(pn_qtype_find(type), dims)};
    extents[w->n_tensors++] = extent;
    w->offset = align_up(w->offset + extent.bytes, w->alignment);
}

/* ---- the bytes ---- */

struct head {
    char magic[4];
    uint32_t version;
    uint64_t n_tensors, n_keys;
};

/* Zeros from `at` to where the next aligned thing begins: a file that is gone on with may hold others. */
static void pad(pn_gguf_writer *w, uint64_t at) {
    static const char zeros[MAX_PADDING];
    const uint64_t n = align_up(at, w->alignment) - at;
    pn_new_file_write_at(&w->file, at, zeros, (size_t)n);
}

static void put_header(pn_gguf_writer *w) {
    if (w->data_at > 0) return;
    if (w->keys.status != PN_OK || w->tensors.status != PN_OK) {
        w->file.error = ENOMEM;
        return;
    }
    struct head head = {{'G', 'G', 'U', 'F'}, 3, w->n_tensors, w->n_keys};
    pn_new_file_write(&w->file, &head, sizeof head);
    pn_new_file_write(&w->file, w->keys.data, w->keys.len);
    pn_new_file_write(&w->file, w->tensors.data, w->tensors.len);
    const uint64_t end = sizeof head + w->keys.len + w->tensors.len;
    w->data_at = align_up(end, w->alignment);
    pad(w, end);
    pn_new_file_extend(&w->file, w->data_at + w->offset);
}

void pn_gguf_write_data(pn_gguf_writer *w, size_t i, const void *bytes) {
    put_header(w);
    if (w->file.error != 0) return;
    struct extent *extent = &w->extents[i];
    pn_new_file_write_at(&w->file, w->data_at + extent->offset, bytes, (size_t)extent->bytes);
    pn_gguf_writer_take(w, i);
}

bool pn_gguf_writer_read(pn_gguf_writer *w, size_t i, void *bytes) {
    const struct extent *extent = &w->extents[i];
    put_header(w);
    return w->file.error == 0 &&
           pn_new_file_read_at(&w->file, w->data_at + extent->offset, bytes, (size_t)extent->bytes);
}

void pn_gguf_writer_take(pn_gguf_writer *w, size_t i) {
    if (!w->extents[i].written) w->n_written++;
    w->extents[i].written = true;
    pad(w, w->data_at + w->extents[i].offset + w->extents[i].bytes);
}

void pn_gguf_fill_text(pn_gguf_writer *w, const char *text, size_t len) {
    put_header(w);
    if (len > w->text_len) w->file.error = EINVAL;
    pn_new_file_write_at(&w->file, sizeof(struct head) + w->text_at, text, len);
}

pn_status pn_gguf_writer_finish(pn_gguf_writer *w, pn_error *err) {
    put_header(w);
    if (w->file.error == 0 && w->n_written != w->n_tensors) w->file.error = EINVAL;
    if (w->file.error == ENOMEM) return pn_fail_memory(err, "GGUF header", w->keys.len + w->tensors.len);
    return pn_new_file_finish(&w->file, err);
}
