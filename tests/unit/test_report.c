/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a compression as a file holds it: read whole, and refused with a reason whatever stands there
   instead. */
#include "support/check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "compress/report.h"
#include "support/gguf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "report-test.gguf"

static const char good[] =
    "{\"source\":\"a.gguf\",\"source_hash\":\"xxh3-128:00\",\"mode\":\"int4_sym\",\"group_size\":64,"
    "\"ratio\":0.9,"
    "\"backup_mode\":\"int8_asym\",\"all_layers\":false,\"ratio_reached\":0.95,\"target_bytes\":1000,"
    "\"target_bits\":4.5,\"calibration\":{\"samples\":32,\"sample_tokens\":256,\"self\":true,\"ways\":\"gptq,"
    " awq\"},"
    "\"sensitivity\":\"hessian\",\"tensors\":["
    "{\"name\":\"blk.0.attn_q.weight\",\"type_before\":\"F16\",\"type_after\":\"INT4_SYM_G64_R16\",\"bits\":"
    "4,"
    "\"weights\":1024,\"bytes_before\":2048,\"bytes_after\":544,\"error\":0.0125,\"output_error\":0.001,"
    "\"why\":\"the mode\",\"method\":\"gptq\",\"of tomorrow\":[1,{}]},"
    "{\"name\":\"output_norm.weight\",\"type_before\":\"F32\",\"type_after\":\"F32\",\"bits\":0,\"weights\":"
    "32,"
    "\"bytes_before\":128,\"bytes_after\":128,\"error\":0}]}   ";

static pn_status parse(const char *text, size_t len, pn_error *err) {
    pn_compress_result r;
    pn_status status = pn_report_parse(text, len, &r, err);
    if (status == PN_OK) pn_compress_result_free(&r);
    return status;
}

static void every_field_is_read(void **state) {
    (void)state;
    pn_compress_result r;
    pn_error err;
    if (pn_report_parse(good, strlen(good), &r, &err) != PN_OK) fail_msg("%s", err.message);
    assert_string_equal(r.source, "a.gguf");
    assert_string_equal(r.source_hash, "xxh3-128:00");
    assert_string_equal(r.mode, "int4_sym");
    assert_string_equal(r.backup, "int8_asym");
    assert_int_equal(r.group_size, 64);
    assert_false(r.all_layers);
    assert_true(r.ratio_asked == 0.9 && r.ratio == 0.95 && r.target_bits == 4.5 && r.seconds == 0);
    assert_true(r.target_bytes == 1000 && r.bytes_before == 2176 && r.bytes_after == 672);
    assert_int_equal(r.calibration_sequences, 32);
    assert_int_equal(r.calibration_tokens, 256);
    assert_true(r.calibrated_on_self);
    assert_string_equal(r.ways, "gptq, awq");
    assert_string_equal(r.sensitivity, "hessian");
    assert_int_equal(r.n_tensors, 2);
    const pn_compressed_tensor *q = &r.tensors[0], *norm = &r.tensors[1];
    assert_string_equal(q->name, "blk.0.attn_q.weight");
    assert_string_equal(q->type_before, "F16");
    assert_string_equal(q->type_after, "INT4_SYM_G64_R16");
    assert_string_equal(q->why, "the mode");
    assert_string_equal(q->method, "gptq");
    assert_true(q->bits == 4 && q->n_weights == 1024 && q->bytes_before == 2048 && q->bytes_after == 544);
    assert_true(q->error == 0.0125 && q->output_error == 0.001 && q->seconds == 0);
    assert_null(norm->why);
    assert_null(norm->method);
    assert_true(norm->bits == 0 && norm->error == 0 && norm->output_error == 0);
    pn_compress_result_free(&r);
}

/* ---- what it is not ---- */

