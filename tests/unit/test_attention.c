/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's blocks and attention over them, against a softmax written out plainly in double precision. */
#include "support/caches.h"
#include "support/check.h"

#include "base/rng.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

enum { N_HEAD = 6, N_HEAD_KV = 2, DIM = 20, N_LAYER = 2, LAYER = 1, N_POS = 200 };

static float keys[N_POS][N_HEAD_KV][DIM], values[N_POS][N_HEAD_KV][DIM], queries[N_POS][N_HEAD][DIM];

static void fill(float *x, size_t n, pn_rng *rng, double spread) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((pn_rng_unit(rng) - 0.5) * spread);
}

static void make_inputs(void) {
    pn_rng rng;
    pn_rng_seed(&rng, 5);
    fill(&keys[0][0][0], sizeof keys / sizeof(float), &rng, 4);
    fill(&values[0][0][0], sizeof values / sizeof(float), &rng, 2);
    fill(&queries[0][0][0], sizeof queries / sizeof(float), &rng, 4);
}

static pn_kv empty_cache(pn_kv_type type, size_t n) {
    const pn_kv_shape shape = {.n_layer = N_LAYER, .n_head_kv = N_HEAD_KV, .head_dim = DIM, .type = type};
    pn_kv kv = open_kv(&shape, n, n);
    assert_int_equal(pn_kv_reserve(&kv, n, NULL), PN_OK);
    return kv;
}

static pn_kv filled_cache(pn_kv_type type) {
    pn_kv kv = empty_cache(type, N_POS);
    for (size_t p = 0; p < N_POS; p++)
        for (int head = 0; head < N_HEAD_KV; head++)
            pn_kv_write(&kv, pn_kernels_host(), LAYER, head, p, keys[p][head], values[p][head]);
    for (size_t i = 0; i < pn_kv_n_filled(&kv, N_POS); i++)
        for (int head = 0; head < N_HEAD_KV; head++)
            pn_kv_pack(&kv, pn_kernels_host(), LAYER, head, i);
    pn_kv_commit(&kv, N_POS);
    return kv;
}

static void plain_attention(size_t position, int head, size_t window, float scale, double out[DIM]) {
    size_t first = window && position + 1 > window ? position + 1 - window : 0;
    int kv_head = head / (N_HEAD / N_HEAD_KV);
    double p[N_POS], sum = 0;
    memset(out, 0, DIM * sizeof *out);
    for (size_t j = first; j <= position; j++) {
        double score = 0;
        for (int d = 0; d < DIM; d++)
            score += (double)queries[position][head][d] * (double)keys[j][kv_head][d];
        sum += p[j] = exp(score * (double)scale);
    }
    for (size_t j = first; j <= position; j++)
        for (int d = 0; d < DIM; d++)
            out[d] += p[j] / sum * (double)values[j][kv_head][d];
}

static void attend_to(const pn_kv *kv, int n_threads, const float *q, size_t position, size_t n_tok,
                      size_t window, float *out) {
    pn_pool *pool;
    assert_int_equal(pn_pool_create(n_threads, &pool, NULL), PN_OK);
    size_t stride = pn_ops_scratch_floats(DIM, N_HEAD / N_HEAD_KV, DIM);
    float *scratch = malloc((size_t)n_threads * stride * sizeof *scratch);
    float *partials = malloc(pn_ops_partial_floats(N_HEAD, DIM) * sizeof *partials);
    pn_ops ops = {.kernels = pn_kernels_host(),
                  .pool = pool,
                  .scratch = scratch,
                  .scratch_stride = stride,
                  .partials = partials};
    pn_attention_job job = {.q = q,
                            .out = out,
                            .n_head = N_HEAD,
                            .layer = LAYER,
                            .position = position,
                            .n_tok = n_tok,
                            .window = window,
                            .scale = 0.3f,
                            .kv = kv};
    pn_ops_attention(&ops, &job);
    free(partials);
    free(scratch);
    pn_pool_free(pool);
}

