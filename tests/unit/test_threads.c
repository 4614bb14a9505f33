/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads a model takes: cores, what is noted between runs, options. */
#include "support/check.h"

#include "base/cpu.h"
#include "base/notes.h"
#include "engine/engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "tests/golden/tiny/llama-q8.gguf"

/* A folder of the test's own, which is where notes go. */
static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/pn-threads-XXXXXX");
    return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void path_of(char path[200], const char *name) {
    snprintf(path, 200, "%s/%s", folder, name);
}

static void write_file(const char *name, const void *data, size_t len) {
    char path[200];
    path_of(path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    fclose(file);
}

static size_t read_file(const char *name, char *data, size_t size) {
    char path[200];
    path_of(path, name);
    FILE *file = fopen(path, "rb");
    size_t len = file ? fread(data, 1, size - 1, file) : 0;
    if (file) fclose(file);
    data[len] = '\0';
    return len;
}

static void make_dir(const char *name) {
    char path[200];
    path_of(path, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* ---- cores ---- */

/* Files of all CPUs that this may be run on, with the same siblings for each, or none. */
static void describe_cpus(const char *siblings) {
    char name[100];
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        snprintf(name, sizeof name, "cpu%d", cpu);
        make_dir(name);
        snprintf(name, sizeof name, "cpu%d/topology", cpu);
        make_dir(name);
        snprintf(name, sizeof name, "cpu%d/topology/thread_siblings_list", cpu);
        write_file(name, siblings, strlen(siblings));
    }
}

static void siblings_are_one_core(void **state) {
    (void)state;
    assert_int_equal(pn_cpu_usable_cores(folder), pn_cpu_usable_threads()); /* nothing known: all are cores */
    describe_cpus("0,1-2,3-1023\n");
    assert_int_equal(pn_cpu_usable_cores(folder), 1);
    int n = pn_cpu_usable_cores(NULL);
    assert_true(n >= 1 && n <= pn_cpu_usable_threads());
}

static void a_cpu_is_told_by_one_line(void **state) {
    (void)state;
    char line[300], again[300], cut[8];
    pn_cpu_identify(line, sizeof line);
    pn_cpu_identify(again, sizeof again);
    pn_cpu_identify(cut, sizeof cut);
    assert_string_equal(line, again);
    assert_null(strpbrk(line, "\t\n"));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, line, sizeof cut - 1);
}

/* ---- notes ---- */

static void check_note(const char *key, const char *want) {
    char value[64];
    if (!want) {
        assert_false(pn_notes_get("n", key, value, sizeof value));
        return;
    }
    assert_true(pn_notes_get("n", key, value, sizeof value));
    assert_string_equal(value, want);
}

static void the_last_note_of_a_key_counts(void **state) {
    (void)state;
    check_note("a", NULL);
    pn_notes_put("n", "a", "1");
    pn_notes_put("n", "ab", "2");
    pn_notes_put("n", "a", "3 and more");
    check_note("a", "3 and more");
    check_note("ab", "2");
    check_note("b", NULL);
    char value[4];
    assert_true(pn_notes_get("n", "a", value, sizeof value));
    assert_string_equal(value, "3 a");
    char text[100];
    read_file("postern/n", text, sizeof text);
    assert_string_equal(text, "a\t3 and more\nab\t2\n");
}

static void old_notes_make_room(void **state) {
    (void)state;
    char key[32], text[20000];
    for (int i = 0; i < 2000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        pn_notes_put("n", key, "value");
    }
    check_note("key 1999", "value");
    check_note("key 1900", "value");
    check_note("key 0", NULL);
    assert_in_range(read_file("postern/n", text, sizeof text), 7000, 8192);
}

static void a_broken_file_is_no_note(void **state) {
    (void)state;
    static const char *const broken[] = {"", "\n\n", "a", "a\t", "a\t1", "\t\n", "x\ny\n", "a\n\t1\n"};
    make_dir("postern");
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        write_file("postern/n", broken[i], strlen(broken[i]));
        check_note("a", NULL);
        pn_notes_put("n", "a", "2");
        check_note("a", "2");
    }
    char noise[10000];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 7 + i / 251);
    write_file("postern/n", noise, sizeof noise);
    pn_notes_put("n", "a", "3");
    check_note("a", "3");
}

static void where_nothing_can_be_noted_nothing_happens(void **state) {
    (void)state;
    write_file("postern", "a file", 6); /* where the folder would be */
    pn_notes_put("n", "a", "1");
    check_note("a", NULL);
    const char *home = getenv("HOME");
    char *old_home = home ? strdup(home) : NULL;
    unsetenv("HOME");
    setenv("XDG_CACHE_HOME", "relative", 1);
    pn_notes_put("n", "a", "1");
    check_note("a", NULL);
    char long_path[3000];
    memset(long_path, '/', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    setenv("XDG_CACHE_HOME", long_path, 1);
    pn_notes_put("n", "a", "1");
    check_note("a", NULL);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1);
    pn_notes_put("n", "a", "1");
    check_note("a", "1");
    char text[20];
    read_file(".cache/postern/n", text, sizeof text);
    assert_string_equal(text, "a\t1\n");
    if (old_home)
        setenv("HOME", old_home, 1);
    else
        unsetenv("HOME");
    free(old_home);
}

static void *note_often(void *arg) {
    for (int i = 0; i < 200; i++)
        pn_notes_put("n", arg, "value");
    return NULL;
}

