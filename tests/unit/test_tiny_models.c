/* SPDX-License-Identifier: Apache-2.0 */
/* Every architecture against transformers, layer by layer: tiny random models and what the reference computes
   for them (tests/golden/make_tiny_models.py describes the files). The float path must agree to 1e-4
   everywhere, quantised inputs stay close, and in every precision the result must not depend on chunks or
   threads in a single bit. */
#include "support/caches.h"
#include "support/check.h"

#include "base/cursor.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/decoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"llama-gqa",  "llama-untied-mha", "llama-f16",    "llama-q8",
                                    "llama-bias", "gemma3-window",    "gemma3-linear"};

/* The one whose matrices have integer codes, of eight types: in the others nothing is quantised. */
#define CODED "llama-q8"

/* Of the float path; and with inputs of 16 and of 8 bits, three times what was measured. */
#define TOLERANCE      1e-4
#define TOLERANCE_HIGH 4e-3
#define TOLERANCE_FAST 1.2

struct reference {
    pn_map map;
    size_t n_tok, n_layer, n_embd, n_vocab, n_pos;
    const int32_t *ids, *positions;
    const float *stream; /* [n_layer + 1, n_tok, n_embd] */
    const float *logits; /* [n_pos, n_vocab] */
};

static void open_reference(const char *name, struct reference *r) {
    char path[256];
    pn_error err;
    snprintf(path, sizeof path, "tests/golden/tiny/%s.ref", name);
    if (pn_map_open(path, &r->map, &err) != PN_OK) fail_msg("%s", err.message);
    pn_cursor c = pn_cursor_make(r->map.data, r->map.len);
    assert_true(pn_str_equal(pn_cursor_bytes(&c, 4), PN_STR("PNRF")));
    assert_int_equal(pn_cursor_u32(&c), 1);
    r->n_tok = pn_cursor_u32(&c);
    r->n_layer = pn_cursor_u32(&c);
    r->n_embd = pn_cursor_u32(&c);
    r->n_vocab = pn_cursor_u32(&c);
    r->n_pos = pn_cursor_u32(&c);
    r->ids = (const void *)pn_cursor_bytes(&c, 4 * r->n_tok).data;
    r->positions = (const void *)pn_cursor_bytes(&c, 4 * r->n_pos).data;
    r->stream = (const void *)pn_cursor_bytes(&c, 4 * (r->n_layer + 1) * r->n_tok * r->n_embd).data;
    r->logits = (const void *)pn_cursor_bytes(&c, 4 * r->n_pos * r->n_vocab).data;
    assert_int_equal(pn_cursor_check(&c, "reference", NULL), PN_OK);
    assert_int_equal(pn_cursor_left(&c), 0);
}

struct precision {
    pn_precision matrices;
    pn_kv_type cache;
};

/* A decoder with its cache, run in chunks. */
struct run {
    pn_decoder *decoder;
    pn_pool *pool;
    pn_scratch scratch;
    pn_kv kv;
};

static void start(struct run *run, const char *name, int n_threads, size_t n_chunk, struct precision p) {
    char path[256];
    pn_error err;
    pn_weights *weights;
    snprintf(path, sizeof path, "tests/golden/tiny/%s.gguf", name);
    assert_int_equal(pn_pool_create(n_threads, &run->pool, NULL), PN_OK);
    if (pn_weights_open(path, &weights, &err) != PN_OK ||
        pn_decoder_create(weights, run->pool, &run->decoder, &err) != PN_OK)
        fail_msg("%s", err.message);
    pn_kv_shape shape = pn_decoder_kv_shape(run->decoder, p.cache);
    assert_int_equal(pn_scratch_init(&run->scratch, run->decoder, p.matrices, n_chunk, n_threads, NULL),
                     PN_OK);
    run->kv = open_kv(&shape, 200, n_chunk);
}

static void stop(struct run *run) {
    pn_kv_done(&run->kv);
    pn_scratch_done(&run->scratch);
    pn_pool_free(run->pool);
    pn_decoder_free(run->decoder);
}

static void forward(struct run *run, const int32_t *ids, size_t n, const pn_observer *observer,
                    float *logits) {
    pn_forward f = {.decoder = run->decoder,
                    .kernels = pn_kernels_host(),
                    .pool = run->pool,
                    .scratch = &run->scratch,
                    .kv = &run->kv,
                    .observer = observer};
    assert_int_equal(pn_kv_reserve(&run->kv, run->kv.n_tokens + n, NULL), PN_OK);
    pn_logits wanted = {.logits = logits, .n = 1};
    assert_true(pn_decoder_forward(&f, ids, n, &wanted));
}

static double greatest_difference(const float *a, const float *b, size_t n) {
    double greatest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= greatest)) greatest = d; /* also takes a NaN */
    }
    return greatest;
}

