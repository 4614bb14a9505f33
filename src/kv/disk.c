/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/disk.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "kv/prefix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char magic[4] = {'P', 'N', 'K', 'V'};
#define VERSION      1
#define HEAD_BYTES   64u
#define PART_BYTES   16u
#define HASH_BYTES   8u
#define TOKENS_BYTES (PN_KV_BLOCK * sizeof(int32_t)) /* of a block */
#define NOT_THERE    PN_KV_TYPE_COUNT

static uint64_t hash_of(const void *bytes, size_t n) {
    return XXH3_64bits(bytes, n);
}

void pn_kv_chain(const int32_t *tokens, size_t n_blocks, uint64_t *out) {
    uint64_t before = 0;
    for (size_t b = 0; b < n_blocks; b++)
        before = out[b] = XXH3_64bits_withSeed(tokens + b * PN_KV_BLOCK, TOKENS_BYTES, before);
}

/* What a full block of a timeline is: the first one may stay as it was filled. */
static pn_kv_type kept_type(const pn_kv_shape *shape, size_t block) {
    return block == 0 && pn_kv_keeps_first(shape->type) ? pn_kv_fresh_type(shape->type) : shape->type;
}

/* ---- writing ---- */

static size_t block_bytes(const pn_kv_store *store, const pn_kv_block *block) {
    return (size_t)pn_kv_store_block_bytes(store, block->lane, block->type);
}

static uint64_t head_bytes(size_t n_blocks) {
    return HEAD_BYTES + n_blocks * (TOKENS_BYTES + PN_KV_LANES * PART_BYTES) + HASH_BYTES;
}

uint64_t pn_kv_save_bytes(const pn_kv_snapshot *s) {
    return head_bytes(s->n_blocks) + pn_kv_snapshot_bytes(s);
}

static void put(unsigned char **at, const void *bytes, size_t n) {
    memcpy(*at, bytes, n);
    *at += n;
}

static void put_u32(unsigned char **at, uint32_t value) {
    put(at, &value, sizeof value);
}

static void put_u64(unsigned char **at, uint64_t value) {
    put(at, &value, sizeof value);
}

static void put_origin(unsigned char **at, const pn_kv_origin *o) {
    put(at, magic, sizeof magic);
    put_u32(at, VERSION);
    put_u64(at, o->model);
    put_u32(at, (uint32_t)o->precision);
    put_u32(at, (uint32_t)o->shape.type);
    put_u32(at, (uint32_t)o->shape.n_layer);
    put_u32(at, (uint32_t)o->shape.n_head_kv);
    put_u32(at, (uint32_t)o->shape.head_dim);
    put_u32(at, (uint32_t)o->shape.window);
    put_u32(at, (uint32_t)o->shape.window_pattern);
    put_u32(at, PN_KV_BLOCK);
}

static void compose_head(unsigned char *head, const pn_kv_snapshot *s, const pn_kv_origin *origin,
                         const int32_t *tokens) {
    unsigned char *at = head;
    put_origin(&at, origin);
    put_u64(&at, s->n_blocks);
    put_u64(&at, pn_kv_save_bytes(s));
    put(&at, tokens, s->n_blocks * TOKENS_BYTES);
    for (size_t i = 0; i < s->n_blocks * PN_KV_LANES; i++) {
        const pn_kv_block *block = s->blocks[i];
        put_u64(&at, block ? hash_of(block->data, block_bytes(s->store, block)) : 0);
        put_u32(&at, block ? (uint32_t)block->type : NOT_THERE);
        put_u32(&at, 0);
    }
    put_u64(&at, hash_of(head, (size_t)(at - head)));
}

pn_status pn_kv_save(const pn_kv_snapshot *s, const pn_kv_origin *origin, const int32_t *tokens,
                     const char *path, bool is_private, pn_error *err) {
    const size_t n_head = (size_t)head_bytes(s->n_blocks);
    unsigned char *head = pn_alloc(PN_MEM_OTHER, n_head, 1);
    if (!head) return pn_fail_memory(err, "head of a file of keys and values", n_head);
    pn_new_file file;
    pn_status status = pn_new_file_begin(path, &file, err);
    if (status != PN_OK) {
        pn_free(head);
        return status;
    }
    if (is_private) fchmod(file.fd, 0600);
    flock(file.fd, LOCK_EX | LOCK_NB); /* by which others tell it from what a killed process left */
    compose_head(head, s, origin, tokens);
    pn_new_file_write(&file, head, n_head);
    for (size_t i = 0; i < s->n_blocks * PN_KV_LANES; i++)
        if (s->blocks[i]) pn_new_file_write(&file, s->blocks[i]->data, block_bytes(s->store, s->blocks[i]));
    status = pn_new_file_finish(&file, err);
    pn_new_file_done(&file);
    pn_free(head);
    return status;
}

