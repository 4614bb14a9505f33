/* SPDX-License-Identifier: Apache-2.0 */
#include "format/gguf_write.h"

#include "base/mem.h"
#include "format/gguf_internal.h"
#include "quant/qtype.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

struct pn_gguf_writer {
    char *path, *partial; /* the final name, and the one until then */
    int fd;               /* -1 once the file has its name */
    uint32_t alignment;
    pn_buf keys, tensors; /* sections of the header, until it is written */
    uint64_t n_keys, n_tensors;
    uint64_t *sizes; /* [n_tensors] bytes of each */
    uint64_t offset; /* in the data section, where the next tensor will be */
    bool header_written;
    uint64_t n_full, n_bytes; /* tensors that have all their bytes, and bytes of the next one */
    int error;                /* errno of the first failure; 0: none */
};

/* ---- the file ---- */

static char *join(const char *a, const char *b) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s%s", a, b);
    char *joined = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return joined;
}

/* A name of its own beside the final one; a file that a killed process left is passed over. */
static pn_status open_partial(pn_gguf_writer *w, pn_error *err) {
    for (int i = 0; i < 100; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, ".%ld-%d.partial", (long)getpid(), i);
        pn_free(w->partial);
        w->partial = join(w->path, suffix);
        if (!w->partial) return pn_fail_memory(err, "file name", sizeof suffix);
        w->fd = open(w->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) return PN_OK;
        if (errno != EEXIST) break;
    }
    return pn_fail(err, PN_ERR_IO, "cannot write %s: %m", w->partial);
}

pn_status pn_gguf_writer_create(const char *path, uint32_t alignment, pn_gguf_writer **out, pn_error *err) {
    pn_gguf_writer *w = pn_alloc(PN_MEM_OTHER, 1, sizeof *w);
    if (!w) return pn_fail_memory(err, "GGUF writer", sizeof *w);
    w->fd = -1;
    w->alignment = alignment;
    pn_buf_init(&w->keys, PN_BUF_NO_BOUND);
    pn_buf_init(&w->tensors, PN_BUF_NO_BOUND);
    w->path = join(path, "");
    pn_status status = w->path ? open_partial(w, err) : pn_fail_memory(err, "file name", strlen(path));
    if (status != PN_OK) {
        pn_gguf_writer_free(w);
        return status;
    }
    pn_gguf_write_u32(w, "general.alignment", alignment);
    *out = w;
    return PN_OK;
}

void pn_gguf_writer_free(pn_gguf_writer *w) {
    if (!w) return;
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->partial);
    }
    pn_buf_done(&w->keys);
    pn_buf_done(&w->tensors);
    pn_free(w->sizes);
    pn_free(w->partial);
    pn_free(w->path);
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

static uint64_t align_up(uint64_t x, uint64_t alignment) {
    return (x + alignment - 1) / alignment * alignment;
}

void pn_gguf_write_tensor(pn_gguf_writer *w, pn_str name, uint32_t type, uint32_t n_dims,
                          const uint64_t dims[PN_GGUF_MAX_DIMS]) {
    uint64_t *sizes = pn_realloc(w->sizes, (size_t)w->n_tensors + 1, sizeof *sizes);
    if (!sizes) {
        w->error = ENOMEM;
        return;
    }
    w->sizes = sizes;
    put_str(&w->tensors, name);
    put_u32(&w->tensors, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        put_u64(&w->tensors, dims[i]);
    put_u32(&w->tensors, type);
    put_u64(&w->tensors, w->offset);
    sizes[w->n_tensors] = pn_qtype_bytes(pn_qtype_find(type), dims);
    w->offset = align_up(w->offset + sizes[w->n_tensors], w->alignment);
    w->n_tensors++;
}

/* ---- the stream ---- */

static void put_bytes(pn_gguf_writer *w, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0 && w->error == 0) {
        ssize_t done = write(w->fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            w->error = errno;
            return;
        }
        at += done;
        n -= (size_t)done;
    }
}

static void pad(pn_gguf_writer *w, uint64_t written) {
    static const char zeros[4096];
    for (uint64_t left = align_up(written, w->alignment) - written; left > 0 && w->error == 0;) {
        size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        put_bytes(w, zeros, n);
        left -= n;
    }
}

static void put_header(pn_gguf_writer *w) {
    w->header_written = true;
    if (w->keys.status != PN_OK || w->tensors.status != PN_OK) {
        w->error = ENOMEM;
        return;
    }
    struct {
        char magic[4];
        uint32_t version;
        uint64_t n_tensors, n_keys;
    } head = {{'G', 'G', 'U', 'F'}, 3, w->n_tensors, w->n_keys};
    put_bytes(w, &head, sizeof head);
    put_bytes(w, w->keys.data, w->keys.len);
    put_bytes(w, w->tensors.data, w->tensors.len);
    pad(w, sizeof head + w->keys.len + w->tensors.len);
}

void pn_gguf_write_bytes(pn_gguf_writer *w, const void *bytes, size_t n) {
    if (!w->header_written) put_header(w);
    put_bytes(w, bytes, n);
    w->n_bytes += n;
    if (w->n_full < w->n_tensors && w->n_bytes == w->sizes[w->n_full]) {
        pad(w, w->n_bytes);
        w->n_full++;
        w->n_bytes = 0;
    }
}

/* So that the new name survives a power cut; a folder that cannot be opened is no failure of the file. */
static void sync_folder(pn_gguf_writer *w) {
    char *copy = join(w->path, "");
    if (!copy) return;
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    pn_free(copy);
}

pn_status pn_gguf_writer_finish(pn_gguf_writer *w, pn_error *err) {
    if (!w->header_written) put_header(w);
    if (w->error == 0 && fsync(w->fd) != 0) w->error = errno;
    if (w->error == 0 && (w->n_full != w->n_tensors || w->n_bytes != 0)) w->error = EINVAL;
    if (w->error == 0 && rename(w->partial, w->path) != 0) w->error = errno;
    errno = w->error;
    if (w->error == ENOMEM) return pn_fail_memory(err, "GGUF header", w->keys.len + w->tensors.len);
    if (w->error != 0) return pn_fail(err, PN_ERR_IO, "cannot write %s: %m", w->path);
    close(w->fd);
    w->fd = -1;
    sync_folder(w);
    return PN_OK;
}
