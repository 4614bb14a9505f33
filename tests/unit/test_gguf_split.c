/* SPDX-License-Identifier: Apache-2.0 */
/* Models in several files: opened from any shard, and refused by name when the shards do not fit. */
#include "support/gguf_build.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_str(pn_str got, const char *expected) {
    assert_int_equal(got.len, strlen(expected));
    assert_memory_equal(got.data, expected, got.len);
}

#define WORDS(...)                                                                                           \
    (const char *const[]) {                                                                                  \
        __VA_ARGS__, NULL                                                                                    \
    }

enum { N_SHARDS = 3 };

typedef struct split_dir {
    char dir[64];
    gb_file shards[N_SHARDS];
} split_dir;

static void shard_path(const split_dir *d, int no, int count, char out[128]) {
    snprintf(out, 128, "%s/m-%05d-of-%05d.gguf", d->dir, no, count);
}

static void write_file(const char *path, const gb_file *f) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(f->bytes, 1, f->len, file), f->len);
    assert_int_equal(fclose(file), 0);
}

static void write_shards(const split_dir *d) {
    for (int i = 0; i < N_SHARDS; i++) {
        char path[128];
        shard_path(d, i + 1, N_SHARDS, path);
        write_file(path, &d->shards[i]);
    }
}

static int setup_split(void **state) {
    split_dir *d = calloc(1, sizeof *d);
    if (!d) return -1;
    *state = d;
    snprintf(d->dir, sizeof d->dir, "/tmp/pn-gguf-XXXXXX");
    if (!mkdtemp(d->dir)) return -1;
    for (int i = 0; i < N_SHARDS; i++) {
        gb_file f = gb_begin(3, 32);
        if (i == 0) gb_string(&f, "general.name", "split");
        gb_number(&f, "split.no", PN_GGUF_U16, (uint64_t)i);
        gb_number(&f, "split.count", PN_GGUF_U16, N_SHARDS);
        gb_number(&f, "split.tensors.count", PN_GGUF_I32, 4);
        for (int k = 0; i > 0 && k < 2;
             k++) { /* the first shard holds metadata only, as some tools write it */
            char name[16];
            snprintf(name, sizeof name, "t%d.%d", i, k);
            gb_tensor(&f, name, 0, 1, (const uint64_t[]){4}, NULL);
        }
        gb_end(&f);
        d->shards[i] = f;
    }
    write_shards(d);
    return 0;
}

static int teardown_split(void **state) {
    split_dir *d = *state;
    for (int i = 0; i < N_SHARDS; i++) {
        char path[128];
        shard_path(d, i + 1, N_SHARDS, path);
        unlink(path);
        gb_free(&d->shards[i]);
    }
    int failed = rmdir(d->dir); /* fails when a test left something */
    free(d);
    return failed;
}

static void assert_open_refused(const char *path, pn_status code, const char *const *words) {
    pn_gguf *g = NULL;
    pn_error err = {0};
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    assert_int_equal(pn_gguf_open(path, &g, &err), code);
    assert_null(g);
    assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), held);
    for (; *words; words++)
        if (!strstr(err.message, *words)) fail_msg("\"%s\" does not say \"%s\"", err.message, *words);
}

static void test_split_opens_from_any_shard(void **state) {
    split_dir *d = *state;
    for (int i = 1; i <= N_SHARDS; i++) {
        char path[128];
        pn_gguf *g = NULL;
        pn_error err;
        shard_path(d, i, N_SHARDS, path);
        if (pn_gguf_open(path, &g, &err) != PN_OK) fail_msg("%s", err.message);
        assert_int_equal(pn_gguf_n_shards(g), N_SHARDS);
        assert_int_equal(pn_gguf_file_bytes(g), d->shards[0].len + d->shards[1].len + d->shards[2].len);
        assert_str(pn_gguf_find_key(g, "general.name")->as.str, "split");
        assert_int_equal(pn_gguf_n_tensors(g), 4);
        static const char *const names[] = {"t1.0", "t1.1", "t2.0", "t2.1"};
        for (size_t k = 0; k < 4; k++) {
            const pn_gguf_tensor *t = pn_gguf_find_tensor(g, names[k]);
            assert_ptr_equal(t, pn_gguf_tensor_at(g, k));
            assert_int_equal(t->shard, k < 2 ? 1 : 2);
            assert_memory_equal(t->data, d->shards[t->shard].bytes + t->offset, 16);
        }
        pn_gguf_close(g);
    }
}