/* ---- reading ---- */

static pn_status read_at(int fd, uint64_t at, void *bytes, size_t n, pn_error *err) {
    for (size_t done = 0; done < n;) {
        const ssize_t some = pread(fd, (char *)bytes + done, n - done, (off_t)(at + done));
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return pn_fail(err, PN_ERR_IO, "cannot be read: %m");
        if (some == 0) return pn_fail_at(err, PN_ERR_FORMAT, at, "the file is cut off");
        done += (size_t)some;
    }
    return PN_OK;
}

static pn_status check_origin(pn_cursor *c, const pn_kv_origin *want, pn_kv_origin *out, pn_error *err) {
    const uint64_t model = pn_cursor_u64(c);
    const uint32_t precision = pn_cursor_u32(c), type = pn_cursor_u32(c);
    const uint32_t found[] = {pn_cursor_u32(c), pn_cursor_u32(c), pn_cursor_u32(c),
                              pn_cursor_u32(c), pn_cursor_u32(c), pn_cursor_u32(c)};
    const pn_kv_shape *s = &want->shape;
    const uint32_t expected[] = {(uint32_t)s->n_layer, (uint32_t)s->n_head_kv,      (uint32_t)s->head_dim,
                                 (uint32_t)s->window,  (uint32_t)s->window_pattern, PN_KV_BLOCK};
    if (model != want->model || memcmp(found, expected, sizeof found) != 0)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "the keys and values are of another model, or of another version or kind of machine, "
                       "and are of no use here");
    if (precision > PN_PRECISION_FAST || type >= PN_KV_TYPE_COUNT ||
        !pn_kv_type_fits((pn_kv_type)type, (size_t)s->head_dim))
        return pn_fail(err, PN_ERR_FORMAT, "precision %u or type %u is not known", precision, type);
    *out = *want;
    out->precision = (pn_precision)precision;
    out->shape.type = (pn_kv_type)type;
    return PN_OK;
}

/* Reads the head proper: what it is of, and how much of it there is. */
static pn_status read_head(pn_kv_file *f, const pn_kv_origin *want, pn_error *err) {
    unsigned char bytes[HEAD_BYTES];
    if (f->bytes < head_bytes(0)) return pn_fail(err, PN_ERR_FORMAT, "not a file of keys and values");
    PN_TRY(read_at(f->fd, 0, bytes, sizeof bytes, err));
    pn_cursor c = pn_cursor_make(bytes, sizeof bytes);
    const pn_str word = pn_cursor_bytes(&c, sizeof magic);
    if (memcmp(word.data, magic, sizeof magic) != 0)
        return pn_fail(err, PN_ERR_FORMAT, "not a file of keys and values");
    const uint32_t version = pn_cursor_u32(&c);
    if (version != VERSION)
        return pn_fail(err, PN_ERR_UNSUPPORTED, "version %u is not known: this reader knows %u", version,
                       VERSION);
    PN_TRY(check_origin(&c, want, &f->origin, err));
    const uint64_t n_blocks = pn_cursor_u64(&c), n_bytes = pn_cursor_u64(&c);
    if (n_bytes != f->bytes || n_blocks == 0 || n_blocks > f->bytes / TOKENS_BYTES ||
        head_bytes((size_t)n_blocks) > f->bytes)
        return pn_fail(err, PN_ERR_FORMAT, "the file is damaged: %llu bytes, of %llu",
                       (unsigned long long)f->bytes, (unsigned long long)n_bytes);
    f->n_blocks = (size_t)n_blocks;
    return PN_OK;
}

