/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the engine share: the two objects of postern.h from inside. */
#ifndef PN_ENGINE_ENGINE_H
#define PN_ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/decoder.h"
#include "template/template.h"
#include "text/tokenizer.h"

#include <stdatomic.h>

/* Tokens with a role, -1 where the file names none. */
typedef struct pn_vocab_roles {
    int32_t bos, eos, unk, pad;
} pn_vocab_roles;

struct pn_model {
    atomic_int n_owners;
    pn_decoder *decoder;
    pn_tokenizer *tokenizer;
    pn_vocab_roles roles;
    pn_template *chat_template;
    const pn_kernels *kernels;
    pn_pool *pool;
    pn_arena strings; /* what info points to */
    pn_model_info info;
};

/* vocab.c: the tokenizer that a file describes; it must have n_vocab tokens, one per row of the embedding. */
pn_status pn_vocab_load(const pn_gguf *file, int n_vocab, pn_tokenizer **out, pn_vocab_roles *roles,
                        pn_error *err);

/* chat.c: sets model->chat_template, and model->info.template_note to why it is not the file's own ("" when
 * it is). */
pn_status pn_chat_template_load(pn_model *model, const pn_gguf *file, pn_error *err);

struct pn_session {
    pn_model *model;
    pn_kv kv;
    pn_scratch scratch;
    size_t n_ctx;
    int32_t *tokens;   /* [n_ctx], the first kv.n_tokens are the timeline */
    float *logits;     /* [n_vocab] after the last token of the timeline */
    bool logits_valid; /* false for an empty timeline, and while it grows */
    struct pn_sampler *sampler;
    atomic_bool cancelled;
    size_t n_reused, n_prefilled; /* of the last sync */
    double prefill_seconds;
};

/* session.c: computes one more token, for which kv.n_tokens < n_ctx must leave room. PN_ERR_MEMORY,
 * PN_ERR_CANCELLED. */
pn_status pn_session_append(pn_session *session, int32_t token, pn_error *err);
/* Takes back a pn_session_cancel; false when there was none. */
bool pn_session_take_cancel(pn_session *session);
/* sampler.c: a vocabulary's worth of working memory. */
typedef struct pn_sampler pn_sampler;
pn_status pn_sampler_create(size_t n_vocab, pn_sampler **out, pn_error *err);
void pn_sampler_free(pn_sampler *sampler);
uint64_t pn_sampler_bytes(size_t n_vocab);
/* Refuses options out of the ranges that postern.h gives, and biased ids outside the vocabulary. */
pn_status pn_sampling_check(const pn_sampling *options, size_t n_vocab, pn_error *err);
/* One token from logits [n_vocab] (left as they are), given the n_history tokens so far. PN_ERR_NUMERIC for a
 * NaN. */
pn_status pn_sampler_next(pn_sampler *sampler, const pn_sampling *options, const float *logits,
                          const int32_t *history, size_t n_history, pn_rng *rng, int32_t *out, pn_error *err);

/* stream.c: bytes of tokens in, whole UTF-8 characters out, ended by the first stop string. */
typedef struct pn_stream {
    pn_buf pending; /* bytes not shown yet: an incomplete character, or what may be the beginning of a stop
                       string */
    pn_buf text;    /* everything shown */
    const char *const *stop;
    size_t n_stop;
    bool stopped;
    bool (*on_text)(void *user, const char *text, size_t len); /* may be NULL */
    void *user;
    bool refused; /* on_text returned false */
} pn_stream;

void pn_stream_init(pn_stream *stream, const pn_generate_options *options);
void pn_stream_done(pn_stream *stream);
/* The pending buffer is public to let the tokenizer append to it; this shows what can be shown. */
pn_status pn_stream_advance(pn_stream *stream, pn_error *err);
/* Shows the rest: the answer is over. */
pn_status pn_stream_finish(pn_stream *stream, pn_error *err);

#endif
