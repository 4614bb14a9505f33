/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a file to hyper-parameters. */
#include "support/check.h"
#include "support/gguf_build.h"

#include "model/arch.h"

#include <math.h>

static gb_file begin_file_without_eps(const char *arch, uint32_t n_embd, uint32_t n_head) {
    static const char *const counts[] = {"block_count", "feed_forward_length", "context_length"};
    gb_file f = gb_begin(3, 32);
    gb_string(&f, "general.architecture", arch);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        gb_u32(&f, pn_arch_key_of(arch, counts[i]).text, 62);
    gb_u32(&f, pn_arch_key_of(arch, "embedding_length").text, n_embd);
    gb_u32(&f, pn_arch_key_of(arch, "attention.head_count").text, n_head);
    return f;
}

static gb_file begin_file(const char *arch, uint32_t n_embd, uint32_t n_head) {
    gb_file f = begin_file_without_eps(arch, n_embd, n_head);
    gb_f32(&f, pn_arch_key_of(arch, "attention.layer_norm_rms_epsilon").text, 1e-5f);
    return f;
}

static pn_status read_file(gb_file *f, pn_hparams *h, pn_error *err) {
    pn_gguf *g = NULL;
    gb_end(f);
    assert_int_equal(pn_gguf_parse(f->bytes, f->len, "test.gguf", &g, NULL), PN_OK);
    pn_status status = pn_arch_read(g, h, err);
    pn_gguf_close(g);
    gb_free(f);
    return status;
}

static void plain_llama_has_the_defaults(void **state) {
    (void)state;
    pn_hparams h;
    gb_file f = begin_file("llama", 256, 8);
    assert_int_equal(read_file(&f, &h, NULL), PN_OK);
    assert_int_equal(h.n_head_kv, 8);
    assert_int_equal(h.head_dim, 32);
    assert_int_equal(h.rope_dim, 32);
    assert_false(h.rope_halves);
    assert_true(h.rope[PN_LAYER_GLOBAL].base == 10000.0 && h.rope[PN_LAYER_GLOBAL].scale == 1.0);
    assert_true(fabsf(h.attention_scale - 1.0f / sqrtf(32.0f)) < 1e-7f);
    assert_int_equal(pn_layer_kind_of(&h, 0), PN_LAYER_GLOBAL);
}

static void a_rope_factor_is_linear_unless_the_type_says_otherwise(void **state) {
    (void)state;
    static const struct {
        const char *type, *key;
        double scale; /* 0: refused */
    } cases[] = {{NULL, "llama.rope.scaling.factor", 4},     {NULL, "llama.rope.scale_linear", 4},
                 {"linear", "llama.rope.scaling.factor", 4}, {"none", "llama.rope.scaling.factor", 1},
                 {"none", "llama.rope.scale_linear", 1},     {"yarn", "llama.rope.scaling.factor", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pn_hparams h = {0};
        gb_file f = begin_file("llama", 256, 8);
        if (cases[i].type) gb_string(&f, "llama.rope.scaling.type", cases[i].type);
        gb_f32(&f, cases[i].key, 4.0f);
        assert_int_equal(read_file(&f, &h, NULL), cases[i].scale == 0 ? PN_ERR_UNSUPPORTED : PN_OK);
        assert_true(h.rope[PN_LAYER_GLOBAL].scale == cases[i].scale);
    }
}

/* As the 27B model's files have it: 62 layers, scaling of the global layers alone. */
static void gemma_scales_global_layers_only(void **state) {
    (void)state;
    pn_hparams h;
    gb_file f = begin_file("gemma3", 5376, 32);
    gb_u32(&f, "gemma3.attention.head_count_kv", 16);
    gb_u32(&f, "gemma3.attention.key_length", 128);
    gb_u32(&f, "gemma3.attention.value_length", 128);
    gb_u32(&f, "gemma3.attention.sliding_window", 1024);
    gb_f32(&f, "gemma3.rope.freq_base", 1e6f);
    gb_string(&f, "gemma3.rope.scaling.type", "linear");
    gb_f32(&f, "gemma3.rope.scaling.factor", 8.0f);
    assert_int_equal(read_file(&f, &h, NULL), PN_OK);
    assert_int_equal(h.head_dim, 128);
    assert_true(h.rope[PN_LAYER_GLOBAL].base == 1e6 && h.rope[PN_LAYER_GLOBAL].scale == 8.0);
    assert_true(h.rope[PN_LAYER_LOCAL].base == 1e4 && h.rope[PN_LAYER_LOCAL].scale == 1.0);
    assert_true(fabsf(h.attention_scale - 1.0f / sqrtf(168.0f)) < 1e-7f);
    assert_int_equal(pn_layer_kind_of(&h, 4), PN_LAYER_LOCAL);
    assert_int_equal(pn_layer_kind_of(&h, 5), PN_LAYER_GLOBAL);
}

static void heads_that_get_no_values_are_refused(void **state) {
    (void)state;
    pn_hparams h;
    pn_error err;
    gb_file f = begin_file("llama", 32, 64);
    assert_int_equal(read_file(&f, &h, &err), PN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "64 heads"));
}

static void the_epsilon_is_not_guessed(void **state) {
    (void)state;
    pn_hparams h;
    pn_error err;
    gb_file f = begin_file_without_eps("llama", 256, 8);
    assert_int_equal(read_file(&f, &h, &err), PN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "epsilon"));
}

static void a_window_makes_every_llama_layer_local(void **state) {
    (void)state;
    pn_hparams h;
    gb_file f = begin_file("llama", 256, 8);
    gb_u32(&f, "llama.attention.sliding_window", 4096);
    assert_int_equal(read_file(&f, &h, NULL), PN_OK);
    for (int layer = 0; layer < 62; layer++)
        assert_int_equal(pn_layer_kind_of(&h, layer), PN_LAYER_LOCAL);
    assert_int_equal(h.window, 4096);
}

static void an_unknown_architecture_is_named(void **state) {
    (void)state;
    pn_hparams h;
    pn_error err;
    gb_file f = begin_file("mamba", 256, 8);
    assert_int_equal(read_file(&f, &h, &err), PN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "mamba"));
    assert_non_null(strstr(err.message, "gemma3, llama"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_llama_has_the_defaults),
        cmocka_unit_test(a_rope_factor_is_linear_unless_the_type_says_otherwise),
        cmocka_unit_test(gemma_scales_global_layers_only),
        cmocka_unit_test(heads_that_get_no_values_are_refused),
        cmocka_unit_test(the_epsilon_is_not_guessed),
        cmocka_unit_test(a_window_makes_every_llama_layer_local),
        cmocka_unit_test(an_unknown_architecture_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
