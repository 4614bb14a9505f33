/* SPDX-License-Identifier: Apache-2.0 */
/* A process that writes to the cache folder is killed, again and again: what is found there afterwards is
   right or is not there. */
#include "support/cache_folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { N_TEXTS = 4, N_KILLS = 50 };

static const pn_session_options o = {.n_ctx = LONG, .lookup = PN_LOOKUP_OFF};

/* Files of a text, with room for some of the others, so that files are removed as well as written. */
static uint64_t room_for_some(const struct wanted *w) {
    uint64_t bytes = 0;
    pn_model *model = open_cached(GEMMA, 0, NULL);
    compare_in(model, &o, w);
    pn_model_close(model);
    each_file(add_size, &bytes);
    return bytes * 5 / 2;
}

/* Until it is killed: texts are computed, saved, forgotten and found. */
static void write_forever(const struct wanted *texts, uint64_t max_bytes) {
    for (unsigned i = 0;; i++) {
        pn_model *model = open_cached(GEMMA, max_bytes, NULL);
        for (unsigned j = 0; j < N_TEXTS; j++)
            compare_in(model, &o, &texts[(i + j) % N_TEXTS]);
        pn_model_close(model);
    }
}

static void is_partial(const char *path, void *user) {
    const size_t len = strlen(path), end = sizeof ".partial" - 1;
    if (len > end && strcmp(path + len - end, ".partial") == 0) ++*(size_t *)user;
}

static void sleep_us(unsigned us) {
    const struct timespec t = {0, (long)us * 1000};
    nanosleep(&t, NULL);
}

/* Every other kill waits for a file that is being written. Returns whether there was one. */
static bool kill_at_some_point(const struct wanted *texts, uint64_t max_bytes, int round) {
    size_t n_partial = 0;
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) write_forever(texts, max_bytes);
    sleep_us(3000 + (unsigned)(round * 7919 % 40000));
    const time_t late = time(NULL) + 10;
    while (round % 2 == 0 && n_partial == 0 && time(NULL) < late)
        each_file(is_partial, &n_partial);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) fail_msg("the writer ended by itself, with %d", status);
    n_partial = 0;
    each_file(is_partial, &n_partial);
    return n_partial > 0;
}

static void every_restart_serves_right_answers(void **state) {
    (void)state;
    struct wanted texts[N_TEXTS];
    size_t n_restored = 0, n_cut_off = 0;
    for (int i = 0; i < N_TEXTS; i++)
        texts[i] = want_of(GEMMA, &o, i * 11);
    const uint64_t max_bytes = room_for_some(&texts[0]);
    for (int round = 0; round < N_KILLS; round++) {
        n_cut_off += kill_at_some_point(texts, max_bytes, round);
        uint64_t bytes = 0;
        pn_model *model = open_cached(GEMMA, max_bytes, NULL);
        for (int i = 0; i < N_TEXTS; i++)
            n_restored += compare_in(model, &o, &texts[i]);
        pn_model_close(model);
        each_file(add_size, &bytes);
        assert_true(bytes <= max_bytes);
        if (n_notes > 0) fail_msg("after a kill: %s", notes);
    }
    /* The kills came while there was something to lose, and what was saved before is used. */
    assert_true(n_cut_off > 0);
    assert_true(n_restored > 0);
    for (int i = 0; i < N_TEXTS; i++)
        free(texts[i].logits);
}

int main(void) {
    if (!own_notes()) return 1;
    const struct CMUnitTest tests[] = {TEST(every_restart_serves_right_answers)};
    return remove_notes(cmocka_run_group_tests(tests, NULL, NULL));
}
