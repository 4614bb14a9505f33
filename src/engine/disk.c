/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/disk.h"

#include "base/slice.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define DEFAULT_BYTES (UINT64_C(1) << 30)

/* MODEL-TEXT.pnkv, each 16 hexadecimal digits. */
#define SUFFIX   ".pnkv"
#define PARTIAL  ".partial"
#define DIGITS   16
#define NAME_LEN (2 * DIGITS + 1 + sizeof SUFFIX - 1)

/* A file that is known. */
struct entry {
    char *path;
    bool baked;
    pn_precision precision;
    pn_kv_type type;
    size_t n_blocks;
    uint64_t *chain;    /* [n_blocks] */
    unsigned char *has; /* [n_blocks] a bit for each lane */
};

struct pn_disk {
    pthread_mutex_t lock; /* of all that follows but what is there from the start */
    pn_kv_origin origin;
    char *folder; /* NULL: none that works */
    bool adds;
    uint64_t max_bytes;
    pn_note_fn on_note;
    void *user;
    char said[480];        /* the note before */
    struct entry *entries; /* [cap] */
    size_t n, cap;
};

/* ---- notes ---- */

void pn_disk_note(pn_disk *d, const char *fmt, ...) {
    char text[sizeof d->said];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pthread_mutex_lock(&d->lock);
    const bool again = strcmp(text, d->said) == 0; /* as often as a text cannot be saved */
    memcpy(d->said, text, sizeof text);
    pthread_mutex_unlock(&d->lock);
    if (d->on_note && !again) d->on_note(d->user, text);
}

/* ---- entries ---- */

static char *join(const char *folder, const char *name) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    char *joined = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return joined;
}

static void entry_done(struct entry *e) {
    pn_free(e->path);
    pn_free(e->chain);
    pn_free(e->has);
}

static void forget(pn_disk *d, size_t i) {
    entry_done(&d->entries[i]);
    d->entries[i] = d->entries[--d->n];
}

static void forget_path(pn_disk *d, const char *path) {
    for (size_t i = d->n; i-- > 0;)
        if (strcmp(d->entries[i].path, path) == 0) forget(d, i);
}

/* What an open file has. */
static bool describe(const pn_kv_file *file, struct entry *e) {
    e->precision = file->origin.precision;
    e->type = file->origin.shape.type;
    e->n_blocks = file->n_blocks;
    e->chain = pn_alloc(PN_MEM_OTHER, e->n_blocks, sizeof *e->chain);
    e->has = pn_alloc(PN_MEM_OTHER, e->n_blocks, sizeof *e->has);
    if (!e->chain || !e->has) return false;
    pn_kv_chain(file->tokens, e->n_blocks, e->chain);
    for (size_t b = 0; b < e->n_blocks; b++)
        for (int lane = 0; lane < PN_KV_LANES; lane++)
            if (pn_kv_file_has(file, b, (pn_kv_lane)lane)) e->has[b] |= (unsigned char)(1u << lane);
    return true;
}

static bool grow(pn_disk *d) {
    if (d->n < d->cap) return true;
    const size_t cap = d->cap ? 2 * d->cap : 16;
    struct entry *entries = pn_realloc(d->entries, cap, sizeof *entries);
    if (!entries) return false;
    d->entries = entries;
    d->cap = cap;
    return true;
}

/* A file that cannot be known for want of memory is left alone. */
static void know(pn_disk *d, const pn_kv_file *file, const char *path, bool baked) {
    struct entry e = {.path = join(NULL, path), .baked = baked};
    const bool described = e.path && describe(file, &e);
    pthread_mutex_lock(&d->lock);
    if (described) forget_path(d, path);
    if (described && grow(d))
        d->entries[d->n++] = e;
    else
        entry_done(&e);
    pthread_mutex_unlock(&d->lock);
}

static bool is_baked(const pn_disk *d, const char *path) {
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i].baked && strcmp(d->entries[i].path, path) == 0) return true;
    return false;
}

void pn_disk_reject(pn_disk *d, const char *path, const pn_error *why) {
    pthread_mutex_lock(&d->lock);
    const bool baked = is_baked(d, path);
    forget_path(d, path);
    pthread_mutex_unlock(&d->lock);
    if (access(path, F_OK) != 0) return; /* another process needed its room */
    const bool removed =
        !baked && (why->code == PN_ERR_FORMAT || why->code == PN_ERR_ARGUMENT) && unlink(path) == 0;
    pn_disk_note(d, "%s; %s and what it held is computed again", why->message,
                 removed ? "it was removed," : "it is not used,");
}

