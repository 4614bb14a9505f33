/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/journal.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct pn_journal {
    char *path;
    pn_key key;
    pn_map map;   /* what an earlier run left; data NULL: nothing */
    bool is_ours; /* of this result */
    int fd;       /* -1: not begun, or it cannot be written */
};

/* ---- lines ---- */

/* The line at *at, which is moved behind it; false: there is no whole one. */
static bool next_line(const pn_journal *j, size_t *at, pn_str *line) {
    const char *text = (const char *)j->map.data + *at;
    const char *end = *at < j->map.len ? memchr(text, '\n', (size_t)j->map.len - *at) : NULL;
    if (!end) return false;
    *line = (pn_str){text, (size_t)(end - text)};
    *at += line->len + 1;
    return true;
}

static void write_line(pn_journal *j, const char *text, size_t len) {
    if (j->fd < 0) return;
    if (write(j->fd, text, len) == (ssize_t)len && write(j->fd, "\n", 1) == 1) return;
    close(j->fd);
    j->fd = -1;
}

/* ---- life ---- */

static char *path_of(const char *out_path) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s.journal.partial", out_path);
    char *path = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return path;
}

pn_status pn_journal_open(const char *out_path, const pn_job *job, pn_journal **out, pn_error *err) {
    pn_journal *j = pn_alloc(PN_MEM_OTHER, 1, sizeof *j);
    if (!j) return pn_fail_memory(err, "journal", sizeof *j);
    *j = (pn_journal){.path = path_of(out_path), .key = pn_statistics_key(job, true), .fd = -1};
    if (!j->path) {
        pn_journal_close(j, false);
        return pn_fail_memory(err, "file name", strlen(out_path));
    }
    if (pn_map_open(j->path, &j->map, NULL) != PN_OK) j->map = (pn_map){0};
    *out = j;
    return PN_OK;
}

void pn_journal_close(pn_journal *j, bool done) {
    if (!j) return;
    if (j->fd >= 0) close(j->fd);
    if (j->map.data) pn_map_close(&j->map);
    if (done && j->path) unlink(j->path);
    pn_free(j->path);
    pn_free(j);
}

/* ---- statistics ---- */

/* The choice that a line is about; NULL: none. */
static pn_choice *choice_of(const pn_job *job, const json_t *line) {
    const json_t *index = json_object_get(line, "tensor");
    const json_int_t i = json_integer_value(index);
    if (!json_is_integer(index) || i < 0 || (uint64_t)i >= job->choices.n) return NULL;
    return &job->choices.items[i];
}

static void take_gain(pn_job *job, const json_t *line) {
    const json_t *gain = json_object_get(line, "gain");
    pn_choice *c = choice_of(job, line);
    if (!c || !json_is_number(gain)) return;
    c->gain = json_number_value(gain);
    c->measured = true;
}

/* Calls fn with every line behind the first that is JSON. */
static void for_lines(const pn_journal *j, pn_job *job, void (*fn)(pn_job *job, const json_t *line)) {
    pn_str line;
    size_t at = 0;
    if (!j->is_ours || !next_line(j, &at, &line)) return;
    while (next_line(j, &at, &line)) {
        json_t *object = json_loadb(line.data, line.len, 0, NULL);
        if (object) fn(job, object);
        json_decref(object);
    }
}

void pn_journal_take(pn_journal *j, pn_job *job) {
    pn_str line;
    size_t at = 0;
    j->is_ours = next_line(j, &at, &line) && pn_statistics_take(job, &j->key, line.data, line.len);
    for_lines(j, job, take_gain);
}

void pn_journal_begin(pn_journal *j, const pn_job *job) {
    size_t len;
    if (j->is_ours) {
        j->fd = open(j->path, O_WRONLY | O_APPEND | O_CLOEXEC);
        write_line(j, "", 0); /* ends a line that a kill cut off */
        return;
    }
    unlink(j->path);
    j->fd = open(j->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    char *text = pn_statistics_text(job, &j->key, &len);
    if (text) write_line(j, text, len);
    pn_free(text);
}

/* ---- tensors ---- */

static void write_object(pn_journal *j, json_t *object) {
    char text[512];
    const size_t len = object ? json_dumpb(object, text, sizeof text, JSON_COMPACT) : 0;
    if (len > 0 && len <= sizeof text) write_line(j, text, len);
    json_decref(object);
}

static json_int_t index_of(const pn_job *job, const pn_choice *c) {
    return (json_int_t)(c - job->choices.items);
}

void pn_journal_note_gain(pn_journal *j, const pn_job *job, const pn_choice *c) {
    write_object(j, json_pack("{s:I, s:f}", "tensor", index_of(job, c), "gain", c->gain));
}

static uint64_t hash_of(const void *bytes, size_t n) {
    return XXH3_64bits(bytes, n);
}

void pn_journal_note(pn_journal *j, const pn_job *job, const pn_choice *c, const void *bytes) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_of(bytes, (size_t)pn_choice_bytes(c)));
    json_t *object =
        json_pack("{s:I, s:s, s:f, s:f, s:b}", "tensor", index_of(job, c), "hash", hash, "error", c->error,
                  "output_error", c->output_error, "changed", (int)(c->changed != NULL));
    if (object && c->method) json_object_set_new(object, "method", json_string(c->method));
    if (object && c->why) json_object_set_new(object, "why", json_string(c->why));
    write_object(j, object);
}

static const char *kept_text(pn_job *job, const json_t *text) {
    const char *value = json_string_value(text);
    return value ? pn_arena_copy(&job->texts, value, json_string_length(text)) : NULL;
}

/* Whether the file holds what the line says; it is then marked. */
static void restore_tensor(pn_job *job, const json_t *line) {
    uint8_t *bytes = job->packed[1];
    const char *hash = json_string_value(json_object_get(line, "hash"));
    char found[24];
    pn_choice *c = choice_of(job, line);
    if (!c || !hash) return;
    const size_t i = (size_t)index_of(job, c);
    const size_t n = (size_t)pn_choice_bytes(c);
    if (c->written || !pn_gguf_writer_read(job->out, i, bytes)) return;
    snprintf(found, sizeof found, "%016llx", (unsigned long long)hash_of(bytes, n));
    if (strcmp(found, hash) != 0) return;
    if (json_is_true(json_object_get(line, "changed"))) {
        c->changed = pn_alloc(PN_MEM_OTHER, n, 1);
        if (!c->changed) return;
        memcpy(c->changed, bytes, n);
    }
    c->error = json_number_value(json_object_get(line, "error"));
    c->output_error = json_number_value(json_object_get(line, "output_error"));
    c->method = kept_text(job, json_object_get(line, "method"));
    if (c->changed) c->why = kept_text(job, json_object_get(line, "why"));
    c->written = true;
    pn_gguf_writer_take(job->out, i);
    job->n_resumed++;
    pn_job_progress(job, c);
}

void pn_journal_restore(pn_journal *j, pn_job *job) {
    for_lines(j, job, restore_tensor);
}
