/* SPDX-License-Identifier: Apache-2.0 */
/* Compression of weights: what becomes of each tensor, that the written numbers are the nearest codes of
   every mode and group size, which layers get 8 bits, and that what cannot be done is refused and leaves
   nothing behind. */
#include "support/check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "compress/knapsack.h"
#include "engine/engine.h"
#include "quant/integer.h"
#include "support/gguf_build.h"
#include "weights/weights.h"

#include <postern.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IN  "compress-in.gguf"
#define OUT "compress-out.gguf"

static pn_rng rng;

/* ---- models: tensors named like those of one, which is all that compression looks at ---- */

enum { N_EMBD = 192, N_FF = 256, N_ROW = 21, N_VOCAB = 37 };

static float *random_weights(size_t n, float scale) {
    float *w = malloc(n * sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i] = scale * (float)(pn_rng_unit(&rng) + pn_rng_unit(&rng) - 0.9);
    return w;
}

static void matrix(gb_file *f, const char *name, uint64_t n_row, uint64_t n_col, const float *w) {
    gb_tensor(f, name, PN_QTYPE_ID_F32, 2, (uint64_t[]){n_col, n_row}, w);
}

static void random_matrix(gb_file *f, const char *name, uint64_t n_row, uint64_t n_col, float scale) {
    float *w = random_weights(n_row * n_col, scale);
    matrix(f, name, n_row, n_col, w);
    free(w);
}

static void write_file(gb_file *f) {
    gb_end(f);
    FILE *file = fopen(IN, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(f->bytes, 1, f->len, file), f->len);
    assert_int_equal(fclose(file), 0);
    gb_free(f);
}

/* Two layers, an embedding and norms; ffn_down's rows are a multiple of 128, the others' of 64. */
static void write_model(void) {
    gb_file f = gb_begin(3, 32);
    gb_u32(&f, "general.alignment", 32);
    gb_string(&f, "general.architecture", "test");
    random_matrix(&f, "token_embd.weight", N_VOCAB, N_EMBD, 1);
    for (int layer = 0; layer < 2; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", layer);
        random_matrix(&f, name, N_ROW, N_EMBD, 0.1f);
        snprintf(name, sizeof name, "blk.%d.ffn_down.weight", layer);
        random_matrix(&f, name, N_ROW, N_FF, 3);
        snprintf(name, sizeof name, "blk.%d.attn_norm.weight", layer);
        float *norm = random_weights(N_EMBD, 1);
        gb_tensor(&f, name, PN_QTYPE_ID_F32, 1, (uint64_t[]){N_EMBD}, norm);
        free(norm);
    }
    write_file(&f);
}

/* ---- reading back ---- */

