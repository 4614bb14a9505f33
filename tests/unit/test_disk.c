/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values that outlive a process: found again, bit for bit, or not at all. */
#include "support/cache_folder.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "kv/disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static size_t n_files(void) {
    return each_file(NULL, NULL);
}

static void expect_note(const char *part) {
    if (!strstr(notes, part)) fail_msg("no note says \"%s\" but:\n%s", part, notes);
    forget_notes();
}

static void copy_path(const char *path, void *user) {
    strcpy(user, path);
}

/* The only one. */
static void path_of_file(char path[400]) {
    assert_int_equal(each_file(copy_path, path), 1);
}

static unsigned char *read_all(const char *path, size_t *n) {
    struct stat st;
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    unsigned char *bytes = malloc((size_t)st.st_size);
    *n = (size_t)st.st_size;
    assert_int_equal(read(fd, bytes, *n), *n);
    close(fd);
    return bytes;
}

static void write_all(const char *path, const void *bytes, size_t n) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static void check_in(pn_model *model, const pn_session_options *o, const struct wanted *w,
                     size_t n_restored) {
    assert_int_equal(compare_in(model, o, w), n_restored);
}

/* As a process that begins and ends. */
static void check_run(const char *path, const pn_session_options *o, const struct wanted *w,
                      size_t n_restored) {
    pn_model *model = open_cached(path, 0, NULL);
    check_in(model, o, w, n_restored);
    pn_model_close(model);
}

/* ---- found again ---- */

static void check_restart(const char *path, pn_kv_type type, pn_precision precision) {
    const pn_session_options one = {.n_ctx = LONG, .n_chunk = 48, .kv_type = type, .precision = precision};
    pn_session_options other = one;
    other.n_chunk = 17;
    struct wanted w = want_of(path, &one, 0);
    check_run(path, &one, &w, 0);
    check_run(path, &other, &w, WHOLE);
    assert_int_equal(n_files(), 1); /* nothing was new */
    free(w.logits);
    each_file(remove_one, NULL);
}

static void texts_are_found_after_a_restart(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++)
        for (int type = 0; type < PN_KV_TYPE_COUNT; type++)
            check_restart(paths[p], (pn_kv_type)type, PN_PRECISION_HIGH);
    check_restart(CODED, PN_KV_F16, PN_PRECISION_FAST);
    check_restart(CODED, PN_KV_F16, PN_PRECISION_EXACT);
    assert_int_equal(n_notes, 0);
}

static void without_room_in_memory_too(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        const pn_session_options o = {.n_ctx = LONG, .n_chunk = 32};
        const pn_model_options options = {
            .n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF, .cache_dir = folder, .on_note = on_note};
        struct wanted w = want_of(paths[p], &o, 0), v = want_of(paths[p], &o, 1);
        pn_model *model = NULL;
        assert_int_equal(pn_model_open(paths[p], &options, &model, NULL), PN_OK);
        check_in(model, &o, &w, 0);
        check_in(model, &o, &v, p == 1 ? 0 : 128); /* of windowed layers, the end alone is kept */
        check_in(model, &o, &w, WHOLE);
        check_in(model, &o, &v, WHOLE);
        pn_model_close(model);
        assert_int_equal(n_notes, 0);
        each_file(remove_one, NULL);
        free(w.logits);
        free(v.logits);
    }
}

static void precision_type_and_model_must_be_the_same(void **state) {
    (void)state;
    const pn_session_options high = {.n_ctx = LONG}, fast = {.n_ctx = LONG, .precision = PN_PRECISION_FAST},
                             q8 = {.n_ctx = LONG, .kv_type = PN_KV_Q8};
    struct wanted w = want_of(CODED, &high, 0), of_fast = want_of(CODED, &fast, 0),
                  of_q8 = want_of(CODED, &q8, 0), of_llama = want_of(LLAMA, &high, 0);
    check_run(CODED, &high, &w, 0);
    check_run(CODED, &fast, &of_fast, 0);
    check_run(CODED, &q8, &of_q8, 0);
    check_run(LLAMA, &high, &of_llama, 0);
    assert_int_equal(n_files(), 4);
    check_run(CODED, &high, &w, WHOLE);
    check_run(CODED, &fast, &of_fast, WHOLE);
    check_run(CODED, &q8, &of_q8, WHOLE);
    check_run(LLAMA, &high, &of_llama, WHOLE);
    assert_int_equal(n_files(), 4);
    free(w.logits);
    free(of_fast.logits);
    free(of_q8.logits);
    free(of_llama.logits);
}

