/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of sessions on their way to the disk and back. What is read enters the tree of prefixes, and the
   timeline takes it from there: the same mechanism, and so the same bits, as with a text that another session
   has left in memory. */
#include "engine/disk.h"
#include "engine/engine.h"

#include <string.h>

static pn_kv_origin origin_of(const pn_session *s) {
    return (pn_kv_origin){
        .model = s->model->identity, .precision = s->options.precision, .shape = s->kv.store->shape};
}

void pn_spill_check_baked(pn_session *s) {
    bool other;
    pn_disk *disk = s->model->disk;
    if (!disk) return;
    pn_disk_baked(disk, s->options.kv_type, s->options.precision, &other);
    if (other)
        pn_disk_note(disk,
                     "the baked text was computed with another KV type or precision than this session's: "
                     "it is not used");
}

/* ---- back ---- */

/* Files at hand, one for each lane: they are read from the beginning on. */
struct reading {
    const pn_disk_cover *cover;
    const pn_kv_origin *origin;
    const int32_t *tokens;
    const char *paths[PN_KV_LANES]; /* of the files that are open */
    pn_kv_file files[PN_KV_LANES];
    size_t n_same[PN_KV_LANES]; /* blocks that they have in common with the text */
    const char *failed;         /* path of a file that is not what it should be */
};

static void close_files(struct reading *r) {
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        pn_kv_file_close(&r->files[lane]);
}

static size_t n_same_blocks(const struct reading *r, const pn_kv_file *f) {
    size_t n = 0;
    if (f->origin.precision != r->origin->precision || f->origin.shape.type != r->origin->shape.type)
        return 0;
    while (n < f->n_blocks && n < r->cover->n_resumable &&
           memcmp(f->tokens + n * PN_KV_BLOCK, r->tokens + n * PN_KV_BLOCK,
                  PN_KV_BLOCK * sizeof *r->tokens) == 0)
        n++;
    return n;
}

static pn_status open_for(struct reading *r, size_t block, pn_kv_lane lane, pn_error *err) {
    const char *path = r->cover->paths[block * PN_KV_LANES + lane];
    pn_kv_file *f = &r->files[lane];
    r->failed = path;
    if (path == r->paths[lane]) return PN_OK;
    pn_kv_file_close(f);
    r->paths[lane] = NULL;
    PN_TRY(pn_kv_file_open(path, r->origin, f, err));
    r->paths[lane] = path;
    r->n_same[lane] = n_same_blocks(r, f);
    return PN_OK;
}

static pn_status read_block(void *user, size_t block, const pn_kv_block *into, pn_error *err) {
    struct reading *r = user;
    PN_TRY(open_for(r, block, into->lane, err));
    const pn_kv_file *f = &r->files[into->lane];
    pn_status status;
    if (block >= r->n_same[into->lane] || !pn_kv_file_has(f, block, into->lane))
        status = pn_fail(err, PN_ERR_FORMAT, "the file was changed: it is of another text now");
    else
        status = pn_kv_file_read(f, block, into, err);
    if (status == PN_OK)
        r->failed = NULL;
    else
        pn_error_prefix(err, "%s", r->failed);
    return status;
}

/* Once, from what a cover says; *again when a file was at fault, without which there may be a way. */
static size_t restore(pn_session *s, const pn_disk_cover *cover, const int32_t *tokens, size_t n,
                      bool *again) {
    const pn_kv_origin origin = origin_of(s);
    pn_error err = {0};
    size_t n_resumed;
    struct reading r = {.cover = cover, .origin = &origin, .tokens = tokens};
    for (int lane = 0; lane < PN_KV_LANES; lane++)
        r.files[lane].fd = -1;
    const pn_kv_reader reader = {read_block, &r};
    const pn_status status = pn_kv_restore(&s->kv, &reader, cover->n_resumable, tokens, n, &n_resumed, &err);
    close_files(&r);
    *again = status != PN_OK && status != PN_ERR_MEMORY;
    if (*again)
        pn_disk_reject(s->model->disk, r.failed, &err);
    else if (status != PN_OK)
        pn_disk_note(s->model->disk, "%s; a text on disk is computed again", err.message);
    else
        pn_disk_touch(cover, cover->n_resumable);
    return n_resumed;
}

