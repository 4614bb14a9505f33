/* SPDX-License-Identifier: Apache-2.0 */
/* A cache folder for each test, what is said of it, and texts whose logits are known. */
#ifndef SUPPORT_CACHE_FOLDER_H
#define SUPPORT_CACHE_FOLDER_H

#include "support/check.h"
#include "support/tiny_models.h"

#include "kv/layout.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG = 200, WHOLE = LONG / PN_KV_BLOCK * PN_KV_BLOCK };

/* ---- a folder for each test, and what is said ---- */

static char folder[64], notes[4096];
static size_t n_notes;

static void on_note(void *user, const char *message) {
    (void)user;
    const size_t len = strlen(notes);
    snprintf(notes + len, sizeof notes - len, "%s\n", message);
    n_notes++;
}

static void forget_notes(void) {
    notes[0] = '\0';
    n_notes = 0;
}

static int setup(void **state) {
    (void)state;
    forget_notes();
    snprintf(folder, sizeof folder, "/tmp/postern-disk-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Calls fn for every file, and returns how many there are. */
static size_t each_file(void (*fn)(const char *path, void *user), void *user) {
    size_t n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[400];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        n++;
        if (fn) fn(path, user);
    }
    closedir(dir);
    return n;
}

static void remove_one(const char *path, void *user) {
    (void)user;
    unlink(path);
}

static int teardown(void **state) {
    (void)state;
    chmod(folder, 0700);
    each_file(remove_one, NULL);
    return rmdir(folder);
}

static void add_size(const char *path, void *user) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    *(uint64_t *)user += (uint64_t)st.st_size;
}

/* ---- models and texts ---- */

static pn_model *open_cached(const char *path, uint64_t max_bytes, const char *baked) {
    pn_model *model = NULL;
    pn_error err;
    const pn_model_options options = {.n_threads = 1,
                                      .no_probe = true,
                                      .prefix_cache = 1 << 24,
                                      .cache_dir = folder,
                                      .cache_dir_bytes = max_bytes,
                                      .baked = baked,
                                      .on_note = on_note};
    if (pn_model_open(path, &options, &model, &err) != PN_OK) fail_msg("%s", err.message);
    return model;
}

/* Texts of different variants have their first COMMON tokens in common. */
enum { COMMON = 130 };
static void make_text(int32_t tokens[LONG], int n_vocab, int variant) {
    for (int i = 0; i < LONG; i++)
        tokens[i] = 10 + (i * 37 + i * i + (i < COMMON ? 0 : variant)) % (n_vocab - 10);
}

struct wanted {
    int n_vocab;
    int32_t tokens[LONG];
    float *logits; /* [n_vocab] after the whole text, of a model that keeps nothing */
};

static struct wanted want_of(const char *path, const pn_session_options *o, int variant) {
    pn_model *model = open_model(path, 1);
    struct wanted w = {.n_vocab = n_vocab_of(model)};
    make_text(w.tokens, w.n_vocab, variant);
    w.logits = malloc((size_t)w.n_vocab * sizeof *w.logits);
    pn_session *s = open_session_with(model, *o);
    assert_int_equal(pn_session_sync(s, w.tokens, LONG, NULL, NULL, NULL), PN_OK);
    memcpy(w.logits, pn_session_logits(s), (size_t)w.n_vocab * sizeof *w.logits);
    pn_session_free(s);
    pn_model_close(model);
    return w;
}

/* Computes the text in a session of a model and compares. Returns how many tokens came from disk. */
static size_t compare_in(pn_model *model, const pn_session_options *o, const struct wanted *w) {
    pn_session *s = open_session_with(model, *o);
    pn_session_stats stats;
    assert_int_equal(pn_session_sync(s, w->tokens, LONG, NULL, NULL, NULL), PN_OK);
    pn_session_get_stats(s, &stats);
    assert_int_equal(stats.n_reused + stats.n_prefilled, LONG);
    assert_true(stats.n_restored <= stats.n_shared);
    assert_memory_equal(pn_session_logits(s), w->logits, (size_t)w->n_vocab * sizeof *w->logits);
    pn_session_free(s);
    return stats.n_restored;
}

/* ---- main ---- */

/* What the library notes for the next time goes to a folder of the test's own. */
static char notes_folder[64];

static bool own_notes(void) {
    snprintf(notes_folder, sizeof notes_folder, "/tmp/postern-cache-XXXXXX");
    return mkdtemp(notes_folder) && setenv("XDG_CACHE_HOME", notes_folder, 1) == 0;
}

static int remove_notes(int result) {
    static const char *const names[] = {"/postern/models", "/postern/threads", "/postern", ""};
    char path[100];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s%s", notes_folder, names[i]);
        remove(path);
    }
    return result;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