static void test_split_missing_shard(void **state) {
    split_dir *d = *state;
    char first[128], path[128];
    shard_path(d, 1, N_SHARDS, first);
    shard_path(d, 2, N_SHARDS, path);
    assert_int_equal(unlink(path), 0);
    assert_open_refused(first, PN_ERR_IO, WORDS("shard 2 of 3 is missing", "m-00002-of-00003.gguf"));
}

static void test_split_swapped_shards(void **state) {
    split_dir *d = *state;
    char second[128], third[128];
    shard_path(d, 2, N_SHARDS, second);
    shard_path(d, 3, N_SHARDS, third);
    write_file(second, &d->shards[2]);
    write_file(third, &d->shards[1]);
    assert_open_refused(third, PN_ERR_FORMAT,
                        WORDS("m-00002-of-00003.gguf", "split.no", "shard 3", "swapped"));
}

static void spoil_shard(split_dir *d, int shard, gb_kind kind, const char *of, uint64_t value, pn_status code,
                        const char *const *words) {
    char path[128];
    gb_put(&d->shards[shard], gb_find(&d->shards[shard], kind, of, 0), value);
    write_shards(d);
    shard_path(d, 1, N_SHARDS, path);
    assert_open_refused(path, code, words);
}

static void test_split_count_differs(void **state) {
    spoil_shard(*state, 1, GB_NUMBER, "split.count", 4, PN_ERR_FORMAT,
                WORDS("m-00002-of-00003.gguf", "3 shards", "says 4"));
}

static void test_split_of_another_model(void **state) {
    spoil_shard(*state, 2, GB_NUMBER, "split.tensors.count", 9, PN_ERR_FORMAT,
                WORDS("m-00003-of-00003.gguf", "9 tensors", "another split"));
}

static void test_split_total_differs(void **state) {
    split_dir *d = *state;
    for (int i = 0; i < N_SHARDS; i++)
        gb_put(&d->shards[i], gb_find(&d->shards[i], GB_NUMBER, "split.tensors.count", 0), 5);
    write_shards(d);
    char path[128];
    shard_path(d, 2, N_SHARDS, path);
    assert_open_refused(path, PN_ERR_FORMAT, WORDS("hold 4 tensors", "says 5"));
}

static void test_split_repeats_a_tensor(void **state) {
    split_dir *d = *state;
    d->shards[2].bytes[gb_find(&d->shards[2], GB_NAME_LEN, "t2.1", 0)->pos + 8 + 1] = '1';
    write_shards(d);
    char path[128];
    shard_path(d, 2, N_SHARDS, path);
    assert_open_refused(path, PN_ERR_FORMAT, WORDS("\"t1.1\"", "shard 2", "shard 3"));
}

static void test_split_without_its_keys(void **state) {
    split_dir *d = *state;
    d->shards[1].bytes[gb_find(&d->shards[1], GB_KEY_LEN, "split.count", 0)->pos + 8] = 'X';
    write_shards(d);
    char path[128];
    shard_path(d, 1, N_SHARDS, path);
    assert_open_refused(path, PN_ERR_FORMAT, WORDS("m-00002-of-00003.gguf", "no key \"split.count\""));
}