static void attend(const pn_kv *kv, int n_threads, size_t position, size_t n_tok, size_t window, float *out) {
    attend_to(kv, n_threads, &queries[position][0][0], position, n_tok, window, out);
}

static void check_all_positions(pn_kv_type type, size_t window, double tolerance) {
    static float out[N_POS][N_HEAD][DIM];
    pn_kv kv = filled_cache(type);
    attend(&kv, 2, 0, N_POS, window, &out[0][0][0]);
    for (size_t p = 0; p < N_POS; p++)
        for (int h = 0; h < N_HEAD; h++) {
            double want[DIM];
            plain_attention(p, h, window, 0.3f, want);
            for (int d = 0; d < DIM; d++)
                if (!(fabs((double)out[p][h][d] - want[d]) <= tolerance))
                    fail_msg("position %zu head %d: %g, expected %g", p, h, (double)out[p][h][d], want[d]);
        }
    pn_kv_done(&kv);
}

static void attention_matches_a_plain_softmax(void **state) {
    (void)state;
    static const size_t windows[] = {0, 1, 8, 63, 64, 65, 128, 199, 200, 1000};
    make_inputs();
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        check_all_positions(PN_KV_F32, windows[i], 2e-6);
        check_all_positions(PN_KV_F16, windows[i], 2e-3);
        check_all_positions(PN_KV_Q8, windows[i], 2e-2);
        check_all_positions(PN_KV_K8V4, windows[i], 0.1);
        check_all_positions(PN_KV_Q4, windows[i], 0.3);
    }
}

static void batches_and_threads_change_no_bit(void **state) {
    (void)state;
    static float whole[N_POS][N_HEAD][DIM], part[N_POS][N_HEAD][DIM];
    make_inputs();
    pn_kv kv = filled_cache(PN_KV_F16);
    attend(&kv, 1, 0, N_POS, 70, &whole[0][0][0]);
    for (int n_threads = 1; n_threads <= 5; n_threads++)
        for (size_t n = 1; n <= 90; n += 13)
            for (size_t p = 0; p < N_POS; p += n) {
                size_t n_tok = N_POS - p < n ? N_POS - p : n;
                attend(&kv, n_threads, p, n_tok, 70, &part[p][0][0]);
                assert_memory_equal(part[p], whole[p], n_tok * sizeof whole[0]);
            }
    pn_kv_done(&kv);
}

/* Long enough for segments to double; one token at a time, in batches, and by several workers. */
static void long_contexts_change_no_bit(void **state) {
    (void)state;
    enum { FROM = 2000, TO = 2200 };
    static const size_t windows[] = {0, 300}, batches[] = {1, 3, 64, 190};
    static float whole[TO][N_HEAD][DIM], part[TO][N_HEAD][DIM];
    pn_kv kv = empty_cache(PN_KV_F16, TO);
    make_inputs();
    for (size_t p = 0; p < TO; p++)
        for (int head = 0; head < N_HEAD_KV; head++)
            pn_kv_write(&kv, pn_kernels_host(), LAYER, head, p, keys[p % N_POS][head],
                        values[p * 7 % N_POS][head]);
    pn_kv_commit(&kv, TO);
    static float q[TO][N_HEAD][DIM];
    for (size_t p = 0; p < TO; p++)
        memcpy(q[p], queries[p % N_POS], sizeof q[p]);
    for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
        attend_to(&kv, 1, &q[FROM][0][0], FROM, TO - FROM, windows[w], &whole[FROM][0][0]);
        for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++)
            for (size_t p = FROM; p < TO; p += 37) {
                size_t n_tok = TO - p < batches[i] ? TO - p : batches[i];
                attend_to(&kv, 3, &q[p][0][0], p, n_tok, windows[w], &part[p][0][0]);
                assert_memory_equal(part[p], whole[p], n_tok * sizeof whole[0]);
            }
    }
    pn_kv_done(&kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_matches_a_plain_softmax),
        cmocka_unit_test(batches_and_threads_change_no_bit),
        cmocka_unit_test(long_contexts_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