static const pn_compressed_tensor *find(const pn_compress_result *r, const char *name) {
    for (size_t i = 0; i < r->n_tensors; i++)
        if (strcmp(r->tensors[i].name, name) == 0) return &r->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static pn_compress_result compress(const pn_compress_options *o) {
    pn_compress_result r;
    pn_error err;
    if (pn_compress_weights(IN, OUT, o, NULL, NULL, &r, &err) != PN_OK) fail_msg("%s", err.message);
    return r;
}

/* The nearest code by exhaustion. */
static float nearest(pn_panel_kind kind, pn_integer_scale scale, float w) {
    const pn_panel_format f = pn_panel_formats[kind];
    const float d = pn_f16_to_f32(scale.d);
    float best = INFINITY;
    for (int code = 0; code < 1 << f.bits; code++) {
        float value = d * (float)(code - (f.min ? scale.zero : f.zero));
        if (fabsf(value - w) < fabsf(best - w)) best = value;
    }
    return best;
}

/* The weights of OUT are the nearest that the scales of each group allow, and the error is the reported one.
 */
static void check_matrix(const pn_gguf *in, const pn_gguf *out, const pn_compressed_tensor *report) {
    const pn_gguf_tensor *before = pn_gguf_find_tensor(in, report->name),
                         *after = pn_gguf_find_tensor(out, report->name);
    const pn_qtype *type = pn_qtype_find(after->type);
    const pn_panel_kind kind = pn_panel_kind_of(type);
    const size_t n_col = (size_t)before->dims[0], n_row = (size_t)before->dims[1];
    const pn_panel_shape shape = pn_panel_shape_of(type, n_col);
    const float *w = (const float *)(const void *)before->data;
    float *row = malloc(n_col * sizeof *row);
    double lost = 0, all = 0;
    for (size_t r = 0; r < n_row; r++, w += n_col) {
        pn_panel_decode_row(kind, shape, after->data + r / 16 * pn_panel_bytes(kind, shape), r % 16, row);
        for (size_t c = 0; c < n_col; c++) {
            pn_integer_scale scale;
            size_t group = c / shape.group * shape.group;
            float range[2];
            pn_integer_find_range(w + group, shape.group, range);
            assert_int_equal(pn_integer_find_scale(kind, range, &scale), PN_INTEGER_RANGE_OK);
            float step = fabsf(pn_f16_to_f32(scale.d));
            assert_true(fabsf(row[c] - w[c]) <= fabsf(nearest(kind, scale, w[c]) - w[c]) + 1e-5f * step);
            lost += pow((double)row[c] - (double)w[c], 2);
            all += pow((double)w[c], 2);
        }
    }
    assert_true(fabs(report->error - lost / all) <= 1e-5 * report->error);
    free(row);
}

static void open_both(pn_gguf **in, pn_gguf **out) {
    pn_error err;
    if (pn_gguf_open(IN, in, &err) != PN_OK || pn_gguf_open(OUT, out, &err) != PN_OK)
        fail_msg("%s", err.message);
}

static void every_mode_and_group_writes_the_nearest_codes(void **state) {
    (void)state;
    static const int groups[] = {32, 64, 128, -1};
    write_model();
    for (pn_weight_mode mode = PN_WEIGHTS_INT4_ASYM; mode <= PN_WEIGHTS_INT8_SYM; mode++)
        for (size_t g = 0; g < 4; g++)
            for (int all = 0; all < 2; all++) {
                pn_compress_options o = pn_compress_options_default();
                o.mode = mode;
                o.group_size = groups[g];
                o.all_layers = all;
                o.ratio = 1;
                o.n_threads = 1 + all;
                pn_compress_result r = compress(&o);
                pn_gguf *in, *out;
                open_both(&in, &out);
                for (size_t i = 0; i < r.n_tensors; i++)
                    if (r.tensors[i].why)
                        check_matrix(in, out, &r.tensors[i]);
                    else
                        assert_string_equal(r.tensors[i].type_after, "F32");
                pn_gguf_close(in);
                pn_gguf_close(out);
                pn_compress_result_free(&r);
            }
}

static void names_of_types_say_bits_and_group(void **state) {
    (void)state;
    write_model();
    pn_compress_options o = pn_compress_options_default();
    o.ratio = 1;
    pn_compress_result r = compress(&o);
    assert_string_equal(find(&r, "token_embd.weight")->type_after, "INT8_ASYM_CH_R16");
    assert_string_equal(find(&r, "blk.0.ffn_down.weight")->type_after, "INT4_ASYM_G128_R16");
    assert_string_equal(find(&r, "blk.0.attn_q.weight")->type_after, "INT4_ASYM_G64_R16"); /* adjusted */
    assert_true(r.ratio == 1 && r.bytes_after < r.bytes_before / 3);
    pn_compress_result_free(&r);
    o.fallback = PN_GROUP_IGNORE;
    o.backup = PN_BACKUP_NONE;
    r = compress(&o);
    assert_string_equal(find(&r, "token_embd.weight")->type_after, "F32_R16");
    assert_string_equal(find(&r, "blk.1.attn_q.weight")->type_after, "F32_R16");
    pn_compress_result_free(&r);
    o = pn_compress_options_default();
    o.ratio = 1;
    o.mode = PN_WEIGHTS_INT4_SYM;
    o.all_layers = true;
    o.ignore = (const char *const[]){"blk.1.*"};
    o.n_ignore = 1;
    r = compress(&o);
    assert_string_equal(find(&r, "token_embd.weight")->type_after, "INT4_SYM_G64_R16");
    assert_string_equal(find(&r, "blk.0.attn_q.weight")->type_after, "INT4_SYM_G64_R16");
    assert_string_equal(find(&r, "blk.1.attn_q.weight")->type_after, "F32_R16");
    pn_compress_result_free(&r);
}

/* A head of its own and an embedding with the same weights, of which only the head is in two parts; they read
   back the same. */
static void a_large_head_is_written_in_two_parts(void **state) {
    (void)state;
    enum { LARGE = 8200, N_COL = 32 };
    float *w = random_weights(LARGE * N_COL, 1), before[N_COL], after[N_COL];
    gb_file f = gb_begin(3, 32);
    gb_u32(&f, "general.alignment", 32);
    matrix(&f, "token_embd.weight", LARGE, N_COL, w);
    matrix(&f, "output.weight", LARGE, N_COL, w);
    write_file(&f);
    free(w);
    for (pn_weight_mode mode = PN_WEIGHTS_INT8_ASYM; mode <= PN_WEIGHTS_INT8_SYM; mode++) {
        pn_compress_options o = pn_compress_options_default();
        o.mode = mode;
        pn_compress_result r = compress(&o);
        const bool asym = mode == PN_WEIGHTS_INT8_ASYM;
        assert_string_equal(find(&r, "token_embd.weight")->type_after,
                            asym ? "INT8_ASYM_CH_R16" : "INT8_SYM_CH_R16");
        assert_string_equal(find(&r, "output.weight")->type_after,
                            asym ? "INT8_ASYM_CH_R16_SPLIT" : "INT8_SYM_CH_R16_SPLIT");
        pn_compress_result_free(&r);
        pn_weights *weights;
        pn_weight whole, split;
        assert_int_equal(pn_weights_open(OUT, &weights, NULL), PN_OK);
        assert_int_equal(
            pn_weights_find_matrix(weights, "token_embd.weight", 0, N_COL, PN_REQUIRED, &whole, NULL), PN_OK);
        assert_int_equal(
            pn_weights_find_head(weights, "output.weight", LARGE, N_COL, PN_REQUIRED, &split, NULL), PN_OK);
        assert_true(!whole.split.low && split.split.low && whole.kind == split.kind);
        for (size_t row = 0; row < LARGE; row++) {
            pn_weight_decode_row(&whole, row, before);
            pn_weight_decode_row(&split, row, after);
            assert_memory_equal(before, after, sizeof before);
        }
        pn_weights_close(weights);
    }
}

static void the_file_says_what_was_done(void **state) {
    (void)state;
    write_model();
    pn_compress_result r = compress(NULL);
    pn_gguf *in, *out;
    open_both(&in, &out);
    assert_true(pn_str_equal(pn_gguf_find_key(out, "general.architecture")->as.str, PN_STR("test")));
    pn_str report = pn_gguf_find_key(out, "postern.compression.report")->as.str;
    char *text = malloc(report.len + 1);
    memcpy(text, report.data, report.len);
    text[report.len] = '\0';
    assert_non_null(strstr(text, "\"mode\":\"int4_asym\""));
    assert_non_null(strstr(text, "\"source\":\"" IN "\""));
    assert_non_null(strstr(text, "\"source_hash\":\"xxh3-128:"));
    assert_null(strstr(text, "xxh3-128:0000000000000000"));
    assert_non_null(strstr(text, "blk.1.ffn_down.weight"));
    free(text);
    pn_gguf_close(in);
    pn_gguf_close(out);
    pn_compress_result_free(&r);
}

static void same_text(const char *a, const char *b) {
    if (a && b)
        assert_string_equal(a, b);
    else
        assert_true(!a && !b);
}

/* What the file says, read back, is what the caller got, but for times and digits of errors. */
static void the_report_comes_back(void **state) {
    (void)state;
    write_model();
    pn_compress_options o = pn_compress_options_default();
    o.ratio = 0.6;
    o.backup = PN_BACKUP_INT8_SYM;
    pn_compress_result r = compress(&o), again;
    pn_error err;
    if (pn_compress_read_report(OUT, &again, &err) != PN_OK) fail_msg("%s", err.message);
    same_text(again.source, IN);
    same_text(again.source_hash, r.source_hash);
    same_text(again.mode, "int4_asym");
    same_text(again.backup, "int8_sym");
    same_text(again.sensitivity, "weight-error");
    same_text(again.ways, "");
    assert_true(again.group_size == 128 && again.ratio_asked == 0.6 && !again.all_layers);
    assert_true(again.calibration_sequences == 0 && fabs(again.ratio - r.ratio) < 1e-6);
    assert_true(again.bytes_before == r.bytes_before && again.bytes_after == r.bytes_after);
    assert_int_equal(again.n_tensors, r.n_tensors);
    for (size_t i = 0; i < r.n_tensors; i++) {
        const pn_compressed_tensor *a = &r.tensors[i], *b = &again.tensors[i];
        same_text(a->name, b->name);
        same_text(a->type_before, b->type_before);
        same_text(a->type_after, b->type_after);
        same_text(a->why, b->why);
        same_text(a->method, b->method);
        assert_true(a->bits == b->bits && a->n_weights == b->n_weights);
        assert_true(a->bytes_before == b->bytes_before && a->bytes_after == b->bytes_after);
        assert_true(fabs(a->error - b->error) <= 1e-5 * a->error && a->output_error == b->output_error);
        assert_true((a->bits > 0) == (a->method != NULL) && a->seconds >= 0 && b->seconds == 0);
    }
    pn_compress_result_free(&r);
    pn_compress_result_free(&again);
}

/* ---- which layers have 8 bits ---- */

static void the_knapsack_is_the_best_of_all_subsets(void **state) {
    (void)state;
    enum { N = 10 };
    for (int round = 0; round < 200; round++) {
        uint64_t sizes[N], capacity = pn_rng_u64(&rng) % 200, step = round % 2 ? 1 : 1 + pn_rng_u64(&rng) % 7;
        double values[N], best = 0, found = 0;
        bool chosen[N];
        uint64_t taken = 0;
        for (size_t i = 0; i < N; i++) {
            sizes[i] = step * (1 + pn_rng_u64(&rng) % 40);
            values[i] = pn_rng_unit(&rng) - 0.1;
        }
        for (unsigned set = 0; set < 1u << N; set++) {
            double value = 0;
            uint64_t size = 0;
            for (size_t i = 0; i < N; i++)
                if (set >> i & 1) {
                    value += values[i];
                    size += sizes[i];
                }
            if (size <= capacity && value > best) best = value;
        }
        assert_int_equal(pn_knapsack(sizes, values, N, capacity, chosen, NULL), PN_OK);
        for (size_t i = 0; i < N; i++)
            if (chosen[i]) {
                found += values[i];
                taken += sizes[i];
            }
        assert_true(taken <= capacity && fabs(found - best) < 1e-9);
    }
}

static void sizes_without_a_divisor_still_fit(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1000000007, 999999937, 998244353, 1};
    static const double values[] = {1, 1.5, 2, 0.1};
    bool chosen[4];
    assert_int_equal(pn_knapsack(sizes, values, 4, 2000000000, chosen, NULL), PN_OK);
    assert_true(!chosen[0] && chosen[1] && chosen[2]);
    assert_int_equal(pn_knapsack(sizes, values, 4, 0, chosen, NULL), PN_OK);
    assert_true(!chosen[0] && !chosen[1] && !chosen[2] && !chosen[3]);
}