/* One part, whose block begins at *at. */
static pn_status read_part(pn_kv_file *f, pn_cursor *c, size_t i, uint64_t *at, pn_error *err) {
    const pn_kv_shape *shape = &f->origin.shape;
    const pn_kv_lane lane = (pn_kv_lane)(i % PN_KV_LANES);
    pn_kv_part *part = &f->parts[i];
    part->at = *at;
    part->hash = pn_cursor_u64(c);
    const uint32_t type = pn_cursor_u32(c);
    uint64_t bytes = 0;
    pn_cursor_skip(c, sizeof(uint32_t));
    part->type = (pn_kv_type)type;
    if (type == NOT_THERE) return PN_OK;
    if (type != (uint32_t)kept_type(shape, i / PN_KV_LANES) || !pn_kv_has_lane(shape, lane) ||
        !pn_kv_block_bytes(shape, lane, part->type, &bytes) || bytes > f->bytes - *at)
        return pn_fail(err, PN_ERR_FORMAT, "the file is damaged: block %zu cannot be in it", i / PN_KV_LANES);
    *at += bytes;
    return PN_OK;
}

static pn_status read_tables(pn_kv_file *f, pn_error *err) {
    const size_t n_head = (size_t)head_bytes(f->n_blocks), n_parts = f->n_blocks * PN_KV_LANES;
    unsigned char *head = f->memory = pn_alloc(PN_MEM_OTHER, n_head, 1);
    f->parts = pn_alloc(PN_MEM_OTHER, n_parts, sizeof *f->parts);
    if (!head || !f->parts) return pn_fail_memory(err, "head of a file of keys and values", n_head);
    PN_TRY(read_at(f->fd, 0, head, n_head, err));
    uint64_t hash, at = n_head;
    memcpy(&hash, head + n_head - HASH_BYTES, sizeof hash);
    if (hash != hash_of(head, n_head - HASH_BYTES))
        return pn_fail(err, PN_ERR_FORMAT, "the file is damaged: its head has another checksum");
    f->tokens = (const int32_t *)(const void *)(head + HEAD_BYTES);
    pn_cursor c = pn_cursor_make(head, n_head);
    pn_cursor_skip(&c, HEAD_BYTES + f->n_blocks * TOKENS_BYTES);
    for (size_t i = 0; i < n_parts; i++)
        PN_TRY(read_part(f, &c, i, &at, err));
    if (at != f->bytes)
        return pn_fail(err, PN_ERR_FORMAT, "the file is damaged: its blocks end at byte %llu of %llu",
                       (unsigned long long)at, (unsigned long long)f->bytes);
    return PN_OK;
}

static pn_status open_file(const char *path, pn_kv_file *f, pn_error *err) {
    struct stat st;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever lies there, do not wait for it */
    if (f->fd < 0 || fstat(f->fd, &st) != 0) return pn_fail(err, PN_ERR_IO, "cannot be read: %m");
    if (!S_ISREG(st.st_mode)) return pn_fail(err, PN_ERR_FORMAT, "not a file of keys and values");
    f->bytes = (uint64_t)st.st_size;
    return PN_OK;
}

pn_status pn_kv_file_open(const char *path, const pn_kv_origin *origin, pn_kv_file *out, pn_error *err) {
    pn_kv_file f = {.fd = -1};
    pn_status status = open_file(path, &f, err);
    if (status == PN_OK) status = read_head(&f, origin, err);
    if (status == PN_OK) status = read_tables(&f, err);
    if (status != PN_OK) {
        pn_error_prefix(err, "%s", path);
        pn_kv_file_close(&f);
        return status;
    }
    *out = f;
    return PN_OK;
}

void pn_kv_file_close(pn_kv_file *f) {
    if (f->fd >= 0) close(f->fd);
    pn_free(f->memory);
    pn_free(f->parts);
    *f = (pn_kv_file){.fd = -1};
}

bool pn_kv_file_has(const pn_kv_file *f, size_t block, pn_kv_lane lane) {
    return block < f->n_blocks && f->parts[block * PN_KV_LANES + lane].type != NOT_THERE;
}

pn_status pn_kv_file_read(const pn_kv_file *f, size_t block, const pn_kv_block *into, pn_error *err) {
    const pn_kv_part *part = &f->parts[block * PN_KV_LANES + into->lane];
    uint64_t bytes = 0;
    pn_kv_block_bytes(&f->origin.shape, into->lane, into->type, &bytes); /* checked before */
    PN_TRY(read_at(f->fd, part->at, into->data, (size_t)bytes, err));
    if (hash_of(into->data, (size_t)bytes) != part->hash)
        return pn_fail_at(err, PN_ERR_FORMAT, part->at, "the file is damaged: a block has another checksum");
    return PN_OK;
}