/* The first of n tokens that the session's quota has room for. */
static size_t within_quota(const pn_session *s, size_t n) {
    const uint64_t quota = s->options.kv_bytes, token = pn_kv_token_bytes(&s->kv.store->shape);
    return quota > 0 && quota / token < n ? (size_t)(quota / token) : n;
}

size_t pn_spill_resume(pn_session *s, const int32_t *tokens, size_t n, size_t had) {
    pn_disk *disk = s->model->disk;
    const size_t in_memory = had;
    n = within_quota(s, n);
    bool again = disk && s->kv.type == s->kv.store->shape.type && n / PN_KV_BLOCK > had / PN_KV_BLOCK;
    s->n_restored = 0;
    while (again) {
        pn_disk_cover cover;
        const pn_kv_origin origin = origin_of(s);
        if (!pn_disk_find(disk, &origin, tokens, n / PN_KV_BLOCK, &cover)) break;
        again = false;
        if (cover.n_resumable * PN_KV_BLOCK > had) had = restore(s, &cover, tokens, n, &again);
        pn_disk_cover_done(&cover);
    }
    if (had > in_memory) s->n_restored = had - in_memory;
    return had;
}

/* ---- forth ---- */

/* The blocks that a token after the first n sees are to be saved. */
static void want(bool *wanted, const pn_kv_shape *shape, size_t n) {
    for (size_t b = pn_kv_first_seen(shape, PN_KV_WINDOWED, n); b < n; b++)
        wanted[b] = true;
}

/* Leaves out of windowed layers what no text is likely to need: those that go on from the end of this one, or
   from where others parted from it, need a window; and what a file has already, where there is a cover. */
static void choose(pn_kv_snapshot *snapshot, const pn_kv_shape *shape, const pn_disk_cover *cover,
                   bool *wanted) {
    want(wanted, shape, snapshot->n_blocks);
    for (size_t b = 0; cover && b < snapshot->n_blocks; b++)
        if (snapshot->parted[b] || cover->parted[b]) want(wanted, shape, b + 1);
    for (size_t b = 0; b < snapshot->n_blocks; b++)
        for (size_t lane = 0; lane < PN_KV_LANES; lane++)
            if ((lane == PN_KV_WINDOWED && !wanted[b]) || (cover && cover->paths[b * PN_KV_LANES + lane]))
                pn_kv_snapshot_drop(snapshot, b, (pn_kv_lane)lane);
}

static bool is_empty(const pn_kv_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->n_blocks * PN_KV_LANES; i++)
        if (snapshot->blocks[i]) return false;
    return true;
}

/* The snapshot of what is to be written; without a cover all of it. */
static pn_status take(pn_session *s, const pn_disk_cover *cover, pn_kv_snapshot *out, pn_error *err) {
    PN_TRY(pn_kv_snapshot_take(&s->kv, out, err));
    bool *wanted = pn_alloc(PN_MEM_OTHER, out->n_blocks, sizeof *wanted);
    if (!wanted) {
        pn_kv_snapshot_done(out);
        return pn_fail_memory(err, "list of blocks", out->n_blocks);
    }
    choose(out, &s->kv.store->shape, cover, wanted);
    pn_free(wanted);
    return PN_OK;
}

static void add(pn_session *s, const pn_disk_cover *cover, const pn_kv_origin *origin) {
    pn_kv_snapshot snapshot;
    if (take(s, cover, &snapshot, NULL) != PN_OK) return;
    if (is_empty(&snapshot))
        pn_disk_touch(cover, snapshot.n_blocks);
    else
        pn_disk_add(s->model->disk, &snapshot, origin, s->tokens, cover->chain);
    pn_kv_snapshot_done(&snapshot);
}