/* attn_q of layer 1 has one outlier per group, which 4 bits do badly. */
static void what_suffers_most_has_8_bits(void **state) {
    (void)state;
    gb_file f = gb_begin(3, 32);
    for (int layer = 0; layer < 4; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", layer);
        float *w = random_weights((size_t)N_ROW * N_EMBD, 1);
        for (size_t i = 0; layer == 1 && i < (size_t)N_ROW * N_EMBD; i += 32)
            w[i] = 20;
        matrix(&f, name, N_ROW, N_EMBD, w);
        free(w);
    }
    write_file(&f);
    pn_compress_options o = pn_compress_options_default();
    o.ratio = 0.75;
    pn_compress_result r = compress(&o);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(strncmp(r.tensors[i].type_after, i == 1 ? "INT8" : "INT4", 4), 0);
    assert_true(r.ratio == 0.75);
    uint64_t one_in_8 = r.bytes_after;
    pn_compress_result_free(&r);
    o.ratio = 0.74; /* not enough for two */
    r = compress(&o);
    assert_true(r.ratio == 0.75);
    pn_compress_result_free(&r);
    o.target_bytes = one_in_8;
    r = compress(&o);
    assert_true(r.bytes_after == one_in_8 && r.ratio == 0.75);
    pn_compress_result_free(&r);
    o.target_bytes = 0;
    o.target_bits = 8 * (double)one_in_8 / (4.0 * N_ROW * N_EMBD);
    r = compress(&o);
    assert_true(r.bytes_after == one_in_8);
    pn_compress_result_free(&r);
}