/* A text that goes on adds what is new, and one that goes another way has what both have in common. */
static void only_what_is_new_is_written(void **state) {
    (void)state;
    const pn_session_options o = {.n_ctx = LONG, .n_chunk = 32};
    struct wanted w = want_of(LLAMA, &o, 0), v = want_of(LLAMA, &o, 1);
    uint64_t first = 0, both = 0, all = 0;
    pn_session_stats stats;
    pn_model *model = open_cached(LLAMA, 0, NULL);
    pn_session *s = open_session_with(model, o);
    assert_int_equal(pn_session_sync(s, w.tokens, 70, NULL, NULL, NULL), PN_OK);
    assert_int_equal(pn_session_save(s, NULL, NULL), PN_OK);
    each_file(add_size, &first);
    assert_int_equal(pn_session_sync(s, w.tokens, LONG, NULL, NULL, NULL), PN_OK);
    pn_session_free(s);
    pn_model_close(model);
    assert_int_equal(each_file(add_size, &both), 2);
    assert_true(both > 2 * first && both < 4 * first);
    check_run(LLAMA, &o, &v, 128);
    assert_int_equal(each_file(add_size, &all), 3);
    assert_true(all - both < 2 * first);
    check_run(LLAMA, &o, &v, WHOLE);
    check_run(LLAMA, &o, &w, WHOLE);
    model = open_cached(LLAMA, 0, NULL); /* what memory has is not read again */
    s = open_session_with(model, o);
    assert_int_equal(pn_session_sync(s, w.tokens, COMMON, NULL, NULL, NULL), PN_OK);
    assert_int_equal(pn_session_sync(s, v.tokens, LONG, NULL, NULL, NULL), PN_OK);
    pn_session_get_stats(s, &stats);
    assert_int_equal(stats.n_reused, WHOLE);
    assert_int_equal(stats.n_restored, WHOLE - COMMON);
    assert_memory_equal(pn_session_logits(s), v.logits, (size_t)v.n_vocab * sizeof *v.logits);
    pn_session_free(s);
    pn_model_close(model);
    free(w.logits);
    free(v.logits);
}

/* Of windowed layers the end of a text is kept, and, once texts have parted, what a third one needs there. */
static void windows_are_kept_where_texts_part(void **state) {
    (void)state;
    const pn_session_options o = {.n_ctx = LONG, .n_chunk = 32};
    struct wanted w[3];
    for (int i = 0; i < 3; i++)
        w[i] = want_of(GEMMA, &o, i);
    check_run(GEMMA, &o, &w[0], 0);
    check_run(GEMMA, &o, &w[1], 0);
    check_run(GEMMA, &o, &w[2], 128);
    for (int i = 0; i < 3; i++) {
        check_run(GEMMA, &o, &w[i], WHOLE);
        free(w[i].logits);
    }
}

/* ---- one file by name ---- */