/* ---- restoring ---- */

/* The blocks of a text that a timeline is about to go on from; each has this as an owner. */
struct restored {
    pn_kv_store *store;
    const int32_t *tokens;
    size_t n_blocks;
    pn_kv_block **blocks; /* [n_blocks * PN_KV_LANES] */
};

static bool wanted(const struct restored *r, size_t i) {
    const pn_kv_lane lane = (pn_kv_lane)(i % PN_KV_LANES);
    return pn_kv_has_lane(&r->store->shape, lane) &&
           i / PN_KV_LANES >= pn_kv_first_seen(&r->store->shape, lane, r->n_blocks);
}

/* What the tree has already. */
static void take_from_tree(struct restored *r) {
    pthread_mutex_lock(&r->store->lock);
    const pn_prefix_node *node = r->store->root;
    for (size_t b = 0; b < r->n_blocks; b++) {
        node = pn_prefix_find(r->store, node, r->tokens + b * PN_KV_BLOCK);
        if (!node) break;
        for (size_t lane = 0; lane < PN_KV_LANES; lane++) {
            const size_t i = b * PN_KV_LANES + lane;
            if (!node->blocks[lane] || !wanted(r, i)) continue;
            pn_kv_block_share_locked(r->store, node->blocks[lane]);
            r->blocks[i] = node->blocks[lane];
        }
    }
    pthread_mutex_unlock(&r->store->lock);
}

static pn_status read_blocks(struct restored *r, const pn_kv_reader *reader, pn_error *err) {
    for (size_t i = 0; i < r->n_blocks * PN_KV_LANES; i++) {
        if (r->blocks[i] || !wanted(r, i)) continue;
        const size_t block = i / PN_KV_LANES;
        const pn_kv_lane lane = (pn_kv_lane)(i % PN_KV_LANES);
        const pn_kv_type type = kept_type(&r->store->shape, block);
        r->blocks[i] = pn_kv_block_take(r->store, lane, type);
        if (!r->blocks[i])
            return pn_fail_memory(err, "KV cache block", pn_kv_store_block_bytes(r->store, lane, type));
        PN_TRY(reader->read(reader->user, block, r->blocks[i], err));
    }
    return PN_OK;
}

/* All of it, as far as there is memory for nodes. */
static void enter(const struct restored *r) {
    pthread_mutex_lock(&r->store->lock);
    pn_prefix_node *node = r->store->root;
    for (size_t b = 0; b < r->n_blocks && node; b++) {
        pn_kv_block *const *blocks = r->blocks + b * PN_KV_LANES;
        const int32_t *tokens = r->tokens + b * PN_KV_BLOCK;
        pn_prefix_node *next = pn_prefix_find(r->store, node, tokens);
        for (int lane = 0; next && lane < PN_KV_LANES; lane++)
            if (blocks[lane] && !next->blocks[lane])
                pn_prefix_complete(r->store, next, (pn_kv_lane)lane, blocks[lane]);
        node = next ? next : pn_prefix_add(r->store, node, tokens, blocks);
    }
    pthread_mutex_unlock(&r->store->lock);
}

pn_status pn_kv_restore(pn_kv *kv, const pn_kv_reader *reader, size_t n_blocks, const int32_t *tokens,
                        size_t n, size_t *n_resumed, pn_error *err) {
    struct restored r = {.store = kv->store, .tokens = tokens, .n_blocks = n_blocks};
    r.blocks = pn_alloc(PN_MEM_OTHER, n_blocks * PN_KV_LANES, sizeof *r.blocks);
    if (!r.blocks) {
        *n_resumed = kv->n_tokens;
        return pn_fail_memory(err, "list of blocks", n_blocks * PN_KV_LANES * sizeof *r.blocks);
    }
    take_from_tree(&r);
    pn_kv_truncate(kv, 0); /* the room of the timeline is the room of what is read */
    const pn_status status = read_blocks(&r, reader, err);
    if (status == PN_OK) enter(&r);
    *n_resumed = pn_kv_resume(kv, tokens, n, 0);
    for (size_t i = 0; i < n_blocks * PN_KV_LANES; i++)
        pn_kv_block_drop(r.store, r.blocks[i]);
    pn_free(r.blocks);
    return status;
}
