/* SPDX-License-Identifier: Apache-2.0 */
#include "format/safetensors.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {[PN_SAFETENSORS_I64] = {"I64", 8},
             [PN_SAFETENSORS_I32] = {"I32", 4},
             [PN_SAFETENSORS_F32] = {"F32", 4},
             [PN_SAFETENSORS_F16] = {"F16", 2},
             [PN_SAFETENSORS_BF16] = {"BF16", 2}};

struct tensor {
    char name[128];
    pn_safetensors_type type;
    size_t n_dims;
    uint64_t dims[2], bytes;
    uint64_t offset; /* behind the header, once that is written */
    bool written;
};

struct pn_safetensors_writer {
    pn_new_file file; /* its error holds for the whole writer */
    struct tensor *tensors;
    size_t n, cap, n_written;
    uint64_t data_at; /* where the first tensor begins; 0: the header is not written */
};

pn_status pn_safetensors_create(const pn_new_folder *folder, const char *name, pn_safetensors_writer **out,
                                pn_error *err) {
    pn_safetensors_writer *w = pn_alloc(PN_MEM_OTHER, 1, sizeof *w);
    if (!w) return pn_fail_memory(err, "safetensors writer", sizeof *w);
    w->file.fd = -1;
    pn_status status = pn_new_folder_file(folder, name, &w->file, err);
    if (status != PN_OK) {
        pn_safetensors_free(w);
        return status;
    }
    *out = w;
    return PN_OK;
}

void pn_safetensors_free(pn_safetensors_writer *w) {
    if (!w) return;
    pn_new_file_done(&w->file);
    pn_free(w->tensors);
    pn_free(w);
}

void pn_safetensors_add(pn_safetensors_writer *w, const char *path, const char *part,
                        pn_safetensors_type type, size_t n_dims, const uint64_t *dims) {
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 256;
        struct tensor *tensors = pn_realloc(w->tensors, cap, sizeof *tensors);
        if (!tensors) {
            w->file.error = ENOMEM;
            return;
        }
        w->tensors = tensors;
        w->cap = cap;
    }
    struct tensor t = {.type = type, .n_dims = n_dims, .bytes = types[type].bytes};
    snprintf(t.name, sizeof t.name, "%s.%s", path, part);
    for (size_t i = 0; i < n_dims; i++) {
        t.dims[i] = dims[i];
        t.bytes *= dims[i];
    }
    w->tensors[w->n++] = t;
}

static void describe(pn_buf *header, const struct tensor *t) {
    pn_buf_append_fmt(header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, types[t->type].name);
    for (size_t i = 0; i < t->n_dims; i++)
        pn_buf_append_fmt(header, "%s%llu", i ? "," : "", (unsigned long long)t->dims[i]);
    pn_buf_append_fmt(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->offset,
                      (unsigned long long)(t->offset + t->bytes));
}

static void put_header(pn_safetensors_writer *w) {
    if (w->data_at > 0 || w->file.error != 0) return;
    uint64_t offset = 0;
    pn_buf header;
    pn_buf_init(&header, PN_BUF_NO_BOUND);
    pn_buf_append_str(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t bytes = 8; bytes >= 2; bytes /= 2)
        for (size_t i = 0; i < w->n; i++) {
            if (types[w->tensors[i].type].bytes != bytes) continue;
            w->tensors[i].offset = offset;
            offset += w->tensors[i].bytes;
            describe(&header, &w->tensors[i]);
        }
    pn_buf_append_str(&header, "}");
    while (header.status == PN_OK && header.len % 8 != 0)
        pn_buf_append_str(&header, " ");
    const uint64_t len = header.len; /* little-endian, as are the tensors */
    if (header.status == PN_OK) {
        pn_new_file_write(&w->file, &len, sizeof len);
        pn_new_file_write(&w->file, header.data, header.len);
        w->data_at = sizeof len + len;
        pn_new_file_extend(&w->file, w->data_at + offset);
    } else {
        w->file.error = ENOMEM;
    }
    pn_buf_done(&header);
}

void pn_safetensors_write(pn_safetensors_writer *w, size_t i, const void *bytes) {
    put_header(w);
    if (w->file.error != 0) return;
    struct tensor *t = &w->tensors[i];
    pn_new_file_write_at(&w->file, w->data_at + t->offset, bytes, (size_t)t->bytes);
    if (!t->written) w->n_written++;
    t->written = true;
}

pn_status pn_safetensors_finish(pn_safetensors_writer *w, pn_error *err) {
    put_header(w);
    if (w->file.error == 0 && w->n_written != w->n) w->file.error = EINVAL;
    if (w->file.error == ENOMEM) return pn_fail_memory(err, "safetensors header", w->n * sizeof *w->tensors);
    return pn_new_file_finish(&w->file, err);
}