static void baked_texts_are_found(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        char path[400];
        const pn_session_options o = {.n_ctx = LONG}, q8 = {.n_ctx = LONG, .kv_type = PN_KV_Q8};
        struct wanted w = want_of(paths[p], &o, 0), of_q8 = want_of(paths[p], &q8, 0);
        snprintf(path, sizeof path, "%s/baked.kv", folder);
        pn_model *model = open_model(paths[p], 1);
        pn_session *s = open_session_with(model, o);
        pn_session_stats stats;
        pn_error err;
        assert_int_equal(pn_session_sync(s, w.tokens, 63, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_save(s, path, &err), PN_ERR_ARGUMENT);
        assert_int_equal(pn_session_sync(s, w.tokens, 150, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_save(s, "/nowhere/at/all", &err), PN_ERR_IO);
        assert_int_equal(pn_session_save(s, path, &err), PN_OK);
        pn_session_free(s);
        pn_model_close(model);
        model = open_cached(paths[p], 0, path);
        s = open_session_with(model, o);
        pn_session_get_stats(s, &stats);
        assert_int_equal(stats.n_baked, 128);
        pn_session_free(s);
        check_in(model, &o, &w, 128);
        assert_int_equal(n_notes, 0);
        check_in(model, &q8, &of_q8, 0);
        expect_note("another KV type");
        pn_model_close(model);
        model = open_cached(p == 0 ? GEMMA : LLAMA, 0, path);
        expect_note("another model");
        pn_model_close(model);
        assert_int_equal(access(path, F_OK), 0); /* what the user gave is not removed */
        each_file(remove_one, NULL);
        free(w.logits);
        free(of_q8.logits);
    }
}

static void sessions_are_saved_and_loaded(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PATHS; p++) {
        char path[400];
        const pn_session_options o = {.n_ctx = LONG + 8}, small = {.n_ctx = 100};
        struct wanted w = want_of(paths[p], &o, 0);
        pn_tokens tokens = {0};
        pn_error err;
        snprintf(path, sizeof path, "%s/session", folder);
        pn_model *model = open_model(paths[p], 1);
        pn_session *s = open_session_with(model, o);
        assert_int_equal(pn_session_load(s, path, &tokens, &err), PN_ERR_IO);
        assert_int_equal(pn_session_sync(s, w.tokens, LONG, NULL, NULL, NULL), PN_OK);
        assert_int_equal(pn_session_save(s, path, NULL), PN_OK);
        pn_session_free(s);
        pn_model_close(model);
        model = open_model(paths[p], 1);
        s = open_session_with(model, small);
        assert_int_equal(pn_session_load(s, path, &tokens, &err), PN_ERR_LIMIT);
        pn_session_free(s);
        s = open_session_with(model, o);
        assert_int_equal(pn_session_load(s, path, &tokens, &err), PN_OK);
        assert_int_equal(tokens.n, WHOLE);
        assert_memory_equal(tokens.ids, w.tokens, WHOLE * sizeof *w.tokens);
        assert_null(pn_session_logits(s));
        assert_int_equal(pn_session_sync(s, w.tokens, LONG, NULL, NULL, NULL), PN_OK);
        pn_session_stats stats;
        pn_session_get_stats(s, &stats);
        assert_int_equal(stats.n_reused, WHOLE);
        assert_memory_equal(pn_session_logits(s), w.logits, (size_t)w.n_vocab * sizeof *w.logits);
        pn_tokens_free(&tokens);
        pn_session_free(s);
        pn_model_close(model);
        unlink(path);
        free(w.logits);
    }
}

/* ---- damage ---- */

/* Every byte counts: a file in which one is another is refused, and so is one that is cut off or longer. */
static void no_damage_passes(void **state) {
    (void)state;
    char path[400];
    size_t n;
    const pn_session_options o = {.n_ctx = LONG};
    struct wanted w = want_of(GEMMA, &o, 0);
    pn_tokens tokens = {0};
    pn_error err;
    snprintf(path, sizeof path, "%s/session", folder);
    pn_model *model = open_model(GEMMA, 1);
    pn_session *s = open_session_with(model, o);
    assert_int_equal(pn_session_sync(s, w.tokens, 2 * PN_KV_BLOCK, NULL, NULL, NULL), PN_OK);
    assert_int_equal(pn_session_save(s, path, NULL), PN_OK);
    unsigned char *bytes = read_all(path, &n);
    pn_session_free(s);
    pn_model_close(model);
    pn_model_options options = {.n_threads = 1, .prefix_cache = PN_PREFIX_CACHE_OFF};
    assert_int_equal(pn_model_open(GEMMA, &options, &model, NULL), PN_OK);
    s = open_session_with(model, o);
    for (size_t i = 0; i < n; i += i < 4096 ? 1 : 97) {
        const unsigned char was = bytes[i];
        bytes[i] = (unsigned char)(was ^ (1u << i % 8));
        write_all(path, bytes, n);
        bytes[i] = was;
        const pn_status status = pn_session_load(s, path, &tokens, &err);
        if (status != PN_ERR_FORMAT && status != PN_ERR_UNSUPPORTED && status != PN_ERR_ARGUMENT)
            fail_msg("byte %zu of %zu: status %d", i, n, (int)status);
        assert_non_null(strstr(err.message, path));
    }
    for (size_t len = 0; len < n; len += len < 2048 ? 1 : 331) {
        write_all(path, bytes, len);
        assert_int_equal(pn_session_load(s, path, &tokens, &err), PN_ERR_FORMAT);
    }
    unsigned char *longer = calloc(1, n + 1);
    memcpy(longer, bytes, n);
    write_all(path, longer, n + 1);
    assert_int_equal(pn_session_load(s, path, &tokens, &err), PN_ERR_FORMAT);
    write_all(path, bytes, n);
    assert_int_equal(pn_session_load(s, path, &tokens, &err), PN_OK);
    assert_int_equal(pn_session_sync(s, w.tokens, LONG, NULL, NULL, NULL), PN_OK);
    assert_memory_equal(pn_session_logits(s), w.logits, (size_t)w.n_vocab * sizeof *w.logits);
    pn_tokens_free(&tokens);
    pn_session_free(s);
    pn_model_close(model);
    free(longer);
    free(bytes);
    free(w.logits);
}