struct watch {
    const struct reference *r;
    size_t first; /* position of the batch */
    double greatest[64];
};

static void compare_layer(void *user, int layer, const float *x, size_t n_tok, size_t n_embd) {
    struct watch *w = user;
    const float *want = w->r->stream + (((size_t)(layer + 1) * w->r->n_tok) + w->first) * n_embd;
    double d = greatest_difference(x, want, n_tok * n_embd);
    if (!(d <= w->greatest[layer + 1])) w->greatest[layer + 1] = d;
}

static void check_against_reference(const char *name, struct precision p, double tolerance) {
    struct reference r;
    struct run run;
    open_reference(name, &r);
    start(&run, name, 2, r.n_tok, p);
    assert_int_equal(run.decoder->h.n_layer, r.n_layer);
    assert_int_equal(run.decoder->n_vocab, r.n_vocab);
    struct watch watch = {.r = &r};
    pn_observer observer = {compare_layer, &watch};
    float *logits = malloc(r.n_vocab * sizeof *logits);
    double worst = 0;
    for (size_t i = 0; i < r.n_pos; i++) { /* chunks that end where the reference gives logits */
        size_t end = (size_t)r.positions[i] + 1;
        watch.first = run.kv.n_tokens;
        forward(&run, r.ids + watch.first, end - watch.first, &observer, logits);
        double d = greatest_difference(logits, r.logits + i * r.n_vocab, r.n_vocab);
        if (!(d <= worst)) worst = d;
    }
    for (size_t layer = 0; layer <= r.n_layer; layer++)
        if (!(watch.greatest[layer] <= tolerance))
            fail_msg("%s: layer %d differs by %g", name, (int)layer - 1, watch.greatest[layer]);
    if (!(worst <= tolerance)) fail_msg("%s: logits differ by %g", name, worst);
    print_message("%s: logits within %.1e\n", name, worst);
    free(logits);
    stop(&run);
    pn_map_close(&r.map);
}

static void every_layer_matches_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_against_reference(names[i], (struct precision){PN_PRECISION_EXACT, PN_KV_F32}, TOLERANCE);
}

static void a_half_cache_stays_close(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_against_reference(names[i], (struct precision){PN_PRECISION_EXACT, PN_KV_F16}, 5e-2);
}

static void quantised_inputs_stay_close(void **state) {
    (void)state;
    check_against_reference(CODED, (struct precision){PN_PRECISION_HIGH, PN_KV_F32}, TOLERANCE_HIGH);
    check_against_reference(CODED, (struct precision){PN_PRECISION_FAST, PN_KV_F32}, TOLERANCE_FAST);
}

static void all_logits(const char *name, const struct reference *r, int n_threads, size_t n_chunk,
                       struct precision p, float *out) {
    struct run run;
    start(&run, name, n_threads, n_chunk, p);
    while (run.kv.n_tokens < r->n_tok) {
        size_t at = run.kv.n_tokens, n = r->n_tok - at < n_chunk ? r->n_tok - at : n_chunk;
        forward(&run, r->ids + at, n, NULL, out);
    }
    stop(&run);
}

static void check_chunks_and_threads(const char *name, struct precision p) {
    static const size_t chunks[] = {1, 2, 3, 4, 5, 7, 16, 32, 40};
    struct reference r;
    open_reference(name, &r);
    float *whole = malloc(r.n_vocab * sizeof *whole), *parts = malloc(r.n_vocab * sizeof *parts);
    all_logits(name, &r, 1, r.n_tok, p, whole);
    for (int n_threads = 1; n_threads <= 3; n_threads++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            all_logits(name, &r, n_threads, chunks[c], p, parts);
            if (memcmp(whole, parts, r.n_vocab * sizeof *whole) != 0)
                fail_msg("%s, precision %d: %d threads, chunks of %zu: logits differ by %g", name,
                         (int)p.matrices, n_threads, chunks[c], greatest_difference(whole, parts, r.n_vocab));
        }
    free(whole);
    free(parts);
    pn_map_close(&r.map);
}

static void chunks_and_threads_change_no_bit(void **state) {
    (void)state;
    for (int cache = PN_KV_F16; cache <= PN_KV_F32; cache++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            check_chunks_and_threads(names[i], (struct precision){PN_PRECISION_EXACT, (pn_kv_type)cache});
        check_chunks_and_threads(CODED, (struct precision){PN_PRECISION_HIGH, (pn_kv_type)cache});
        check_chunks_and_threads(CODED, (struct precision){PN_PRECISION_FAST, (pn_kv_type)cache});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_matches_the_reference),
        cmocka_unit_test(a_half_cache_stays_close),
        cmocka_unit_test(quantised_inputs_stay_close),
        cmocka_unit_test(chunks_and_threads_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