static bool learn(pn_disk *d, const char *path, bool baked) {
    pn_kv_file file;
    pn_error err = {0};
    if (pn_kv_file_open(path, &d->origin, &file, &err) != PN_OK) {
        if (baked)
            pn_disk_note(d, "%s; it is not used", err.message);
        else
            pn_disk_reject(d, path, &err);
        return false;
    }
    know(d, &file, path, baked);
    pn_kv_file_close(&file);
    return true;
}

/* ---- the folder ---- */

static bool is_hexadecimal(const char *text, size_t n) {
    return strspn(text, "0123456789abcdef") >= n;
}

/* Whether it begins as the name of one of our files, of any model. */
static bool is_ours(const char *name) {
    return strlen(name) >= NAME_LEN && is_hexadecimal(name, DIGITS) && name[DIGITS] == '-' &&
           is_hexadecimal(name + DIGITS + 1, DIGITS) &&
           strncmp(name + 2 * DIGITS + 1, SUFFIX, sizeof SUFFIX - 1) == 0;
}

static bool is_whole(const char *name) {
    return is_ours(name) && name[NAME_LEN] == '\0';
}

static bool is_partial(const char *name) {
    const size_t len = strlen(name);
    return is_ours(name) && len > NAME_LEN + sizeof PARTIAL - 1 &&
           strcmp(name + len - (sizeof PARTIAL - 1), PARTIAL) == 0;
}

/* A process that is writing has a lock; what one has left that was killed is of no use. */
static void clean_up(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path);
    close(fd);
}

static void scan(pn_disk *d, DIR *dir) {
    char mine[DIGITS + 1];
    snprintf(mine, sizeof mine, "%016llx", (unsigned long long)d->origin.model);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const bool partial = is_partial(entry->d_name);
        if (!partial && (!is_whole(entry->d_name) || strncmp(entry->d_name, mine, DIGITS) != 0)) continue;
        char *path = join(d->folder, entry->d_name);
        if (!path) continue;
        if (partial)
            clean_up(path);
        else
            learn(d, path, false);
        pn_free(path);
    }
}

static void open_folder(pn_disk *d) {
    mkdir(d->folder, 0700);
    DIR *dir = opendir(d->folder);
    if (!dir) {
        pn_disk_note(d, "the cache folder %s cannot be opened: %s; nothing is kept there, or found",
                     d->folder, strerror(errno));
        pn_free(d->folder);
        d->folder = NULL;
        return;
    }
    d->adds = access(d->folder, W_OK) == 0;
    if (!d->adds)
        pn_disk_note(d, "the cache folder %s cannot be written: %s; what is there is used, nothing is added",
                     d->folder, strerror(errno));
    scan(d, dir);
    closedir(dir);
}

pn_status pn_disk_open(const pn_model_options *o, uint64_t model, const pn_kv_shape *shape, pn_disk **out,
                       pn_error *err) {
    *out = NULL;
    if (!o->cache_dir && !o->baked) return PN_OK;
    pn_disk *d = pn_alloc(PN_MEM_OTHER, 1, sizeof *d);
    if (!d || pthread_mutex_init(&d->lock, NULL) != 0) {
        pn_free(d);
        return pn_fail_memory(err, "cache on disk", sizeof *d);
    }
    d->origin = (pn_kv_origin){.model = model, .shape = *shape};
    d->max_bytes = o->cache_dir_bytes ? o->cache_dir_bytes : DEFAULT_BYTES;
    d->on_note = o->on_note;
    d->user = o->note_user;
    d->folder = o->cache_dir ? join(NULL, o->cache_dir) : NULL;
    if (o->cache_dir && !d->folder) {
        pn_disk_free(d);
        return pn_fail_memory(err, "name of the cache folder", strlen(o->cache_dir));
    }
    if (d->folder) open_folder(d);
    if (o->baked) learn(d, o->baked, true);
    *out = d;
    return PN_OK;
}