/* The good text with `from`, which stands in it once, made into `to`. */
static char *spoilt(const char *from, const char *to) {
    const char *at = strstr(good, from);
    assert_non_null(at);
    char *text = malloc(strlen(good) + strlen(to) + 1);
    sprintf(text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return text;
}

static void a_wrong_value_is_named(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"a.gguf\"", "7", "\"source\" is not a text"},
        {"\"xxh3-128:00\"", "null", "source_hash"},
        {"\"int4_sym\"", "[]", "mode"},
        {"\"mode\"", "\"mood\"", "\"mode\" is not"},
        {"64,", "1e2,", "group_size"},
        {"64,", "99999999999,", "group_size"},
        {"0.9,", "1.5,", "ratio"},
        {"0.95", "-0.1", "ratio_reached"},
        {"0.95", "\"1\"", "ratio_reached"},
        {"1000", "-1", "target_bytes"},
        {"{\"samples\":32", "[{\"samples\":32", "no JSON object"},
        {"{\"samples\":32,\"sample_tokens\":256,", "{", "samples"},
        {"\"gptq, awq\"", "[]", "ways"},
        {"\"hessian\"", "7", "sensitivity"},
        {"\"samples\":32", "\"samples\":0", "samples"},
        {"\"blk.0.attn_q.weight\"", "{}", "tensor 0: \"name\""},
        {"\"blk.0.attn_q.weight\"", "\"a\\u0000b\"", "no JSON object"},
        {"\"blk.0.attn_q.weight\"", "\"\\ud800\"", "no JSON object"},
        {"\"F16\"", "\"F17\"", "type_before"},
        {"\"INT4_SYM_G64_R16\"", "4", "type_after"},
        {"\"bits\":4", "\"bits\":64", "bits"},
        {"1024", "-1024", "weights"},
        {"1024", "1024.5", "weights"},
        {"544", "99999999999999999999", "no JSON object"},
        {"0.0125", "-1", "error"},
        {"0.0125", "1e999", "no JSON object"},
        {"0.0125", "NaN", "no JSON object"},
        {"0.0125", "1e31", "error"},
        {"0.001", "true", "output_error"},
        {"\"gptq\"", "1", "method"},
        {"\"error\":0}", "\"terror\":0}", "tensor 1: \"error\""},
        {"\"tensors\":[", "\"tensors\":[null,", "tensor 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pn_error err;
        char *text = spoilt(cases[i].from, cases[i].to);
        pn_status status = parse(text, strlen(text), &err);
        free(text);
        assert_int_equal(status, PN_ERR_FORMAT);
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
    }
}

static void sizes_do_not_wrap(void **state) {
    (void)state;
    pn_error err;
    char *text = malloc(2000), *at = text;
    at += sprintf(at, "%.*s", (int)(strstr(good, "\"tensors\"") - good), good);
    at += sprintf(at, "\"tensors\":[");
    for (int i = 0; i < 3; i++)
        at += sprintf(
            at,
            "%s{\"name\":\"a\",\"type_before\":\"F16\",\"type_after\":\"F16\",\"bits\":0,\"weights\":1,"
            "\"bytes_before\":9223372036854775807,\"bytes_after\":1,\"error\":0}",
            i > 0 ? "," : "");
    sprintf(at, "]}");
    assert_int_equal(parse(text, strlen(text), &err), PN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "of a size that is possible"));
    free(text);
}

static void every_beginning_and_other_json_is_refused(void **state) {
    (void)state;
    static const char *const others[] = {
        "", " ", "null", "7", "\"text\"", "[]", "{}", "{\"tensors\":{}}", "\xff\xfe"};
    pn_error err;
    for (size_t len = 0; len < strlen(good) - 3; len++)
        assert_int_equal(parse(good, len, &err), PN_ERR_FORMAT);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(parse(others[i], strlen(others[i]), &err), PN_ERR_FORMAT);
}

static void random_damage_is_survived(void **state) {
    (void)state;
    pn_rng rng;
    pn_rng_seed(&rng, 7);
    for (int round = 0; round < 20000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (uint64_t i = 0; i <= pn_rng_u64(&rng) % 3; i++)
            text[pn_rng_u64(&rng) % (sizeof good - 1)] = (char)(pn_rng_u64(&rng) % 256);
        pn_error err;
        pn_status status = parse(text, sizeof good - 1, &err);
        assert_true(status == PN_OK || status == PN_ERR_FORMAT);
    }
}

