/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files and puts the shards of a split model together. A split of n files is named
   NAME-00001-of-0000n.gguf and so on; each carries split.no (from 0), split.count and split.tensors.count
   (tensors of all shards), the first one also the metadata of the model. A split.count of 0 or 1, or none, is
   a whole model, as tools that merge leave it. */
#include "format/gguf_internal.h"

#include "base/mem.h"
#include "base/quote.h"

#include <stdio.h>

enum { MAX_SHARDS = 65535 }; /* split.count is a u16 */

#define SUFFIX_FORMAT "-%05u-of-%05u.gguf"
#define SUFFIX_LEN    (sizeof "-00001-of-00001.gguf" - 1)

typedef struct split_name {
    pn_str prefix;  /* the path up to the suffix */
    uint32_t count; /* 0 when the name is not that of a shard */
} split_name;

static bool read_digits(const char *text, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *out = *out * 10 + (uint32_t)(text[i] - '0');
    }
    return true;
}

static split_name parse_split_name(const char *path) {
    split_name name = {0};
    size_t len = strlen(path);
    if (len < SUFFIX_LEN) return name;
    const char *suffix = path + len - SUFFIX_LEN;
    uint32_t no, count;
    if (suffix[0] != '-' || !read_digits(suffix + 1, &no) || memcmp(suffix + 6, "-of-", 4) != 0 ||
        !read_digits(suffix + 10, &count) || strcmp(suffix + 15, ".gguf") != 0)
        return name;
    if (no < 1 || no > count || count > MAX_SHARDS) return name;
    return (split_name){.prefix = {path, len - SUFFIX_LEN}, .count = count};
}

/* Puts the file before a message, without its folders where the whole path would push the reason out of the
 * line. */
static void prefix_path(pn_error *err, const char *path) {
    const char *slash = strrchr(path, '/');
    pn_error_prefix(err, "%s", strlen(path) > 200 && slash ? slash + 1 : path);
}

/* ---- one file ---- */

static pn_status check_whole(const pn_gguf *g, pn_error *err) {
    uint64_t count = 0, no = 0;
    PN_TRY(pn_gguf_get_u64_or(g, "split.count", 0, MAX_SHARDS, 1, &count, err));
    if (count <= 1) return PN_OK;
    PN_TRY(pn_gguf_get_u64_or(g, "split.no", 0, count - 1, 0, &no, err));
    return pn_fail_at(err, PN_ERR_FORMAT, pn_gguf_find_key(g, "split.count")->position,
                      "this is part %u of a model split into %u files; it must keep its name, "
                      "NAME" SUFFIX_FORMAT ", and stand beside the other parts",
                      (unsigned)no + 1, (unsigned)count, (unsigned)no + 1, (unsigned)count);
}

static pn_status read_whole(const uint8_t *bytes, uint64_t len, pn_gguf *g, pn_error *err) {
    PN_TRY(pn_gguf_read_shard(bytes, len, 0, g, err));
    PN_TRY(check_whole(g, err));
    return pn_gguf_index_tensors(g, err);
}

/* Maps the file at path into *g, which then owns the map. */
static pn_status map_into(const char *path, pn_gguf *g, pn_error *err) {
    uint32_t n = g->n_maps + 1;
    pn_map *maps = pn_realloc(g->maps, n, sizeof *maps);
    if (!maps) return pn_fail_memory(err, "list of shards", n * sizeof *maps);
    g->maps = maps;
    PN_TRY(pn_map_open(path, &maps[n - 1], err));
    g->n_maps = n;
    return PN_OK;
}

static pn_status open_whole(const char *path, pn_gguf *g, pn_error *err) {
    PN_TRY(map_into(path, g, err));
    pn_status status = read_whole(g->maps[0].data, g->maps[0].len, g, err);
    if (status != PN_OK) prefix_path(err, path);
    return status;
}

/* ---- all shards of a split ---- */

static pn_status check_split_keys(const pn_gguf *part, uint32_t shard, uint32_t n_shards, pn_error *err) {
    const pn_gguf_value *value = pn_gguf_find_key(part, "split.count");
    uint64_t count = 0, no = 0;
    if (!value)
        return pn_fail(err, PN_ERR_FORMAT,
                       "the name is that of shard %u of %u, but the file has no key \"split.count\"",
                       shard + 1, n_shards);
    PN_TRY(pn_gguf_get_u64(part, "split.count", 0, MAX_SHARDS, &count, err));
    if (count != n_shards)
        return pn_fail_at(err, PN_ERR_FORMAT, value->position,
                          "the name says that there are %u shards, key \"split.count\" says %u", n_shards,
                          (unsigned)count);
    PN_TRY(pn_gguf_get_u64(part, "split.no", 0, MAX_SHARDS, &no, err));
    if (no != shard)
        return pn_fail_at(
            err, PN_ERR_FORMAT, pn_gguf_find_key(part, "split.no")->position,
            "the name says shard %u, key \"split.no\" says shard %u: files were renamed or swapped",
            shard + 1, (unsigned)no + 1);
    return PN_OK;
}