void pn_disk_free(pn_disk *d) {
    if (!d) return;
    while (d->n > 0)
        forget(d, 0);
    pn_free(d->entries);
    pn_free(d->folder);
    pthread_mutex_destroy(&d->lock);
    pn_free(d);
}

bool pn_disk_adds(const pn_disk *d) {
    return d->folder && d->adds;
}

size_t pn_disk_baked(pn_disk *d, pn_kv_type type, pn_precision precision, bool *other) {
    size_t n = 0;
    bool differs = false;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->n; i++) {
        const struct entry *e = &d->entries[i];
        if (!e->baked) continue;
        differs = e->type != type || e->precision != precision;
        n = differs ? 0 : e->n_blocks * PN_KV_BLOCK;
    }
    pthread_mutex_unlock(&d->lock);
    if (other) *other = differs;
    return n;
}

/* ---- finding ---- */

/* How many blocks a text and a file have in common. */
static size_t common_blocks(const struct entry *e, const uint64_t *chain, size_t n) {
    size_t same = 0, beyond = (e->n_blocks < n ? e->n_blocks : n) + 1;
    while (beyond - same > 1) { /* where one block differs, so do all hashes after it */
        const size_t middle = same + (beyond - same) / 2;
        if (e->chain[middle - 1] == chain[middle - 1])
            same = middle;
        else
            beyond = middle;
    }
    return same;
}

static bool include(pn_disk_cover *c, const struct entry *e) {
    const char *path = NULL;
    const size_t n = common_blocks(e, c->chain, c->n_blocks);
    for (size_t i = 0; i < n * PN_KV_LANES; i++) {
        if (c->paths[i] || !(e->has[i / PN_KV_LANES] & 1u << i % PN_KV_LANES)) continue;
        if (!path) path = pn_arena_copy(&c->arena, e->path, strlen(e->path));
        if (!path) return false;
        c->paths[i] = path;
    }
    if (n > 0 && n < c->n_blocks && n < e->n_blocks) c->parted[n - 1] = true;
    return true;
}

static bool has_lane_from(const pn_disk_cover *c, size_t first, size_t n, size_t lane) {
    for (size_t b = first; b < n; b++)
        if (!c->paths[b * PN_KV_LANES + lane]) return false;
    return true;
}

static bool resumable(const pn_disk_cover *c, const pn_kv_shape *shape, size_t n) {
    for (int lane = 0; lane < PN_KV_LANES; lane++) {
        if (!pn_kv_has_lane(shape, (pn_kv_lane)lane)) continue;
        if (!has_lane_from(c, pn_kv_first_seen(shape, (pn_kv_lane)lane, n), n, (size_t)lane)) return false;
    }
    return true;
}

static bool find(pn_disk *d, const pn_kv_origin *origin, pn_disk_cover *c) {
    bool whole = true;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->n && whole; i++) {
        const struct entry *e = &d->entries[i];
        if (e->type == origin->shape.type && e->precision == origin->precision) whole = include(c, e);
    }
    pthread_mutex_unlock(&d->lock);
    return whole;
}

bool pn_disk_find(pn_disk *d, const pn_kv_origin *origin, const int32_t *tokens, size_t n_blocks,
                  pn_disk_cover *out) {
    pn_disk_cover c = {.n_blocks = n_blocks};
    pn_arena_init(&c.arena, 0);
    c.chain = pn_arena_alloc(&c.arena, n_blocks * sizeof *c.chain);
    c.paths = pn_arena_alloc(&c.arena, n_blocks * PN_KV_LANES * sizeof *c.paths);
    c.parted = pn_arena_alloc(&c.arena, n_blocks * sizeof *c.parted);
    if (c.chain && c.paths && c.parted) {
        pn_kv_chain(tokens, n_blocks, c.chain);
        if (find(d, origin, &c)) {
            c.n_resumable = n_blocks;
            while (!resumable(&c, &origin->shape, c.n_resumable))
                c.n_resumable--;
            *out = c;
            return true;
        }
    }
    pn_arena_done(&c.arena);
    return false;
}

void pn_disk_cover_done(pn_disk_cover *c) {
    pn_arena_done(&c->arena);
    *c = (pn_disk_cover){0};
}