/* Of a cache it is removed with a note, and the text is computed; what is left is used. */
static void damaged_files_are_dropped(void **state) {
    (void)state;
    char path[400], renamed[500];
    size_t n;
    const pn_session_options o = {.n_ctx = LONG};
    struct wanted w = want_of(LLAMA, &o, 0);
    check_run(LLAMA, &o, &w, 0);
    path_of_file(path);
    unsigned char *bytes = read_all(path, &n);
    static const size_t places[] = {0, 5, 9, 70, 1000};
    for (size_t i = 0; i <= sizeof places / sizeof places[0]; i++) {
        const size_t at = i < sizeof places / sizeof places[0] ? places[i] : n - 1;
        bytes[at] ^= 4;
        write_all(path, bytes, n);
        bytes[at] ^= 4;
        check_run(LLAMA, &o, &w, 0);
        if (at == 5) { /* a later version may know what to do with it */
            expect_note("version");
            continue;
        }
        expect_note("removed");
        check_run(LLAMA, &o, &w, WHOLE); /* it was written again */
    }
    write_all(path, bytes, n / 2);
    check_run(LLAMA, &o, &w, 0);
    expect_note("damaged");
    check_run(LLAMA, &o, &w, WHOLE);
    path_of_file(path);
    snprintf(renamed, sizeof renamed, "%s/%016x%s", folder, 0, strrchr(path, '/') + 17);
    assert_int_equal(rename(path, renamed), 0); /* as if another model's */
    check_run(LLAMA, &o, &w, 0);
    assert_int_equal(n_files(), 2);
    assert_int_equal(rename(renamed, path), 0);
    check_run(LLAMA, &o, &w, WHOLE);
    assert_int_equal(n_notes, 0);
    pn_model *model = open_cached(LLAMA, 0, NULL); /* damaged once the head is known */
    bytes[n - 1] ^= 1;
    write_all(path, bytes, n);
    check_in(model, &o, &w, 0);
    expect_note("checksum");
    check_in(model, &o, &w, 0); /* memory has it */
    pn_model_close(model);
    model = open_cached(LLAMA, 0, NULL);
    each_file(remove_one, NULL); /* by another process that needed the room */
    check_in(model, &o, &w, 0);
    pn_model_close(model);
    assert_int_equal(n_notes, 0);
    free(bytes);
    free(w.logits);
}

static void what_was_not_finished_is_cleaned_up(void **state) {
    (void)state;
    char path[400], partial[500], foreign[400];
    const pn_session_options o = {.n_ctx = LONG};
    struct wanted w = want_of(LLAMA, &o, 0);
    check_run(LLAMA, &o, &w, 0);
    path_of_file(path);
    snprintf(partial, sizeof partial, "%s.123-0.partial", path);
    snprintf(foreign, sizeof foreign, "%s/notes.partial", folder);
    write_all(partial, "PNKV", 4);
    write_all(foreign, "mine", 4);
    check_run(LLAMA, &o, &w, WHOLE);
    assert_int_equal(access(partial, F_OK), -1);
    assert_int_equal(access(foreign, F_OK), 0);
    free(w.logits);
}