/* ---- what cannot be done ---- */

static void refused(const pn_compress_options *o, pn_status code, const char *says) {
    pn_compress_result r;
    pn_error err;
    unlink(OUT);
    assert_int_equal(pn_compress_weights(IN, OUT, o, NULL, NULL, &r, &err), code);
    if (!strstr(err.message, says)) fail_msg("'%s' does not say '%s'", err.message, says);
    assert_int_equal(access(OUT, F_OK), -1);
}

#define REFUSED(change, code, says)                                                                          \
    do {                                                                                                     \
        pn_compress_options o = pn_compress_options_default();                                               \
        change;                                                                                              \
        refused(&o, code, says);                                                                             \
    } while (0)

static void what_cannot_be_done_is_said(void **state) {
    (void)state;
    write_model();
    REFUSED(o.group_size = 48, PN_ERR_ARGUMENT, "32, 64, 128");
    REFUSED(o.ratio = 1.5, PN_ERR_ARGUMENT, "from 0 to 1");
    REFUSED(o.ratio = NAN, PN_ERR_ARGUMENT, "from 0 to 1");
    REFUSED(o.target_bits = -1, PN_ERR_ARGUMENT, "bits per weight");
    REFUSED((o.target_bytes = 1, o.target_bits = 4), PN_ERR_ARGUMENT, "two targets");
    REFUSED((o.target_bytes = 1, o.mode = PN_WEIGHTS_INT8_SYM), PN_ERR_ARGUMENT, "INT4");
    REFUSED(o.target_bytes = 1000, PN_ERR_ARGUMENT, "the least is");
    REFUSED(o.fallback = PN_GROUP_ERROR, PN_ERR_ARGUMENT, "blk.0.attn_q.weight");
}