/* A shard under a name of its own, and shards joined by hand. */
static void test_split_renamed_and_joined(void **state) {
    split_dir *d = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/model.gguf", d->dir);
    write_file(path, &d->shards[1]);
    assert_open_refused(path, PN_ERR_FORMAT,
                        WORDS("model.gguf", "part 2", "3 files", "-00002-of-00003.gguf"));
    gb_file joined = {0};
    for (int i = 0; i < N_SHARDS; i++) {
        joined.bytes = realloc(joined.bytes, joined.len + d->shards[i].len);
        assert_non_null(joined.bytes);
        memcpy(joined.bytes + joined.len, d->shards[i].bytes, d->shards[i].len);
        joined.len += d->shards[i].len;
    }
    write_file(path, &joined);
    assert_open_refused(path, PN_ERR_FORMAT, WORDS("model.gguf", "another GGUF file begins"));
    unlink(path);
    shard_path(d, 1, N_SHARDS, path);
    write_file(path, &joined);
    assert_open_refused(path, PN_ERR_FORMAT, WORDS("m-00001-of-00003.gguf", "another GGUF file begins"));
    gb_free(&joined);
}

/* A merged model keeps split.count of 0, and a name that only looks like a shard's is a name. */
static void test_whole_models(void **state) {
    split_dir *d = *state;
    char path[128];
    for (uint64_t count = 0; count <= 1; count++) {
        gb_put(&d->shards[1], gb_find(&d->shards[1], GB_NUMBER, "split.count", 0), count);
        static const char *const names[] = {"m.gguf", "m-00001-of-00001.gguf", "m-00004-of-00003.gguf",
                                            "m-0001-of-0003.gguf", "00001-of-00003.gguf"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            pn_gguf *g = NULL;
            pn_error err;
            snprintf(path, sizeof path, "%s/%s", d->dir, names[i]);
            write_file(path, &d->shards[1]);
            if (pn_gguf_open(path, &g, &err) != PN_OK) fail_msg("%s", err.message);
            assert_int_equal(pn_gguf_n_tensors(g), 2);
            pn_gguf_close(g);
            unlink(path);
        }
    }
}

static void test_every_allocation_fails(void **state) {
    split_dir *d = *state;
    char path[128];
    shard_path(d, 1, N_SHARDS, path);
    unsigned n_failures = 0;
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    for (uint64_t nth = 1;; nth++) {
        pn_gguf *g = NULL;
        pn_error err = {0};
        pn_mem_fail_at(nth);
        pn_status status = pn_gguf_open(path, &g, &err);
        pn_mem_fail_at(0);
        if (status == PN_OK) {
            pn_gguf_close(g);
            break;
        }
        assert_int_equal(status, PN_ERR_MEMORY);
        assert_null(g);
        assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), held);
        n_failures++;
    }
    assert_true(n_failures >=
                2 + N_SHARDS * 4); /* the object, the index; map, keys, index, tensors of each shard */
}

static void test_open_failures(void **state) {
    split_dir *d = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/none.gguf", d->dir);
    assert_open_refused(path, PN_ERR_IO, WORDS("none.gguf"));
    assert_open_refused(d->dir, PN_ERR_IO, WORDS(d->dir));
    pn_gguf_close(NULL);
}

#define split_test(f) cmocka_unit_test_setup_teardown(f, setup_split, teardown_split)

int main(void) {
    const struct CMUnitTest tests[] = {
        split_test(test_split_opens_from_any_shard), split_test(test_split_missing_shard),
        split_test(test_split_swapped_shards),       split_test(test_split_count_differs),
        split_test(test_split_of_another_model),     split_test(test_split_total_differs),
        split_test(test_split_repeats_a_tensor),     split_test(test_split_without_its_keys),
        split_test(test_split_renamed_and_joined),   split_test(test_whole_models),
        split_test(test_every_allocation_fails),     split_test(test_open_failures),
    };
    return cmocka_run_group_tests_name("gguf_split", tests, NULL, NULL);
}
