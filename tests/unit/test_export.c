/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of compressed models that other programs read: memory that fails leaves nothing behind, and rows
   that are not those of the heads are refused. What the files hold is tests/e2e/test_export.py's. */
#include "support/check.h"

#include "base/mem.h"
#include "base/new_folder.h"
#include "export/hf_model.h"

#include <postern.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUT "export-out"

static char tiny[512]; /* the folder of the tiny models */

static const char *model(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s.gguf", tiny, name);
    return path;
}

static void remove_out(void) {
    static const char command[] = "rm -rf " OUT;
    if (system(command) != 0) fail();
}

static void nothing_is_left(void) {
    static const char command[] = "test -z \"$(ls -A)\"";
    if (system(command) != 0) fail_msg("files are left");
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    for (pn_weight_format format = PN_FORMAT_GGUF; format <= PN_FORMAT_COMPRESSED_TENSORS; format++)
        for (int gemma = 0; gemma < 2; gemma++) {
            pn_compress_options o = pn_compress_options_default();
            o.format = format;
            o.n_threads = 1;
            pn_status status = PN_ERR_MEMORY;
            for (uint64_t nth = 1; status != PN_OK; nth++) {
                pn_compress_result r;
                pn_error err;
                pn_mem_fail_at(nth);
                status = pn_compress_weights(model(gemma ? "gemma3-linear" : "llama-bias"), OUT, &o, NULL,
                                             NULL, &r, &err);
                pn_mem_fail_at(0);
                if (status == PN_OK) {
                    assert_true(nth > 20);
                    pn_compress_result_free(&r);
                } else {
                    if (status != PN_ERR_MEMORY) fail_msg("%s", err.message);
                    nothing_is_left();
                }
            }
            assert_int_equal(pn_mem_bytes(PN_MEM_SCRATCH), 0);
            assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), 0);
            remove_out();
        }
}

static void rows_go_to_the_halves_of_their_heads(void **state) {
    (void)state;
    const pn_hf_place place = {.n_head = 2}, as_it_is = {.n_head = 0};
    static const size_t from[12] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
    for (size_t row = 0; row < 12; row++) {
        assert_int_equal(pn_hf_row(&place, 12, row), from[row]);
        assert_int_equal(pn_hf_row(&as_it_is, 12, row), row);
    }
}

static void tensors_without_a_place_are_refused(void **state) {
    (void)state;
    pn_gguf *file;
    pn_hf_model m;
    pn_hf_place place;
    pn_error err;
    if (pn_gguf_open(model("llama-bias"), &file, &err) != PN_OK) fail_msg("%s", err.message);
    assert_int_equal(pn_hf_model_read(file, &m, &err), PN_OK);
    pn_gguf_tensor t = *pn_gguf_find_tensor(file, "blk.0.attn_k.weight");
    assert_int_equal(pn_hf_place_of(&m, &t, &place, &err), PN_OK);
    assert_string_equal(place.module, "model.layers.0.self_attn.k_proj");
    t.dims[1]--;
    assert_int_equal(pn_hf_place_of(&m, &t, &place, &err), PN_ERR_FORMAT);
    t.dims[1] = 0;
    assert_int_equal(pn_hf_place_of(&m, &t, &place, &err), PN_ERR_FORMAT);
    static const char *const names[] = {
        "blk.0.attn_q_norm.weight", "blk.0.", "blk..attn_q.weight", "weight", "blk.0.attn_q",
        "v.blk.0.attn_q.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        t.name = pn_str_from(names[i]);
        assert_int_equal(pn_hf_place_of(&m, &t, &place, &err), PN_ERR_UNSUPPORTED);
    }
    pn_hf_model_done(&m);
    pn_gguf_close(file);
}

static void a_folder_appears_when_it_is_whole(void **state) {
    (void)state;
    pn_new_folder folder;
    pn_new_file file;
    pn_error err;
    struct stat st;
    assert_int_equal(pn_new_folder_begin("none/" OUT, &folder, &err), PN_ERR_IO);
    assert_int_equal(pn_new_folder_begin(OUT "//", &folder, &err), PN_OK);
    assert_int_equal(pn_new_folder_file(&folder, "a", &file, &err), PN_OK);
    pn_new_file_write(&file, "text", 4);
    assert_int_equal(pn_new_file_finish(&file, &err), PN_OK);
    pn_new_file_done(&file);
    assert_int_equal(access(OUT, F_OK), -1);
    pn_new_folder_done(&folder); /* given up */
    nothing_is_left();
    assert_int_equal(mkdir(OUT, 0777), 0); /* an empty one is no obstacle */
    assert_int_equal(pn_new_folder_begin(OUT, &folder, &err), PN_OK);
    assert_int_equal(pn_new_folder_file(&folder, "a", &file, &err), PN_OK);
    assert_int_equal(pn_new_file_finish(&file, &err), PN_OK);
    pn_new_file_done(&file);
    assert_int_equal(pn_new_folder_finish(&folder, &err), PN_OK);
    pn_new_folder_done(&folder);
    assert_int_equal(stat(OUT "/a", &st), 0);
    assert_int_equal(pn_new_folder_begin(OUT, &folder, &err), PN_ERR_IO); /* but one with files is */
    assert_int_equal(pn_new_folder_begin(OUT "/a", &folder, &err), PN_ERR_IO);
    remove_out();
    nothing_is_left();
}

static int enter_scratch_folder(void **state) {
    (void)state;
    static char folder[] = "/tmp/postern-export-XXXXXX";
    if (!getcwd(tiny, sizeof tiny - 20)) return -1;
    memcpy(tiny + strlen(tiny), "/tests/golden/tiny", 19);
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_scratch_folder(void **state) {
    (void)state;
    char folder[256];
    return getcwd(folder, sizeof folder) && chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(rows_go_to_the_halves_of_their_heads),
        cmocka_unit_test(tensors_without_a_place_are_refused),
        cmocka_unit_test(a_folder_appears_when_it_is_whole),
    };
    return cmocka_run_group_tests(tests, enter_scratch_folder, leave_scratch_folder);
}