static void bad_weights_are_named(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e9f};
    for (size_t i = 0; i < 4; i++) {
        gb_file f = gb_begin(3, 32);
        float *w = random_weights((size_t)N_ROW * N_EMBD, 1);
        w[19 * N_EMBD + 100] = bad[i];
        matrix(&f, "blk.0.ffn_up.weight", N_ROW, N_EMBD, w);
        free(w);
        write_file(&f);
        REFUSED((void)o, PN_ERR_NUMERIC, "blk.0.ffn_up.weight");
        REFUSED((void)o, PN_ERR_NUMERIC, "row 19");
        REFUSED(o.ratio = 1, PN_ERR_NUMERIC, "row 19");
    }
    gb_file f = gb_begin(3, 32);
    gb_tensor(&f, "blk.0.ffn_up.weight", PN_QTYPE_ID_Q4_1, 2, (uint64_t[]){N_EMBD, N_ROW}, NULL);
    write_file(&f);
    REFUSED((void)o, PN_ERR_UNSUPPORTED, "Q4_1");
}

/* Zeros, denormals and numbers of every size within a half's reach come through. */
static void odd_weights_come_through(void **state) {
    (void)state;
    static const float sizes[] = {0, 1e-45f, 1e-30f, 1e-7f, 65504, 4e5f};
    gb_file f = gb_begin(3, 32);
    for (size_t i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%zu.attn_q.weight", i);
        random_matrix(&f, name, N_ROW, N_EMBD, sizes[i]);
    }
    float *rows = random_weights((size_t)N_ROW * N_EMBD, 1); /* rows of one sign, and a row of zeros */
    for (size_t c = 0; c < N_EMBD; c++) {
        rows[c] = 1 + fabsf(rows[c]);
        rows[N_EMBD + c] = -1 - fabsf(rows[N_EMBD + c]);
        rows[2 * N_EMBD + c] = 0;
    }
    matrix(&f, "blk.6.attn_q.weight", N_ROW, N_EMBD, rows);
    free(rows);
    write_file(&f);
    for (pn_weight_mode mode = PN_WEIGHTS_INT4_ASYM; mode <= PN_WEIGHTS_INT8_SYM; mode++) {
        pn_compress_options o = pn_compress_options_default();
        o.mode = mode;
        o.ratio = 1;
        pn_compress_result r = compress(&o);
        for (size_t i = 0; i < r.n_tensors; i++)
            assert_true(r.tensors[i].error >= 0 && r.tensors[i].error <= 1);
        assert_true(r.tensors[0].error == 0 && r.tensors[4].error < 0.02 && r.tensors[6].error < 0.02);
        pn_compress_result_free(&r);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    write_model();
    pn_compress_options o = pn_compress_options_default();
    o.n_threads = 1;
    for (uint64_t nth = 1;; nth++) {
        pn_compress_result r;
        pn_error err;
        unlink(OUT);
        pn_mem_fail_at(nth);
        pn_status status = pn_compress_weights(IN, OUT, &o, NULL, NULL, &r, &err);
        pn_mem_fail_at(0);
        if (status == PN_OK) {
            assert_true(nth > 10);
            pn_compress_result_free(&r);
            break;
        }
        assert_int_equal(status, PN_ERR_MEMORY);
        assert_int_equal(access(OUT, F_OK), -1);
    }
    assert_int_equal(pn_mem_bytes(PN_MEM_SCRATCH), 0);
    assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), 0);
}