static void too_much_is_refused(void **state) {
    (void)state;
    const size_t len = (size_t)17 << 20;
    pn_error err;
    char *text = malloc(len);
    memset(text, '[', len);
    assert_int_equal(parse(text, len, &err), PN_ERR_LIMIT);
    assert_int_equal(parse(text, len / 2, &err), PN_ERR_FORMAT);
    free(text);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    pn_error err;
    for (uint64_t nth = 1;; nth++) {
        pn_mem_fail_at(nth);
        pn_status status = parse(good, strlen(good), &err);
        pn_mem_fail_at(0);
        if (status == PN_OK) {
            assert_true(nth > 1);
            break;
        }
        assert_int_equal(status, PN_ERR_MEMORY);
        assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), 0);
    }
    assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), 0);
}

/* ---- in a file ---- */

static void add_tensors(gb_file *f, const char *name, uint32_t type) {
    gb_tensor(f, name, type, 2, (uint64_t[]){64, 16}, NULL);
    gb_tensor(f, "output_norm.weight", PN_QTYPE_ID_F32, 1, (uint64_t[]){32}, NULL);
}

static void check_file(gb_file *f, pn_status expected, const char *says) {
    pn_compress_result r;
    pn_error err = {0};
    gb_end(f);
    FILE *file = fopen(FILE_NAME, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(f->bytes, 1, f->len, file), f->len);
    assert_int_equal(fclose(file), 0);
    gb_free(f);
    assert_int_equal(pn_compress_read_report(FILE_NAME, &r, &err), expected);
    unlink(FILE_NAME);
    if (expected == PN_OK)
        pn_compress_result_free(&r);
    else if (!strstr(err.message, says) || !strstr(err.message, FILE_NAME))
        fail_msg("'%s' does not say '%s'", err.message, says);
}

static void the_report_must_be_of_its_file(void **state) {
    (void)state;
    const pn_qtype *packed = pn_panel_type(PN_PANEL_INT4_SYM, 64);
    gb_file f = gb_begin(3, 32);
    gb_string(&f, PN_REPORT_KEY, good);
    add_tensors(&f, "blk.0.attn_q.weight", packed->id);
    check_file(&f, PN_OK, "");
    f = gb_begin(3, 32);
    gb_string(&f, PN_REPORT_KEY, good);
    add_tensors(&f, "blk.0.attn_q.weight", PN_QTYPE_ID_F16);
    check_file(&f, PN_ERR_FORMAT, "no tensor blk.0.attn_q.weight of type INT4_SYM_G64_R16");
    f = gb_begin(3, 32);
    gb_string(&f, PN_REPORT_KEY, good);
    add_tensors(&f, "blk.0.attn_k.weight", packed->id);
    check_file(&f, PN_ERR_FORMAT, "no tensor blk.0.attn_q.weight");
    f = gb_begin(3, 32);
    gb_string(&f, PN_REPORT_KEY, good);
    gb_tensor(&f, "blk.0.attn_q.weight", packed->id, 2, (uint64_t[]){64, 16}, NULL);
    check_file(&f, PN_ERR_FORMAT, "2 tensors, the file has 1");
    f = gb_begin(3, 32);
    gb_u32(&f, PN_REPORT_KEY, 7);
    add_tensors(&f, "blk.0.attn_q.weight", packed->id);
    check_file(&f, PN_ERR_FORMAT, "is no text");
    f = gb_begin(3, 32);
    add_tensors(&f, "blk.0.attn_q.weight", packed->id);
    check_file(&f, PN_ERR_UNSUPPORTED, "holds no report");
}

static int enter_scratch_folder(void **state) {
    (void)state;
    static char folder[] = "/tmp/postern-report-XXXXXX";
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_scratch_folder(void **state) {
    (void)state;
    char folder[256];
    return getcwd(folder, sizeof folder) && chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(a_wrong_value_is_named),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(every_beginning_and_other_json_is_refused),
        cmocka_unit_test(random_damage_is_survived),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(the_report_must_be_of_its_file),
    };
    return cmocka_run_group_tests(tests, enter_scratch_folder, leave_scratch_folder);
}
