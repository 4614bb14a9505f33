/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the engine share: the two objects of postern.h from inside. */
#ifndef PN_ENGINE_ENGINE_H
#define PN_ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/disk.h"
#include "model/decoder.h"
#include "template/template.h"
#include "text/tokenizer.h"

#include <pthread.h>
#include <stdatomic.h>

/* Tokens with a role, -1 where the file names none. */
typedef struct pn_vocab_roles {
    int32_t bos, eos, unk, pad;
} pn_vocab_roles;

/* A tier, and what its sessions take of it. */
struct pn_tier_use {
    const char *name;
    int n_ctx;
    uint64_t quota, used; /* bytes */
};

#define PN_PRECISIONS (PN_PRECISION_FAST + 1)

struct pn_model {
    atomic_int n_owners;
    pn_decoder *decoder;
    pn_tokenizer *tokenizer;
    pn_vocab_roles roles;
    pn_template *chat_template;
    const pn_kernels *kernels;
    pn_pool *pool;
    pn_thread_counts threads;
    pn_arena strings; /* what info points to */
    pthread_mutex_t stores_lock;
    pn_kv_store *stores[PN_KV_TYPE_COUNT][PN_PRECISIONS]; /* NULL until there is a session of the kind */
    uint64_t prefix_cache;                                /* of the options */
    _Atomic uint64_t claimed_bytes; /* of the budget: weights, tables, sessions, caches; plan.c */
    _Atomic uint64_t
        cache_bytes[PN_KV_TYPE_COUNT][PN_PRECISIONS]; /* of these, what the tree of a store may hold */
    struct pn_tier_use *tiers;                        /* [n_tiers] */
    size_t n_tiers;
    pn_model_info info;
    bool loaded;         /* the weights are read, and count */
    const char *path;    /* that it was opened with */
    uint64_t identity;   /* 0: not known yet (pn_model_identify) */
    pn_disk *disk;       /* NULL: none */
    struct pn_pin *pins; /* pin.c */
    _Atomic uint64_t pinned_bytes;
};

/* threads.c: the most that a model opened so may use, negative when that is no number of threads; and how
   many it is to use, once it is open. */
int pn_threads_most(const pn_model_options *options);
pn_thread_counts pn_threads_choose(const pn_model *model, const pn_model_options *options);
/* Of up to n_threads on n_cores: as noted, else by a few milliseconds of measuring and then noted
   (base/notes.h), else by counting. */
pn_thread_counts pn_threads_find(const pn_model *model, int n_cores, int n_threads);

/* vocab.c: the tokenizer that a file describes; it must have n_vocab tokens, one per row of the embedding. */
pn_status pn_vocab_load(const pn_gguf *file, int n_vocab, pn_tokenizer **out, pn_vocab_roles *roles,
                        pn_error *err);
/* Fills in all of a tokenizer's description but the arrays. */
pn_status pn_vocab_settings(const pn_gguf *file, pn_tokenizer_spec *spec, pn_error *err);

/* stores.c: bytes of what the sessions of these options may leave in the tree of prefixes. */
uint64_t pn_prefix_cache_bytes(const pn_model *model, pn_kv_type type, uint64_t session_kv_bytes);
/* Where the keys and values of a session of completed options go: one store for all sessions of its type and
   precision, which have the same bits for the same text. The model owns it. */
pn_status pn_model_kv_store(pn_model *model, const pn_session_options *options, pn_kv_store **out,
                            pn_error *err);
void pn_model_free_stores(pn_model *model);
/* pin.c: before the stores. */
void pn_model_free_pins(pn_model *model);

/* identity.c: sets model->identity, which takes reading all of the file where it is not noted. PN_ERR_MEMORY.
 */
pn_status pn_model_identify(pn_model *model, pn_error *err);

/* plan.c: the options with every default filled in, checked. PN_ERR_ARGUMENT, PN_ERR_UNSUPPORTED,
 * PN_ERR_LIMIT. */
pn_status pn_session_complete(const pn_model *model, const pn_session_options *given, pn_session_options *out,
                              pn_error *err);
/* Rows of logits that a session keeps. */
size_t pn_logit_rows(pn_lookup_mode lookup);
/* What sessions of completed options take at most: keys and values, and scratch that does not depend on
   chunks. UINT64_MAX: more than fits in 64 bits. */
uint64_t pn_session_kv_bytes(const pn_model *model, const pn_session_options *o);
uint64_t pn_session_fixed_bytes(const pn_model *model, pn_lookup_mode lookup, size_t n_ctx);
/* Claims are made of one budget by all models and sessions of the process, one after the other. Of a model
   before its weights are read, where they leave room for a session of such options; and of a session that is
   made, or made anew. PN_ERR_MEMORY: it does not fit beside what has been claimed, with what would. */