/* A file may take the place of its own source: that stays readable until the new one is whole. */
static void the_output_may_replace_the_input(void **state) {
    (void)state;
    write_model();
    pn_compress_result r, again;
    pn_error err;
    pn_compress_options o = pn_compress_options_default();
    r = compress(&o);
    assert_int_equal(pn_compress_weights(IN, IN, &o, NULL, NULL, &again, &err), PN_OK);
    char command[] = "cmp -s " IN " " OUT;
    assert_int_equal(system(command), 0);
    pn_compress_result_free(&r);
    pn_compress_result_free(&again);
}

static int enter_scratch_folder(void **state) {
    (void)state;
    static char folder[] = "/tmp/postern-compress-XXXXXX";
    pn_rng_seed(&rng, 11);
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_scratch_folder(void **state) {
    (void)state;
    char folder[256];
    unlink(IN);
    unlink(OUT);
    return getcwd(folder, sizeof folder) && chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

/* What advice on a memory budget says of it, without compressing. Which matrices have 8 bits depends on their
   weights, and whether any is small enough on their sizes: of a few, less may have them than the share asked
   for. */
static void the_size_is_known_beforehand(void **state) {
    (void)state;
    for (int bits = 8; bits >= 4; bits -= 4) {
        pn_compress_options o = pn_compress_options_default();
        if (bits == 8) o.mode = PN_WEIGHTS_INT8_ASYM;
        write_model();
        pn_compress_result r = compress(&o);
        pn_gguf *in, *out;
        assert_int_equal(pn_gguf_open(IN, &in, NULL), PN_OK);
        assert_int_equal(pn_gguf_open(OUT, &out, NULL), PN_OK);
        uint64_t bytes = 0;
        for (size_t i = 0; i < pn_gguf_n_tensors(out); i++)
            if (pn_gguf_tensor_at(out, i)->n_dims == 2) bytes += pn_gguf_tensor_at(out, i)->n_bytes;
        const uint64_t known = pn_plan_compressed_bytes(in, bits);
        /* 8 bits for a tenth of the layers' weights would add a tenth of what they take in 4 */
        assert_in_range(known, bytes, bits == 8 ? bytes : bytes + bytes / 10);
        assert_true(pn_plan_compressed_bytes(out, bits) == UINT64_MAX); /* as compress refuses it */
        pn_gguf_close(in);
        pn_gguf_close(out);
        pn_compress_result_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_and_group_writes_the_nearest_codes),
        cmocka_unit_test(names_of_types_say_bits_and_group),
        cmocka_unit_test(a_large_head_is_written_in_two_parts),
        cmocka_unit_test(the_file_says_what_was_done),
        cmocka_unit_test(the_report_comes_back),
        cmocka_unit_test(the_knapsack_is_the_best_of_all_subsets),
        cmocka_unit_test(sizes_without_a_divisor_still_fit),
        cmocka_unit_test(what_suffers_most_has_8_bits),
        cmocka_unit_test(the_size_is_known_beforehand),
        cmocka_unit_test(what_cannot_be_done_is_said),
        cmocka_unit_test(bad_weights_are_named),
        cmocka_unit_test(odd_weights_come_through),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(the_output_may_replace_the_input),
    };
    return cmocka_run_group_tests(tests, enter_scratch_folder, leave_scratch_folder);
}