void pn_disk_touch(const pn_disk_cover *c, size_t n_blocks) {
    struct timespec now[2];
    const char *last = NULL;
    if (clock_gettime(CLOCK_REALTIME, &now[0]) != 0) return;
    for (size_t i = n_blocks * PN_KV_LANES; i-- > 0;) {
        if (!c->paths[i] || c->paths[i] == last) continue;
        last = c->paths[i];
        if (now[0].tv_nsec < 999999999) now[0].tv_nsec++; /* what later ones build on goes after them */
        now[1] = now[0];
        utimensat(AT_FDCWD, last, now, 0);
    }
}

/* ---- adding ---- */

/* A file of the folder, of any model. */
struct stored {
    char name[NAME_LEN + 1];
    uint64_t bytes;
    struct timespec used;
};

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const struct stored *)a)->used, *y = &((const struct stored *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* The files, least recently used first; for pn_free. NULL when the folder cannot be read. */
static struct stored *list(const pn_disk *d, size_t *n_files) {
    size_t n = 0, cap = 64;
    struct stat st;
    struct stored *files = pn_alloc(PN_MEM_OTHER, cap, sizeof *files), *more;
    DIR *dir = files ? opendir(d->folder) : NULL;
    if (!dir) {
        pn_free(files);
        return NULL;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!is_whole(entry->d_name) || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (n == cap) {
            more = pn_realloc(files, 2 * cap, sizeof *files);
            if (!more) break; /* what was seen counts */
            files = more;
            cap *= 2;
        }
        files[n] = (struct stored){.bytes = (uint64_t)st.st_size, .used = st.st_mtim};
        memcpy(files[n++].name, entry->d_name, NAME_LEN + 1);
    }
    closedir(dir);
    qsort(files, n, sizeof *files, by_use);
    *n_files = n;
    return files;
}

static bool remove_file(pn_disk *d, const char *name) {
    char *path = join(d->folder, name);
    if (!path) return false;
    const bool removed = unlink(path) == 0 || errno == ENOENT;
    pthread_mutex_lock(&d->lock);
    if (removed) forget_path(d, path);
    pthread_mutex_unlock(&d->lock);
    pn_free(path);
    return removed;
}

/* Whether so many bytes fit, after others were removed for them. */
static bool make_room(pn_disk *d, uint64_t bytes) {
    size_t n;
    uint64_t sum = bytes;
    if (bytes > d->max_bytes) {
        pn_disk_note(d, "a text of %.1f MiB of keys and values is not kept: %s may hold %.1f MiB",
                     (double)bytes / (1 << 20), d->folder, (double)d->max_bytes / (1 << 20));
        return false;
    }
    struct stored *files = list(d, &n);
    if (!files) return true; /* writing will tell */
    for (size_t i = 0; i < n; i++)
        sum += files[i].bytes;
    for (size_t i = 0; i < n && sum > d->max_bytes; i++)
        if (remove_file(d, files[i].name)) sum -= files[i].bytes;
    pn_free(files);
    return sum <= d->max_bytes;
}

/* Of the tokens, and of which of their blocks there are. */
static uint64_t text_hash(const pn_kv_snapshot *s, const pn_kv_origin *origin, uint64_t tokens) {
    uint64_t hash = XXH3_64bits_withSeed(&origin->precision, sizeof origin->precision, tokens);
    hash = XXH3_64bits_withSeed(&origin->shape.type, sizeof origin->shape.type, hash);
    for (size_t i = 0; i < s->n_blocks * PN_KV_LANES; i++)
        if (s->blocks[i]) hash = XXH3_64bits_withSeed(&i, sizeof i, hash);
    return hash;
}

void pn_disk_add(pn_disk *d, const pn_kv_snapshot *s, const pn_kv_origin *origin, const int32_t *tokens,
                 const uint64_t *chain) {
    char name[NAME_LEN + 1];
    pn_error err = {0};
    if (!make_room(d, pn_kv_save_bytes(s))) return;
    snprintf(name, sizeof name, "%016llx-%016llx" SUFFIX, (unsigned long long)origin->model,
             (unsigned long long)text_hash(s, origin, chain[s->n_blocks - 1]));
    char *path = join(d->folder, name);
    if (path && pn_kv_save(s, origin, tokens, path, true, &err) == PN_OK)
        learn(d, path, false);
    else if (path)
        pn_disk_note(d, "%s; the text is not kept", err.message);
    pn_free(path);
}