pn_status pn_plan_claim_model(pn_model *model, const pn_session_options *options, pn_error *err);
void pn_plan_release_model(pn_model *model);
pn_status pn_plan_claim(pn_session *session, const pn_session_options *o, pn_error *err);
void pn_plan_release(pn_session *session);
/* Of keys and values that stay for as long as the model does. */
pn_status pn_plan_claim_pin(pn_model *model, uint64_t bytes, pn_error *err);

/* plan_compressed.c: bytes of a file's weights in 4 or 8 bits, as compression chooses them by default.
   UINT64_MAX: they are not floats, which alone are compressed. */
uint64_t pn_plan_compressed_bytes(const pn_gguf *file, int bits);

/* quota.c: makes n_ctx of completed options no more than fits kv_bytes, with smaller chunks where any will do
   and that helps. PN_ERR_LIMIT: nothing fits. */
pn_status pn_quota_limit(const pn_model *model, bool any_chunk, pn_session_options *options, pn_error *err);
/* Packs keys and values to fewer bits until there is room for n tokens within the session's quota, or no type
   of fewer is left. */
void pn_quota_keep(pn_session *session, size_t n);

/* tiers.c: the model's tiers, of the options. PN_ERR_ARGUMENT: one has no size or name. */
pn_status pn_tiers_init(pn_model *model, const pn_model_options *options, pn_error *err);
/* PN_ERR_ARGUMENT: there is none of the name. */
pn_status pn_tier_find(const pn_model *model, const char *name, struct pn_tier_use **out, pn_error *err);
/* So many bytes of a tier for a session, and back; of none for a tier that is NULL. PN_ERR_LIMIT: they are
   not free. */
pn_status pn_tier_claim(pn_model *model, struct pn_tier_use *tier, uint64_t bytes, pn_error *err);
void pn_tier_release(pn_model *model, struct pn_tier_use *tier, uint64_t bytes);

/* kv_layers.c: the decoder's floors, of the options. PN_ERR_ARGUMENT, PN_ERR_MEMORY. And what keys and values
   depend on of them. */
pn_status pn_kv_layers_init(pn_model *model, const pn_model_options *options, pn_error *err);
uint64_t pn_kv_layers_hash(const pn_model *model, uint64_t seed);

/* chat.c: sets model->chat_template, and model->info.template_note to why it is not the file's own ("" when
 * it is). */
pn_status pn_chat_template_load(pn_model *model, const pn_gguf *file, pn_error *err);

/* Messages as templates are given them. PN_ERR_ARGUMENT. */
pn_status pn_chat_messages(const char *messages_json, json_t **out, pn_error *err);
pn_status pn_chat_rendering(const pn_model *model, const char *messages_json, const pn_chat_options *options,
                            pn_rendering *out, pn_error *err);
pn_status pn_chat_encode(const pn_model *model, const pn_rendering *rendering, pn_tokens *out, pn_error *err);
/* JSON as text, NUL-terminated, for pn_free; NULL without memory. */
char *pn_chat_json_text(const json_t *value);

/* departure.c: where two texts part, and why. The first is what was computed, the second the rendering of
   messages [array], which were `before` (NULL: not known). Sets message, role, field and texts of *out, and
   its cause: EDITED, CLOCK, THINKING_REMOVED or TEMPLATE. False, with nothing set, where the first text is
   the beginning of the second. */
bool pn_departure_find(pn_str old, const pn_rendering *now, const json_t *messages, const json_t *before,
                       pn_cache_explanation *out);

/* explain.c: why the tokens [n] that a session of `had` tokens is synced to, of which `own` are its own, have
   no keys and values from `at` on: up to SLID. *n_known: pn_cache_explanation. */
pn_cache_cause pn_explain_miss(pn_session *session, const int32_t *tokens, size_t n, size_t had, size_t own,
                               size_t at, size_t *n_known);

/* lookup.c: guesses at the next tokens from what stands in the timeline. */
#define PN_DRAFT_MAX (PN_FEW_TOKENS - 1)
typedef struct pn_lookup pn_lookup;
pn_status pn_lookup_create(size_t n_ctx, pn_lookup **out, pn_error *err);
void pn_lookup_free(pn_lookup *lookup);
uint64_t pn_lookup_bytes(size_t n_ctx);
/* Up to max <= PN_DRAFT_MAX tokens that may follow tokens [n]; 0 when nothing is found or, unless always,
   when checking a guess costs more than it has brought so far. */