void pn_spill_save(pn_session *s) {
    pn_disk *disk = s->model->disk;
    pn_disk_cover cover;
    if (!disk || !pn_disk_adds(disk) || !s->kv.store) return;
    pn_kv_publish(&s->kv, s->tokens);
    const pn_kv_origin origin = origin_of(s);
    if (s->kv.n_path == 0 || !pn_disk_find(disk, &origin, s->tokens, s->kv.n_path, &cover)) return;
    add(s, &cover, &origin);
    pn_disk_cover_done(&cover);
}

pn_status pn_session_save(pn_session *s, const char *path, pn_error *err) {
    if (!path) {
        pn_spill_save(s);
        return PN_OK;
    }
    PN_TRY(pn_model_identify(s->model, err));
    pn_kv_publish(&s->kv, s->tokens);
    if (s->kv.n_path == 0)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "the text has %zu tokens whose keys and values can be saved: it takes a block of %d, "
                       "that was not packed to fewer bits since",
                       s->kv.n_tokens, PN_KV_BLOCK);
    pn_kv_snapshot snapshot;
    const pn_kv_origin origin = origin_of(s);
    PN_TRY(take(s, NULL, &snapshot, err));
    const pn_status status = pn_kv_save(&snapshot, &origin, s->tokens, path, false, err);
    pn_kv_snapshot_done(&snapshot);
    return status;
}

/* ---- one file ---- */

static pn_status read_from_file(void *user, size_t block, const pn_kv_block *into, pn_error *err) {
    const pn_kv_file *f = user;
    if (!pn_kv_file_has(f, block, into->lane))
        return pn_fail(err, PN_ERR_ARGUMENT, "the file has a part of a text and cannot be loaded alone");
    return pn_kv_file_read(f, block, into, err);
}

static pn_status check_file(const pn_session *s, const pn_kv_file *f, pn_error *err) {
    const size_t n = f->n_blocks * PN_KV_BLOCK;
    if (f->origin.precision != s->options.precision || f->origin.shape.type != s->kv.store->shape.type)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "the keys and values are of another type or precision than the session's");
    if (n > s->n_ctx)
        return pn_fail(err, PN_ERR_LIMIT,
                       "%zu tokens do not fit the context of %zu: ask for a larger context", n, s->n_ctx);
    for (size_t i = 0; i < n; i++)
        if (f->tokens[i] < 0 || f->tokens[i] >= s->model->decoder->n_vocab)
            return pn_fail(err, PN_ERR_FORMAT, "token %d is outside the vocabulary", (int)f->tokens[i]);
    return PN_OK;
}

static pn_status load(pn_session *s, pn_kv_file *f, pn_error *err) {
    const size_t n = f->n_blocks * PN_KV_BLOCK;
    const pn_kv_reader reader = {read_from_file, f};
    PN_TRY(check_file(s, f, err));
    pn_spill_save(s);
    const pn_status status = pn_kv_restore(&s->kv, &reader, f->n_blocks, f->tokens, n, &s->n_reused, err);
    memcpy(s->tokens, f->tokens, s->n_reused * sizeof *s->tokens);
    s->n_shared = s->n_restored = s->n_reused;
    s->n_prefilled = 0;
    s->logits_valid = false;
    s->pass_first = SIZE_MAX;
    if (status == PN_OK && s->n_reused < n) return pn_fail_memory(err, "keys and values of a text", f->bytes);
    return status;
}

pn_status pn_session_load(pn_session *s, const char *path, pn_tokens *tokens, pn_error *err) {
    PN_TRY(pn_model_identify(s->model, err));
    const pn_kv_origin origin = origin_of(s);
    pn_kv_file file;
    PN_TRY(pn_kv_file_open(path, &origin, &file, err));
    const size_t n = file.n_blocks * PN_KV_BLOCK;
    int32_t *ids = pn_alloc(PN_MEM_OTHER, n, sizeof *ids);
    pn_status status = ids ? load(s, &file, err) : pn_fail_memory(err, "tokens", n * sizeof *ids);
    if (status == PN_OK) {
        memcpy(ids, file.tokens, n * sizeof *ids);
        *tokens = (pn_tokens){ids, n};
    } else {
        if (ids) pn_error_prefix(err, "%s", path);
        pn_free(ids);
    }
    pn_kv_file_close(&file);
    return status;
}