/* ---- limits ---- */

static void the_least_recently_used_goes_first(void **state) {
    (void)state;
    const pn_session_options o = {.n_ctx = LONG};
    struct wanted w[3];
    uint64_t one = 0, all = 0;
    for (int i = 0; i < 3; i++) {
        w[i] = want_of(LLAMA, &o, i);
        for (int j = 0; j < LONG; j++) /* nothing in common */
            w[i].tokens[j] = 10 + (w[i].tokens[j] + 7 * i * (j + 1)) % (w[i].n_vocab - 10);
    }
    pn_model *model = open_model(LLAMA, 1);
    for (int i = 0; i < 3; i++) {
        pn_session *s = open_session_with(model, o);
        assert_int_equal(pn_session_sync(s, w[i].tokens, LONG, NULL, NULL, NULL), PN_OK);
        memcpy(w[i].logits, pn_session_logits(s), (size_t)w[i].n_vocab * sizeof(float));
        pn_session_free(s);
    }
    pn_model_close(model);
    check_run(LLAMA, &o, &w[0], 0);
    each_file(add_size, &one);
    const uint64_t two = 2 * one + one / 2;
    const struct {
        int text;
        size_t n_restored;
    } turns[] = {{1, 0}, {0, WHOLE}, {2, 0}, {0, WHOLE}, {1, 0}, {0, WHOLE}, {2, 0}};
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        model = open_cached(LLAMA, two, NULL);
        check_in(model, &o, &w[turns[i].text], turns[i].n_restored);
        pn_model_close(model);
        all = 0;
        assert_int_equal(each_file(add_size, &all), 2);
        assert_true(all <= two);
        usleep(20000); /* file times are coarse */
    }
    assert_int_equal(n_notes, 0);
    each_file(remove_one, NULL);
    model = open_cached(LLAMA, one - 1, NULL);
    check_in(model, &o, &w[0], 0);
    expect_note("is not kept");
    pn_model_close(model);
    assert_int_equal(n_files(), 0);
    for (int i = 0; i < 3; i++)
        free(w[i].logits);
}