static pn_status append_tensors(pn_gguf *g, const pn_gguf *part, pn_error *err) {
    size_t n = g->n_tensors + part->n_tensors;
    if (n > PN_NAME_INDEX_MAX) return pn_fail(err, PN_ERR_FORMAT, "more tensors than any model has");
    pn_gguf_tensor *tensors = pn_realloc(g->tensors, n, sizeof *tensors);
    if (!tensors) return pn_fail_memory(err, "tensor descriptions", n * sizeof *tensors);
    g->tensors = tensors;
    if (part->n_tensors > 0) memcpy(tensors + g->n_tensors, part->tensors, part->n_tensors * sizeof *tensors);
    g->n_tensors = n;
    return PN_OK;
}

/* Moves what the model takes from one shard: keys from the first only, tensors from each. */
static pn_status add_part(pn_gguf *g, pn_gguf *part, pn_error *err) {
    PN_TRY(append_tensors(g, part, err));
    if (g->n_shards == 0) {
        g->version = part->version;
        g->keys = part->keys;
        g->n_keys = part->n_keys;
        g->key_index = part->key_index;
        part->keys = NULL;
        part->key_index = (pn_name_index){0};
    }
    g->n_shards++;
    g->file_bytes += part->file_bytes;
    return PN_OK;
}

/* declared: the split.tensors.count of the shards before, UINT64_MAX for none yet. */
static pn_status open_shard(const char *path, uint32_t shard, uint32_t n_shards, uint64_t *declared,
                            pn_gguf *g, pn_error *err) {
    pn_gguf part = {0};
    uint64_t n = UINT64_MAX;
    pn_status status;
    PN_TRY_GOTO(status, map_into(path, g, err), mapped);
    PN_TRY_GOTO(status, pn_gguf_read_shard(g->maps[shard].data, g->maps[shard].len, shard, &part, err), read);
    PN_TRY_GOTO(status, check_split_keys(&part, shard, n_shards, err), read);
    PN_TRY_GOTO(status, pn_gguf_get_u64_or(&part, "split.tensors.count", 0, INT64_MAX, *declared, &n, err),
                read);
    if (*declared != UINT64_MAX && n != *declared) {
        status = pn_fail_at(
            err, PN_ERR_FORMAT, pn_gguf_find_key(&part, "split.tensors.count")->position,
            "the whole model has %llu tensors by this shard, but %llu by those before: another split",
            (unsigned long long)n, (unsigned long long)*declared);
        goto read;
    }
    *declared = n;
    status = add_part(g, &part, err);
read:
    if (status != PN_OK) prefix_path(err, path);
mapped:
    if (status == PN_ERR_IO)
        pn_error_prefix(err, "shard %u of %u is missing or unreadable", shard + 1, n_shards);
    pn_gguf_done(&part);
    return status;
}

static pn_status open_split(split_name name, pn_gguf *g, pn_error *err) {
    uint64_t declared = UINT64_MAX;
    pn_buf path;
    pn_buf_init(&path, SIZE_MAX);
    pn_status status = PN_OK;
    for (uint32_t i = 0; i < name.count && status == PN_OK; i++) {
        pn_buf_clear(&path);
        pn_buf_append(&path, name.prefix.data, name.prefix.len);
        pn_buf_append_fmt(&path, SUFFIX_FORMAT, i + 1, name.count);
        if (path.status != PN_OK)
            status = pn_fail_memory(err, "file name", name.prefix.len + SUFFIX_LEN);
        else
            status = open_shard(path.data, i, name.count, &declared, g, err);
    }
    if (status == PN_OK && declared != UINT64_MAX && declared != g->n_tensors)
        status = pn_fail(err, PN_ERR_FORMAT,
                         "the %u shards hold %zu tensors, key \"split.tensors.count\" says %llu", name.count,
                         g->n_tensors, (unsigned long long)declared);
    if (status == PN_OK) status = pn_gguf_index_tensors(g, err);
    pn_buf_done(&path);
    return status;
}

/* ---- public ---- */

static pn_status create(pn_gguf **out, pn_error *err) {
    *out = pn_alloc(PN_MEM_OTHER, 1, sizeof **out);
    return *out ? PN_OK : pn_fail_memory(err, "GGUF reader", sizeof **out);
}

pn_status pn_gguf_open(const char *path, pn_gguf **out, pn_error *err) {
    pn_gguf *g;
    PN_TRY(create(&g, err));
    split_name name = parse_split_name(path);
    pn_status status = name.count > 1 ? open_split(name, g, err) : open_whole(path, g, err);
    if (status == PN_OK)
        *out = g;
    else
        pn_gguf_close(g);
    return status;
}

pn_status pn_gguf_parse(const void *bytes, uint64_t len, const char *name, pn_gguf **out, pn_error *err) {
    pn_gguf *g;
    PN_TRY(create(&g, err));
    pn_status status = read_whole(bytes, len, g, err);
    if (status == PN_OK) {
        *out = g;
    } else {
        pn_error_prefix(err, "%s", pn_quote(pn_str_from(name)).text);
        pn_gguf_close(g);
    }
    return status;
}
