/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny complete models through the public interface. */
#ifndef PN_TESTS_TINY_MODELS_H
#define PN_TESTS_TINY_MODELS_H

#include "support/check.h"

#include <postern.h>

#define LLAMA "tests/golden/tiny/llama-gqa.gguf"
#define GEMMA "tests/golden/tiny/gemma3-window.gguf"
#define CODED "tests/golden/tiny/llama-q8.gguf" /* the one whose matrices have integer codes */

static const char *const paths[] = {LLAMA, GEMMA, CODED};
#define N_PATHS (sizeof paths / sizeof paths[0])

static inline pn_model *open_model(const char *path, int n_threads) {
    pn_model *model = NULL;
    pn_model_options options = {.n_threads = n_threads};
    pn_error err;
    if (pn_model_open(path, &options, &model, &err) != PN_OK) fail_msg("%s", err.message);
    return model;
}

static inline pn_session *open_session_with(pn_model *model, pn_session_options options) {
    pn_session *session = NULL;
    pn_error err;
    if (pn_session_create(model, &options, &session, &err) != PN_OK) fail_msg("%s", err.message);
    return session;
}

static inline pn_session *open_session(pn_model *model, int n_ctx, int n_chunk) {
    return open_session_with(model, (pn_session_options){.n_ctx = n_ctx, .n_chunk = n_chunk});
}

static inline pn_generate_options greedy(int max_tokens) {
    pn_generate_options o = {.max_tokens = max_tokens, .sampling = pn_sampling_default(), .ignore_eos = true};
    o.sampling.temperature = 0;
    return o;
}

static inline pn_generate_result generate(pn_session *session, const int32_t *prompt, size_t n,
                                          const pn_generate_options *options) {
    pn_generate_result result = {0};
    pn_error err;
    if (pn_generate(session, prompt, n, options, &result, &err) != PN_OK) fail_msg("%s", err.message);
    return result;
}

#define N_PROMPT 50

static inline void make_prompt(int32_t prompt[N_PROMPT], int n_vocab) {
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 10 + (i * 37 + i * i) % (n_vocab - 10);
}

static inline int n_vocab_of(const pn_model *model) {
    pn_model_info info;
    pn_model_get_info(model, &info);
    return info.n_vocab;
}

#endif