/* No request fails for it. A limit on the size of files stands for a disk that is full. */
static void a_disk_that_cannot_be_written(void **state) {
    (void)state;
    const pn_session_options o = {.n_ctx = LONG};
    struct wanted w = want_of(LLAMA, &o, 0);
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    tight = (struct rlimit){2000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    pn_model *model = open_cached(LLAMA, 0, NULL);
    check_in(model, &o, &w, 0);
    check_in(model, &o, &w, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(n_notes, 1); /* not again and again */
    expect_note("cannot write");
    assert_int_equal(n_files(), 0);
    pn_model_close(model);
    char missing[100];
    snprintf(missing, sizeof missing, "%s/no/such", folder);
    const pn_model_options options = {
        .n_threads = 1, .cache_dir = missing, .baked = missing, .on_note = on_note};
    assert_int_equal(pn_model_open(LLAMA, &options, &model, NULL), PN_OK);
    assert_int_equal(n_notes, 2);
    expect_note("cannot be opened");
    check_in(model, &o, &w, 0);
    pn_model_close(model);
    snprintf(missing, sizeof missing, "%s/made", folder);
    const pn_model_options fresh = {.n_threads = 1, .cache_dir = missing, .on_note = on_note};
    assert_int_equal(pn_model_open(LLAMA, &fresh, &model, NULL), PN_OK);
    assert_int_equal(n_notes, 0);
    pn_model_close(model);
    assert_int_equal(rmdir(missing), 0);
    if (geteuid() != 0) { /* whom no mode keeps from writing */
        chmod(folder, 0500);
        model = open_cached(LLAMA, 0, NULL);
        expect_note("cannot be written");
        check_in(model, &o, &w, 0);
        pn_model_close(model);
    }
    free(w.logits);
}

/* Whatever allocation fails, what comes out is right, or the request fails as it would without a disk. */
static void without_memory(void **state) {
    (void)state;
    const pn_session_options o = {.n_ctx = LONG, .n_chunk = 64};
    struct wanted w = want_of(GEMMA, &o, 0);
    check_run(GEMMA, &o, &w, 0);
    for (uint64_t nth = 1, passed = 0; passed < 3; nth++) {
        pn_model *model = open_cached(GEMMA, 0, NULL);
        pn_session *s = open_session_with(model, o);
        pn_mem_fail_at(nth);
        const pn_status status = pn_session_sync(s, w.tokens, LONG, NULL, NULL, NULL);
        const bool whole = pn_mem_fail_at(0) < nth;
        if (status == PN_OK)
            assert_memory_equal(pn_session_logits(s), w.logits, (size_t)w.n_vocab * sizeof *w.logits);
        else
            assert_int_equal(status, PN_ERR_MEMORY);
        pn_mem_fail_at(nth);
        pn_session_free(s);
        pn_mem_fail_at(0);
        pn_model_close(model);
        passed += whole;
        assert_true(nth < 500);
    }
    check_run(GEMMA, &o, &w, WHOLE);
    for (uint64_t nth = 1;; nth++) {
        pn_model *model = NULL;
        const pn_model_options options = {.n_threads = 1, .no_probe = true, .cache_dir = folder};
        pn_mem_fail_at(nth);
        const pn_status status = pn_model_open(GEMMA, &options, &model, NULL);
        const bool whole = pn_mem_fail_at(0) < nth;
        if (status == PN_OK) {
            compare_in(model, &o, &w);
            pn_model_close(model);
        }
        if (whole) break;
    }
    free(w.logits);
}

/* ---- what bits depend on ---- */

static void arithmetic_is_that_of_floats(void **state) {
    (void)state;
    assert_string_equal(pn_kernels_arithmetic(0), "scalar");
    const uint32_t features = pn_cpu_features();
    if (features & PN_CPU_AVX2) {
        const uint32_t avx512 = PN_CPU_AVX2 | PN_CPU_AVX512;
        assert_string_equal(pn_kernels_arithmetic(PN_CPU_AVX2), "avx2");
        assert_string_equal(pn_kernels_arithmetic(PN_CPU_AVX2 | PN_CPU_AVXVNNI), "avx2");
        assert_string_equal(pn_kernels_arithmetic(avx512), "avx512");
        assert_string_equal(pn_kernels_arithmetic(avx512 | PN_CPU_AVX512VNNI | PN_CPU_AMX), "avx512");
    }
    if (features & PN_CPU_NEON)
        assert_string_equal(pn_kernels_arithmetic(PN_CPU_NEON | PN_CPU_DOTPROD | PN_CPU_I8MM), "neon");
}

/* One weight of a model is changed in its place: what was kept is of no use. */
static void a_changed_model_is_another(void **state) {
    (void)state;
    size_t n;
    char path[400];
    const pn_session_options o = {.n_ctx = LONG};
    unsigned char *bytes = read_all(LLAMA, &n);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    write_all(path, bytes, n);
    struct wanted w = want_of(path, &o, 0);
    check_run(path, &o, &w, 0);
    check_run(path, &o, &w, WHOLE);
    check_run(LLAMA, &o, &w, WHOLE); /* a copy is the same */
    bytes[n - 100] ^= 1;
    write_all(path, bytes, n);
    struct wanted changed = want_of(path, &o, 0);
    check_run(path, &o, &changed, 0);
    check_run(path, &o, &changed, WHOLE);
    free(bytes);
    free(w.logits);
    free(changed.logits);
}

int main(void) {
    if (!own_notes()) return 1;
    const struct CMUnitTest tests[] = {
        TEST(texts_are_found_after_a_restart),
        TEST(without_room_in_memory_too),
        TEST(precision_type_and_model_must_be_the_same),
        TEST(only_what_is_new_is_written),
        TEST(windows_are_kept_where_texts_part),
        TEST(baked_texts_are_found),
        TEST(sessions_are_saved_and_loaded),
        TEST(no_damage_passes),
        TEST(damaged_files_are_dropped),
        TEST(what_was_not_finished_is_cleaned_up),
        TEST(the_least_recently_used_goes_first),
        TEST(a_disk_that_cannot_be_written),
        TEST(without_memory),
        cmocka_unit_test(arithmetic_is_that_of_floats),
        TEST(a_changed_model_is_another),
    };
    return remove_notes(cmocka_run_group_tests(tests, NULL, NULL));
}