size_t pn_lookup_draft(pn_lookup *lookup, bool always, const int32_t *tokens, size_t n, size_t max,
                       int32_t *draft);
/* n_computed tokens took so long together, n_accepted of them were guessed right. */
void pn_lookup_learn(pn_lookup *lookup, size_t n_computed, size_t n_accepted, double seconds);
/* Tokens that an attempt must get right on average to pay, 0 as long as it is not known. */
double pn_lookup_break_even(const pn_lookup *lookup);

struct pn_session {
    pn_model *model;
    pn_session_options options; /* completed */
    struct pn_tier_use *tier;   /* or NULL; so many bytes of it are claimed */
    uint64_t tier_bytes;
    uint64_t claimed_bytes; /* of the model's */
    pn_kv kv;
    pn_scratch scratch;
    size_t n_ctx;
    int32_t *tokens;     /* [n_ctx], the first kv.n_tokens are the timeline */
    float *logits;       /* [n_rows, n_vocab]; row logits_row is after the last token of the timeline */
    size_t logits_row;   /* the rows before it are after the tokens before it */
    bool logits_valid;   /* false for an empty timeline, and while it grows */
    bool logits_partial; /* only the greatest are those of the model (pn_logits) */
    size_t n_begin;      /* tokens of what its conversation begins with, and their hash */
    uint64_t begin_hash;
    size_t pass_first; /* position of the first token of the last pass; SIZE_MAX: it was cancelled */
    pn_lookup *lookup; /* NULL when the mode is off */
    struct pn_sampler *sampler;
    bool keeps_to_itself; /* takes nothing over (pn_session_set_takeover) */
    atomic_bool cancelled;
    size_t n_reused, n_shared, n_restored, n_prefilled; /* of the last sync */
    size_t n_step_downs, n_stepped;                     /* pn_session_stats */
    double prefill_seconds;
    pn_cache_cause cause; /* pn_session_stats */
    size_t n_known;       /* pn_cache_explanation; of the last sync */
    size_t cut_at;        /* tokens before what was cut out of the text; 0: nothing was */
    bool profiling;
    pn_profile profile;
};

/* overflow.c: tokens to be cut out after the first n_keep of a text of n, so that there is room for one more.
 */
size_t pn_overflow_cut(size_t n, size_t n_keep, size_t n_ctx);
/* How many are kept where so many are asked for. PN_ERR_LIMIT: too many. */
pn_status pn_overflow_keep(size_t asked, size_t n_ctx, size_t *out, pn_error *err);
/* pn_session_sync to the text without what is cut. The tokens may be the session's own. */
pn_status pn_overflow_sync(pn_session *session, const int32_t *tokens, size_t n, size_t n_keep, size_t cut,
                           pn_progress_fn progress, void *user, pn_error *err);

/* dialogue.c: how many tokens of a prompt sliding is to keep. */
size_t pn_session_n_keep(const pn_session *session, const int32_t *prompt, size_t n, size_t asked);

/* spill.c: notes that the model's baked text, if there is one, is of no use to a new session. */
void pn_spill_check_baked(pn_session *session);
/* Adds what is new of the timeline to the model's cache on disk, if there is one. */
void pn_spill_save(pn_session *session);
/* After pn_kv_resume to `had` of the tokens [n]: the same with what the disk has, if that is more. Sets
   n_restored, and returns the length of the timeline then. */
size_t pn_spill_resume(pn_session *session, const int32_t *tokens, size_t n, size_t had);

/* session.c: computes n more tokens, 1 or, with lookup, up to PN_DRAFT_MAX + 1, for which n_ctx must leave
   room. Row i of the logits is then after the i-th of them; of one token only those in `top` are wanted.
   PN_ERR_MEMORY, PN_ERR_CANCELLED. */
pn_status pn_session_extend(pn_session *session, const int32_t *tokens, size_t n, pn_top top, pn_error *err);
/* Takes back the last n of them. */
void pn_session_take_back(pn_session *session, size_t n);
/* sampler.c: a vocabulary's worth of working memory. */
typedef struct pn_sampler pn_sampler;
pn_status pn_sampler_create(const pn_kernels *kernels, size_t n_vocab, pn_sampler **out, pn_error *err);
void pn_sampler_free(pn_sampler *sampler);
uint64_t pn_sampler_bytes(size_t n_vocab);
/* Refuses options out of the ranges that postern.h gives, and biased ids outside the vocabulary. */
pn_status pn_sampling_check(const pn_sampling *options, size_t n_vocab, pn_error *err);
/* The logits that decide under these options. */
pn_top pn_sampling_top(const pn_sampling *options);
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
    const char *stopped_by;                                    /* the one of `stop` that came, or NULL */
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