static void notes_at_once_leave_a_whole_file(void **state) {
    (void)state;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, note_often, "one"), 0);
    note_often("two");
    pthread_join(other, NULL);
    char text[100];
    read_file("postern/n", text, sizeof text);
    assert_true(strcmp(text, "one\tvalue\n") == 0 || strcmp(text, "two\tvalue\n") == 0 ||
                strcmp(text, "one\tvalue\ntwo\tvalue\n") == 0 ||
                strcmp(text, "two\tvalue\none\tvalue\n") == 0);
}

/* ---- counts ---- */

static pn_model *open_model(pn_model_options options) {
    pn_model *model = NULL;
    pn_error err;
    if (pn_model_open(MODEL, &options, &model, &err) != PN_OK) fail_msg("%s", err.message);
    return model;
}

static void check_counts(pn_model_options options, int prefill, int decode) {
    pn_model_info info;
    pn_model *model = open_model(options);
    pn_model_get_info(model, &info);
    assert_int_equal(info.n_threads, prefill);
    assert_int_equal(info.n_threads_decode, decode);
    pn_model_close(model);
}

static void what_is_asked_for_is_taken(void **state) {
    (void)state;
    int n_threads = pn_cpu_usable_threads(), n_cores = pn_cpu_usable_cores(NULL);
    check_counts((pn_model_options){0}, n_threads, n_cores);
    check_counts((pn_model_options){.no_probe = true}, n_threads, n_cores);
    check_counts((pn_model_options){.n_threads = 3}, 3, 3);
    check_counts((pn_model_options){.n_threads = 3, .n_threads_decode = 2}, 3, 2);
    check_counts((pn_model_options){.n_threads = 2, .n_threads_decode = 5}, 2, 5);
    check_counts((pn_model_options){.n_threads_decode = n_threads + 1}, n_threads, n_threads + 1);
    static const pn_model_options refused[] = {
        {.n_threads = -1}, {.n_threads_decode = -1}, {.n_threads = 1, .n_threads_decode = 5000}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        pn_model *model = NULL;
        assert_int_equal(pn_model_open(MODEL, &refused[i], &model, NULL), PN_ERR_ARGUMENT);
    }
}

enum { N_NEW = 20 };

static void generate(pn_model_options options, int32_t tokens[N_NEW]) {
    static const int32_t prompt[] = {11, 40, 71, 12, 90, 33, 54, 60, 17, 82};
    pn_model *model = open_model(options);
    pn_session *session = NULL;
    assert_int_equal(pn_session_create(model, &(pn_session_options){.n_ctx = 64}, &session, NULL), PN_OK);
    pn_generate_options o = {.max_tokens = N_NEW, .sampling = pn_sampling_default(), .ignore_eos = true};
    o.sampling.temperature = 0;
    pn_generate_result result = {0};
    assert_int_equal(pn_generate(session, prompt, sizeof prompt / sizeof *prompt, &o, &result, NULL), PN_OK);
    assert_int_equal(result.tokens.n, N_NEW);
    memcpy(tokens, result.tokens.ids, N_NEW * sizeof *tokens);
    pn_generate_result_free(&result);
    pn_session_free(session);
    pn_model_close(model);
}

static void the_text_does_not_depend_on_the_counts(void **state) {
    (void)state;
    static const pn_model_options options[] = {
        {.n_threads = 2}, {.n_threads = 4, .n_threads_decode = 1}, {.n_threads = 1, .n_threads_decode = 3}};
    int32_t want[N_NEW], tokens[N_NEW];
    generate((pn_model_options){.n_threads = 1}, want);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        generate(options[i], tokens);
        assert_memory_equal(tokens, want, sizeof want);
    }
}

/* On a machine where something else is going on all the time, nothing is measured and nothing noted. */
static bool find_until_noted(const pn_model *model, char *text, size_t size) {
    for (int i = 0; i < 50; i++) {
        pn_thread_counts counts = pn_threads_find(model, 1, 2);
        assert_in_range(counts.prefill, 1, 2);
        assert_in_range(counts.decode, 1, 2);
        if (read_file("postern/threads", text, size) > 0) return true;
        usleep(1000);
    }
    return false;
}

static void what_is_noted_is_not_measured_again(void **state) {
    (void)state;
    pn_model *model = open_model((pn_model_options){.n_threads = 2});
    char text[1000];
    if (find_until_noted(model, text, sizeof text)) {
        char *value = strchr(text, '\t') + 1;
        strcpy(value, "prefill 1 decode 2\n");
        write_file("postern/threads", text, strlen(text));
        pn_thread_counts counts = pn_threads_find(model, 1, 2);
        assert_int_equal(counts.prefill, 1);
        assert_int_equal(counts.decode, 2);
        static const char *const nonsense[] = {"prefill 1 decode 3\n", "prefill 0 decode 1\n", "prefill 2\n",
                                               "x\n"};
        for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
            strcpy(value, nonsense[i]);
            write_file("postern/threads", text, strlen(text));
            counts = pn_threads_find(model, 1, 2);
            assert_in_range(counts.prefill, 1, 2);
            assert_in_range(counts.decode, 1, 2);
        }
    }
    pn_model_close(model);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(siblings_are_one_core),
        IN_FOLDER(a_cpu_is_told_by_one_line),
        IN_FOLDER(the_last_note_of_a_key_counts),
        IN_FOLDER(old_notes_make_room),
        IN_FOLDER(a_broken_file_is_no_note),
        IN_FOLDER(where_nothing_can_be_noted_nothing_happens),
        IN_FOLDER(notes_at_once_leave_a_whole_file),
        IN_FOLDER(what_is_asked_for_is_taken),
        IN_FOLDER(the_text_does_not_depend_on_the_counts),
        IN_FOLDER(what_is_noted_is_not_measured_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
