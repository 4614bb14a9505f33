/* SPDX-License-Identifier: Apache-2.0 */
/* postern: run a large language model on a device with little memory.

   Two objects carry the design. A pn_model is immutable after it is opened and may be shared by any number of
   threads and sessions. A pn_session is one timeline of tokens with its KV cache; one thread uses it at a
   time. The caller always hands over the full token prefix; the session keeps what it has in common with it
   and computes the rest.

   Conventions: what can fail returns pn_status and fills the optional pn_error; out-parameters are written
   only on success. The library never prints, exits or aborts. Text is UTF-8 with a length, unless it says
   NUL-terminated. Options structs are zeroed by the caller and then filled; a zero is the default, except in
   pn_sampling. A model has worker threads, which take no signals; after fork() the child must leave objects
   of the parent alone. */
#ifndef POSTERN_H
#define POSTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Until 1.0 a minor version may add fields to structs; the library's SOVERSION changes with it. */
#define PN_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define PN_API __attribute__((visibility("default")))
#else
#define PN_API
#endif

/* ---- status
 * ---------------------------------------------------------------------------------------------------- */

typedef enum pn_status {
    PN_OK = 0,
    PN_ERR_ARGUMENT,    /* the caller's option, text or token list is out of range */
    PN_ERR_MEMORY,      /* an allocation failed */
    PN_ERR_IO,          /* a file could not be opened, read or written */
    PN_ERR_FORMAT,      /* a file or text is broken: truncated, inconsistent, not what it claims to be */
    PN_ERR_UNSUPPORTED, /* well-formed, but of a type or architecture this version does not know */
    PN_ERR_LIMIT,       /* a bound was reached: context length, template steps, output size */
    PN_ERR_TEMPLATE,    /* a chat template raised an exception or does not fit the messages */
    PN_ERR_NUMERIC,     /* the model produced a NaN */
    PN_ERR_CANCELLED    /* pn_session_cancel was called */
} pn_status;

#define PN_NO_POSITION UINT64_MAX

typedef struct pn_error {
    pn_status code;
    uint64_t position; /* byte offset in the file or text that was being read, or PN_NO_POSITION */
    char message[480]; /* one line, NUL-terminated */
} pn_error;

/* "format", "memory", …: stable one-word names. */
PN_API const char *pn_status_name(pn_status status);
PN_API const char *pn_version(void);

/* Text or token ids that the library allocated for the caller; init to {0}, give back with the matching free.
 */
typedef struct pn_text {
    char *data; /* NUL-terminated; the NUL is not counted in len */
    size_t len;
} pn_text;
PN_API void pn_text_free(pn_text *text);

typedef struct pn_tokens {
    int32_t *ids;
    size_t n;
} pn_tokens;
PN_API void pn_tokens_free(pn_tokens *tokens);

/* ---- model
 * ----------------------------------------------------------------------------------------------------- */

typedef struct pn_model pn_model;

/* A size of context by name, and the most bytes of keys and values that its sessions may take together; 0: no
   limit. */
typedef struct pn_tier {
    const char *name;
    int n_ctx; /* or what the model was trained for, where that is less */
    uint64_t kv_bytes;
} pn_tier;

struct pn_kv_layers;

/* Receives a line of something that went otherwise than one would think, and that is no error: a file of the
   cache that was damaged, a folder that cannot be written. Called by whatever thread notices it; it must not
   use the model. */
typedef void (*pn_note_fn)(void *user, const char *message);

typedef struct pn_model_options {
    int n_threads;        /* 0: chosen, within what affinity, cgroup quota and cores allow */
    int n_threads_decode; /* for the tokens of an answer; 0: n_threads where that is given, otherwise chosen
                           */
    bool no_probe; /* choose by counting cores alone. Where threads share cores, or there are more than two, a
                      few milliseconds of measuring find better numbers; they are kept in
                      $XDG_CACHE_HOME/postern or ~/.cache/postern for the next time */
    uint64_t prefix_cache; /* bytes for keys and values of texts that no session has any more, so that a later
                              one with the same beginning need not compute them again; 0: a quarter of what
                              the largest session may take, and a window; PN_PREFIX_CACHE_OFF: none */
    const pn_tier *tiers; /* [n_tiers] that sessions may be of; none: "short" with 4096 tokens and "long" with
                             what the model was trained for */
    size_t n_tiers;
    const struct pn_kv_layers *kv_layers; /* [n_kv_layers] whose keys and values keep more bits, see below */
    size_t n_kv_layers;
    const struct pn_session_options
        *session;             /* one that is going to be created, or NULL for any: where it would pass the
                                 memory budget the model is refused before its weights are read */
    const char *cache_dir;    /* folder, made where there is none, in which keys and values of texts are kept
                                 for later processes; NULL: none. A session adds what is new when it ends or
                                 goes on to another text, and takes from there what memory does not have. The
                                 files hold the texts, and are for this user alone to read */
    uint64_t cache_dir_bytes; /* most that its files may take, 0: 1 GiB; those used least recently go first */
    const char *baked;        /* one file more of the kind, as pn_session_save writes it; NULL: none */
    pn_note_fn on_note;       /* NULL: nobody listens */
    void *note_user;
} pn_model_options;
#define PN_PREFIX_CACHE_OFF UINT64_MAX

/* Opens a GGUF file (any shard of a split one) and checks all of it that running needs. options may be NULL.
   The file stays mapped until the model is gone: replace it by renaming, never by writing into it. */
PN_API pn_status pn_model_open(const char *path, const pn_model_options *options, pn_model **out,
                               pn_error *err);
/* One more owner, and one less; the last close frees. Sessions own their model too. Both are thread-safe. */
PN_API pn_model *pn_model_share(pn_model *model);
PN_API void pn_model_close(pn_model *model);

typedef struct pn_model_info {
    const char *architecture, *name; /* live as long as the model */
    int n_layer, n_embd, n_head, n_head_kv, head_dim, n_vocab;
    int n_ctx_train;
    int n_threads, n_threads_decode;
    const char *kernels;       /* the instruction set in use: "scalar", "avx2", "avx512"; PN_CPU masks it */
    int32_t bos_id, eos_id;    /* -1 when the file names none */
    bool has_chat_template;    /* the file has one that works; otherwise postern uses a default */
    const char *template_note; /* why, and which default; "" when has_chat_template. Lives like name */
    uint64_t tables_bytes;     /* vocabulary, chat template and what else stands beside the weights */
    uint64_t weights_bytes;    /* packed matrices */
    uint64_t mapped_bytes;     /* of these, what lies in a mapped file and takes memory as it is read */
    uint64_t decode_bytes_per_token; /* weight bytes that one decoded token reads */
} pn_model_info;
PN_API void pn_model_get_info(const pn_model *model, pn_model_info *out);

/* What keys and values are kept as. With fewer bits, the tokens of the block of 64 at hand are halves, and
   the block is packed once it is full; so is the first block of all where values have 4 bits. */
typedef enum pn_kv_type {
    PN_KV_F16 = 0,
    PN_KV_F32,
    PN_KV_Q8,   /* 8.5 bits */
    PN_KV_Q4,   /* 4.5 bits */
    PN_KV_K8V4, /* keys of 8.5, values of 4.5 bits */
    PN_KV_TYPE_COUNT
} pn_kv_type;

/* Layers first .. last, from 0 on, whose keys and values keep the bits of a type, PN_KV_F16, PN_KV_Q8 or
   PN_KV_K8V4, where a session's has fewer. Where several name a layer, the last one counts. */
typedef struct pn_kv_layers {
    int first, last;
    pn_kv_type type;
} pn_kv_layers;

/* Bytes that decoding one token reads after `depth` others: all weights once, and the keys and values in
 * reach. */
PN_API uint64_t pn_model_decode_bytes(const pn_model *model, pn_kv_type kv_type, uint64_t depth);

/* Multiply-adds that computing n_tok tokens after `depth` others takes, in matrices and in attention, with
   the logits of the last one. */
PN_API uint64_t pn_model_macs(const pn_model *model, uint64_t depth, uint64_t n_tok);

/* Everything a file says of itself, as one JSON object: metadata, tensors by type, bytes by wall, chat
   template. Works on files whose architecture this version cannot run. With full, arrays are written whole
   and every tensor is listed. */
PN_API pn_status pn_inspect_json(const char *path, bool full, pn_text *out, pn_error *err);

/* ---- text
 * ------------------------------------------------------------------------------------------------------ */

enum {
    PN_TOKENIZE_BOS =
        1 << 0, /* put the BOS token first when the model wants one and the text does not start so */
    PN_TOKENIZE_CONTROL =
        1 << 1, /* text that spells a control token becomes that token; without it stays text */
};

/* Any bytes are accepted; those that are not UTF-8 are encoded byte by byte where the vocabulary can. */
PN_API pn_status pn_tokenize(const pn_model *model, const char *text, size_t len, unsigned flags,
                             pn_tokens *out, pn_error *err);
/* Joins the pieces; control tokens are left out unless with_control. Bytes are given as the pieces hold them.
 */
PN_API pn_status pn_detokenize(const pn_model *model, const int32_t *ids, size_t n, bool with_control,
                               pn_text *out, pn_error *err);

typedef struct pn_chat_options {
    bool no_generation_prompt;   /* default: the prompt ends where the assistant's answer begins */
    const char *template_source; /* NUL-terminated Jinja to use instead of the model's own, or NULL */
    const char
        *extra_json; /* JSON object of further template variables ("tools", "enable_thinking"), or NULL */
    int64_t now;     /* Unix time that strftime_now sees; 0: the system clock */
} pn_chat_options;

/* Renders messages (JSON array of {"role","content",…} objects, NUL-terminated) by the chat template. Fields
   that are null are dropped, a missing content is "", and a content that is a list of text parts is joined.
   PN_ERR_TEMPLATE carries the template's own message, e.g. that roles must alternate. options may be NULL. */
PN_API pn_status pn_chat_render(const pn_model *model, const char *messages_json,
                                const pn_chat_options *options, pn_text *out, pn_error *err);
/* Renders and tokenises in one step: control tokens come only from the template's own text, never from what
   the messages say, and where the model wants a BOS the prompt starts with one: the template's, or else
   one that is added. */
PN_API pn_status pn_chat_tokenize(const pn_model *model, const char *messages_json,
                                  const pn_chat_options *options, pn_tokens *out, pn_error *err);

/* The tokens that every prompt begins with that has these messages, which may be none, and then one of the
   user: what a system message comes to. */
PN_API pn_status pn_chat_prefix(const pn_model *model, const char *messages_json,
                                const pn_chat_options *options, pn_tokens *out, pn_error *err);

/* Whether a chat template only appends as a conversation grows, so that keys and values are reused: prompts
   of several kinds, each with its answer, are compared with that of the turn after it. A JSON object:
   "appends", true if none rewrites; "cases", of each "name" and "result": "appends"; "refused" with
   "message", where the template takes no such messages; or "rewrites" with "cause" (pn_cache_cause_name),
   "index", "role" and "field" of the message where the texts differ first (null: the template's own text
   after it), and "old_text" and "new_text". options may be NULL. PN_ERR_TEMPLATE when plain turns are
   refused. */
PN_API pn_status pn_chat_lint_json(const pn_model *model, const pn_chat_options *options, pn_text *out,
                                   pn_error *err);

/* ---- session
 * --------------------------------------------------------------------------------------------------- */

typedef struct pn_session pn_session;

/* How precisely a matrix with integer codes is multiplied. Weights are never rounded again; activations are,
   for the time of the product. One precision serves prompt and answer alike. */
typedef enum pn_precision {
    PN_PRECISION_HIGH = 0, /* activations as 16-bit integers with a scale per 32 */
    PN_PRECISION_EXACT,    /* activations stay floats */
    PN_PRECISION_FAST      /* activations as 8-bit integers with a scale per 32 */
} pn_precision;

/* Prompt lookup: what followed the last tokens earlier in the timeline is guessed to follow again, and up to
   three guessed tokens are checked in one step. The text is the same with and without; only its speed
   changes. */
typedef enum pn_lookup_mode {
    PN_LOOKUP_AUTO = 0, /* as long as guesses are right often enough to pay, by the clock */
    PN_LOOKUP_OFF,      /* saves the logits of three tokens and 4 to 8 bytes per token of context */
    PN_LOOKUP_ON        /* at every occasion */
} pn_lookup_mode;

/* What happens when a text does not fit the context. */
typedef enum pn_overflow {
    PN_OVERFLOW_ERROR = 0, /* a prompt that does not fit is refused, an answer ends */
    PN_OVERFLOW_SLIDE /* pn_generate cuts out what lies between the beginning and the end of the text, half of
                         the context or more at a time, computes the end again and goes on; it says what was
                         cut */
} pn_overflow;

typedef struct pn_session_options {
    int n_ctx;   /* most tokens the timeline may hold; 0: the least of 4096 and what the model was trained for
                  */
    int n_chunk; /* prefill is done in chunks of this many tokens; 0: 256 */
    pn_kv_type kv_type;
    pn_precision precision;
    pn_lookup_mode lookup;
    pn_overflow overflow;
    const char *tier;  /* instead of n_ctx: one of the model's tiers; NULL: none */
    uint64_t kv_bytes; /* most bytes of keys and values, 0: as many as the context takes. When they are used
                          up, the full blocks are packed to fewer bits, from F16 to Q8 to Q4; n_ctx is no more
                          than fits then */
} pn_session_options;

/* The KV cache grows in blocks as tokens come; scratch is allocated here. options may be NULL. */
PN_API pn_status pn_session_create(pn_model *model, const pn_session_options *options, pn_session **out,
                                   pn_error *err);
PN_API void pn_session_free(pn_session *session);
/* Another n_ctx, 0 for the default, and no tier: the timeline stays, so that a conversation that became long
   can have more room, or less where it fits. PN_ERR_ARGUMENT, PN_ERR_LIMIT when the timeline is longer, and
   PN_ERR_MEMORY leave all as it was. */
PN_API pn_status pn_session_resize(pn_session *session, int n_ctx, pn_error *err);
/* The same by the name of a tier, which the session then belongs to. PN_ERR_LIMIT also when its quota is used
 * up. */
PN_API pn_status pn_session_set_tier(pn_session *session, const char *tier, pn_error *err);
/* A session of its own with the options and the timeline of another, sharing its keys and values. */
PN_API pn_status pn_session_fork(pn_session *session, pn_session **out, pn_error *err);

/* Why keys and values of a text were not there. */
typedef enum pn_cache_cause {
    PN_CACHE_REUSED = 0,      /* they were: only what is new is computed */
    PN_CACHE_NOTHING_BEFORE,  /* no text that begins so was computed before */
    PN_CACHE_CHANGED,         /* the text departs from what the session had; its messages tell more */
    PN_CACHE_EVICTED,         /* they were given up, to make room or since a window had passed */
    PN_CACHE_OTHER_PRECISION, /* they are there, in another kv_type or precision */
    PN_CACHE_SLID,            /* the text was cut to fit the context, and what follows stands elsewhere now */
    /* Of a text that departs, when its messages are known (pn_chat_explain): */
    PN_CACHE_EDITED,           /* a message that had been said is another now, or gone */
    PN_CACHE_CLOCK,            /* a date or time, by the template or in a message */
    PN_CACHE_THINKING_REMOVED, /* what the model thought is left out of its answer */
    PN_CACHE_TEMPLATE,         /* the template writes the same messages differently */
    PN_CACHE_RETOKENIZED,      /* the same text, of other tokens than those that were generated */
    PN_CACHE_CAUSE_COUNT
} pn_cache_cause;
/* "reused", "nothing_before", "changed", "evicted", "other_precision", "slid", "edited", "clock",
   "thinking_removed", "template", "retokenized"; static. */
PN_API const char *pn_cache_cause_name(pn_cache_cause cause);

typedef struct pn_session_stats {
    int n_ctx;
    const char *tier;            /* lives as long as the model; NULL: none */
    size_t n_tokens;             /* tokens whose KV is held */
    size_t n_reused;             /* of the last sync: tokens kept from before, or taken over */
    size_t n_shared;             /* of these: taken over from other sessions, or from texts of before */
    size_t n_restored;           /* of these: read from disk */
    size_t n_prefilled;          /* of the last sync: tokens computed */
    double prefill_seconds;      /* of the last sync */
    pn_cache_cause cache_cause;  /* of the last sync: up to CHANGED and SLID, as it knows no messages */
    size_t n_recomputed;         /* of n_prefilled: tokens that had been computed before, or that stand where
                                    others were, whose place in the text was lost for that cause */
    double recomputed_seconds;   /* their share of prefill_seconds */
    uint64_t kv_bytes;           /* blocks that this session holds, alone or with others */
    pn_kv_type kv_type;          /* what full blocks become now */
    size_t n_step_downs;         /* how often they were packed to fewer bits */
    size_t n_stepped;            /* tokens whose keys and values the last of these packed */
    uint64_t prefix_cache_bytes; /* held of texts that no session of the type has any more */
    uint64_t pinned_bytes;       /* of texts that were pinned */
    uint64_t n_evicted;          /* blocks of such texts that were given up, so far */
    size_t n_baked;              /* tokens of the model's baked text, if it suits the session; else 0 */
    uint64_t scratch_bytes;
} pn_session_stats;
PN_API void pn_session_get_stats(const pn_session *session, pn_session_stats *out);

/* Writes the keys and values of the timeline, as far as they fill blocks of 64 tokens, to a file that
   pn_session_load reads and that pn_model_options.baked may name. It appears when it is whole, in place of
   what was there. With a path of NULL what is new is added to the model's cache_dir, as it is when the
   session ends; that cannot fail. PN_ERR_ARGUMENT when there is no block to be saved, PN_ERR_IO,
   PN_ERR_MEMORY. */
PN_API pn_status pn_session_save(pn_session *session, const char *path, pn_error *err);
/* Makes the timeline what was saved, and gives its tokens for the next sync, which says how they go on; there
   are no logits until then. It must have been saved by this version, with the same model, kv_type and
   precision, on a machine whose instruction set computes the same bits, or else PN_ERR_ARGUMENT;
   PN_ERR_LIMIT: it does not fit n_ctx. PN_ERR_FORMAT when it is damaged, PN_ERR_UNSUPPORTED, PN_ERR_IO and
   PN_ERR_MEMORY leave a valid timeline, which may be empty. */
PN_API pn_status pn_session_load(pn_session *session, const char *path, pn_tokens *tokens, pn_error *err);

/* What a session with these options (as for create) will be, for printing before it is created. */
typedef struct pn_plan {
    uint64_t weights_bytes, tables_bytes; /* of the model */
    int n_ctx;                            /* the default filled in */
    uint64_t kv_bytes;                    /* with a full context */
    uint64_t prefix_cache_bytes;          /* at most, for all sessions together */
    uint64_t scratch_bytes;               /* from the start */
    uint64_t total_bytes;                 /* of all that, and of all other models and sessions there are */
    uint64_t budget_bytes;                /* pn_memory_set_budget; 0: none */
    uint64_t kv_token_bytes;              /* of a token that every layer sees */
} pn_plan;
PN_API pn_status pn_session_plan(const pn_model *model, const pn_session_options *options, pn_plan *out,
                                 pn_error *err);
/* The same of a file and of options that it could be opened with, without reading its weights. Either options
   may be NULL. */
PN_API pn_status pn_plan_file(const char *path, const pn_model_options *options,
                              const pn_session_options *session, pn_plan *out, pn_error *err);

/* Called after each chunk of long work: n_done of the n_total tokens that this sync has to compute are there.
 */
typedef void (*pn_progress_fn)(void *user, size_t n_done, size_t n_total);

/* Makes the timeline equal to tokens[0..n): keeps the common prefix, or takes over a longer one that another
   session of the model has, or has left in the prefix cache; drops what differs, computes the rest. It is the
   same bits as if all were computed.
   Afterwards pn_session_logits are those after the last token. n of 0 empties the timeline. PN_ERR_LIMIT when
   n passes n_ctx and PN_ERR_ARGUMENT for an id outside the vocabulary leave all as it was; PN_ERR_CANCELLED
   and PN_ERR_MEMORY leave a valid timeline that is a beginning of the tokens. progress may be NULL. */
PN_API pn_status pn_session_sync(pn_session *session, const int32_t *tokens, size_t n,
                                 pn_progress_fn progress, void *user, pn_error *err);

/* Begins a conversation: what all its prompts will begin with that have these messages (pn_chat_prefix; a
   JSON array, usually of a system message, or of none) is computed now, so that the first answer need not
   wait for it, and is never cut by sliding. As pn_session_sync in all else, which it does; after
   PN_ERR_CANCELLED the next prompt goes on from where it came to. */
PN_API pn_status pn_session_start_chat(pn_session *session, const char *messages_json,
                                       const pn_chat_options *options, pn_progress_fn progress, void *user,
                                       pn_error *err);
/* Ends it: its keys and values become those of a text that nobody holds, in the prefix cache and, where there
   is one, on disk; the timeline is empty. */
PN_API void pn_session_finish_chat(pn_session *session);
/* Keeps the whole blocks of 64 tokens of the timeline, as far as a text that goes on from there needs them,
   for as long as the model is open: the prefix cache never gives them up. They count in the memory budget
   beside it. PN_ERR_ARGUMENT when there is no block, PN_ERR_MEMORY. */
PN_API pn_status pn_session_pin(pn_session *session, pn_error *err);

/* Where a prompt departs from what a session holds, and why. */
typedef struct pn_cache_explanation {
    pn_cache_cause cause;
    size_t n_prompt, n_timeline; /* tokens of the prompt, and of the session */
    size_t n_common;             /* both begin with so many: the next one is the first that differs */
    size_t n_known; /* tokens of the prompt up to which there is, or was, something to be reused */
    int32_t old_token, new_token; /* the first that differ, of session and prompt; -1: it ends there */
    int message;   /* index of the one where the texts differ first, or after which the template's text does;
                      -1: they do not differ, or before all messages */
    char role[24]; /* of that message, "" where there is none */
    const char *field; /* of it: "content", "role", "reasoning_content", "thinking", "tool_calls", "name",
                          "tool_call_id", or "field" for any other; NULL: the template's own text. Static */
    char old_text[64], new_text[64]; /* how the texts go on there, in whole characters; "" where they agree */
} pn_cache_explanation;

/* To be called before the sync with the prompt of these messages (pn_chat_tokenize): tells what will be
   missing and why. before_json are the messages whose prompt the session was given last, NULL if they are not
   known: with them, what was edited is told from what the template did on its own account. Changes nothing.
   Whether a window still has what it takes to go on is known only after the sync, from pn_session_stats, and
   so is what lies on disk. Errors as for pn_chat_tokenize. */
PN_API pn_status pn_chat_explain(pn_session *session, const char *messages_json,
                                 const pn_chat_options *options, const char *before_json,
                                 pn_cache_explanation *out, pn_error *err);

/* [n_vocab] logits after the last token; NULL for an empty timeline. Valid until the session is used again.
 */
PN_API const float *pn_session_logits(pn_session *session);

/* Logits [n, n_vocab] after each of the tokens first .. first + n of the timeline. Only the tokens of the
   last chunk that was computed have them (n_chunk of the options): who wants those of a whole text syncs to
   longer and longer beginnings of it, a chunk at a time. PN_ERR_ARGUMENT for others. */
PN_API pn_status pn_session_logits_at(pn_session *session, size_t first, size_t n, float *logits,
                                      pn_error *err);

/* Makes the running sync or generate of this session stop at the next layer; when none runs, the next one.
   Exactly one call takes a cancel, even one that it came too late to shorten. Async-signal-safe, and the one
   function that other threads may call while a session is used. */
PN_API void pn_session_cancel(pn_session *session);

/* Takes back a cancel that no call has taken yet; false when there was none. By the thread that uses the
   session: one that came just after the end of the call it was meant for would stop the next. */
PN_API bool pn_session_take_cancel(pn_session *session);

/* Off: from now on the session takes nothing over from other sessions, texts of before or disk, but keeps
   what its own timeline has. After a sync to no tokens, all of a text is computed then. On, as at first:
   again. */
PN_API void pn_session_set_takeover(pn_session *session, bool on);
/* What happens from now on when a text does not fit, instead of what the options said. */
PN_API void pn_session_set_overflow(pn_session *session, pn_overflow overflow);

/* Where a session's time goes. */
typedef struct pn_operation {
    const char *name;       /* "attention", "gate+up"; static */
    uint64_t n_laps;        /* how often it was timed */
    double seconds;         /* of the calling thread: the operations add up to the whole time */
    double waiting_seconds; /* of these, waiting for the last of the other threads */
    uint64_t macs, bytes;   /* multiply-adds, and bytes of weights, or of keys and values, that it went over;
                               0 where none are counted */
} pn_operation;

/* Times the session's work by operation from now on, from zero, or no longer. */
PN_API void pn_session_profile(pn_session *session, bool on);
/* The operations so far, *n of them, in order of a token's life; valid until the session is used again. NULL
   when the profile is off. */
PN_API const pn_operation *pn_session_operations(const pn_session *session, size_t *n);

/* ---- files
 * ----------------------------------------------------------------------------------------------------- */

/* Writes the model at in_path to out_path with its matrices as the kernels read them. The numbers are the
   same; such a file is mapped and used as it lies, where another is packed when it is opened. Any shard of a
   split model stands for all; the result is one file. out_path appears when it is whole, in place of what it
   was. progress counts tensors. PN_ERR_IO, PN_ERR_FORMAT, PN_ERR_MEMORY. */
PN_API pn_status pn_pack_file(const char *in_path, const char *out_path, pn_progress_fn progress, void *user,
                              pn_error *err);

/* What weights become (the modes of NNCF's compress_weights): integers of 4 or 8 bits, around zero, or from
   an offset of their own. Activations keep their precision. */
typedef enum pn_weight_mode {
    PN_WEIGHTS_INT4_ASYM,
    PN_WEIGHTS_INT4_SYM,
    PN_WEIGHTS_INT8_ASYM,
    PN_WEIGHTS_INT8_SYM
} pn_weight_mode;
/* What matrices become that are not to have 4 bits. AUTO: INT8_ASYM, or INT8_SYM where those who read the
   format know no other. */
typedef enum pn_backup_mode {
    PN_BACKUP_AUTO,
    PN_BACKUP_INT8_ASYM,
    PN_BACKUP_INT8_SYM,
    PN_BACKUP_NONE
} pn_backup_mode;
/* What is written: a GGUF file of types of our own, laid out to be mapped and run as they lie; one of the
   types Q4_0, Q4_1 and Q8_0, which every reader of GGUF knows; or a folder that Hugging Face transformers and
   vLLM load (compressed-tensors, with their embedding and output head left as they are). */
typedef enum pn_weight_format {
    PN_FORMAT_POSTERN,
    PN_FORMAT_GGUF,
    PN_FORMAT_COMPRESSED_TENSORS
} pn_weight_format;
/* Where the group size does not divide a row: the next smaller one that does, the matrix left as it is, or
   PN_ERR_ARGUMENT. */
typedef enum pn_group_fallback { PN_GROUP_ADJUST, PN_GROUP_IGNORE, PN_GROUP_ERROR } pn_group_fallback;
/* By what matrices are chosen that get 8 bits: what 4 bits lose of the weights; that of weights times the
   variance of the inputs; of weights weighed by the inputs (the diagonal of the Hessian); or how far each
   layer's outputs are off when a matrix of it has 4 bits. AUTO: MEASURED with calibration, else WEIGHT_ERROR,
   the only one that needs none. */
typedef enum pn_sensitivity {
    PN_SENSITIVITY_AUTO,
    PN_SENSITIVITY_WEIGHT_ERROR,
    PN_SENSITIVITY_ACTIVATION_VARIANCE,
    PN_SENSITIVITY_HESSIAN,
    PN_SENSITIVITY_MEASURED
} pn_sensitivity;

typedef struct pn_compress_options {
    pn_weight_format format;
    pn_weight_mode mode;
    int group_size; /* weights that share a scale in 4 bits: 32, 64, 128, or -1: all of a row, as always in
                       8 bits; 0: 128, or in GGUF's types the 32 that they have, also in 8 bits */
    pn_group_fallback fallback;
    double ratio;          /* [0, 1] share of the layers' weights in 4 bits; the others by `backup` */
    uint64_t target_bytes; /* instead of ratio, 0: none: of all tensors together */
    double target_bits;    /* the same, as bits per weight */
    double target_kl;      /* the same, as divergence from the uncompressed model on the calibration text
                              (pn_perplexity): as much in 4 bits as stays within it, found by trying */
    pn_backup_mode backup;
    bool all_layers;           /* embedding and output head count among the layers; else they are backed up */
    const char *const *ignore; /* [n_ignore] names of tensors to leave as they are, with * and ? */
    size_t n_ignore;
    pn_sensitivity sensitivity;
    const char *calibration; /* [calibration_len] text that shows what the model reads; NULL: none */
    size_t calibration_len;
    bool calibrate_on_self; /* instead: what the model itself says, from `seed` on */
    uint64_t seed;
    int calibration_sequences, calibration_tokens; /* how many pieces are read, and tokens of each */
    /* With calibration, ways that are tried, and kept per matrix where they do better on inputs that they
       have not seen: scales, and zero points, fitted to what errors do to the outputs; rounding with feedback
       of errors (GPTQ); columns stretched by their inputs (AWQ). */
    bool scale_estimation, zero_search, gptq, awq;
    /* A file where what was measured is kept: taken from there if it is of the same model and options, else
       written there. NULL: none. */
    const char *statistics;
    uint64_t memory_limit; /* bytes that working memory may take, 0: none; calibration reads less text where
                              that is enough */
    int n_threads;         /* 0: as for pn_model_open */
} pn_compress_options;
/* INT4_ASYM, groups and backup as suits the format, groups adjusted, ratio 0.9, no calibration; 20 sequences
   of 512 tokens where there is, and all ways tried. */
PN_API pn_compress_options pn_compress_options_default(void);

typedef struct pn_compressed_tensor {
    const char *name, *type_before, *type_after;
    const char *why;    /* it became that; NULL for a vector */
    const char *method; /* how it was rounded: "nearest", "gptq", …; NULL where it was not */
    int bits;           /* of a code; 0 where the weights are as they were */
    uint64_t n_weights, bytes_before, bytes_after;
    double error;        /* squared length of what rounding lost over that of the tensor */
    double output_error; /* the same of the tensor's outputs, with calibration */
    double seconds;      /* that rounding and writing it took; not in the file, which is the same each time */
} pn_compressed_tensor;

/* What was done, and what was asked, as in pn_compress_options. */
typedef struct pn_compress_result {
    pn_compressed_tensor *tensors; /* [n_tensors] in the file's order */
    size_t n_tensors;
    const char *source,
        *source_hash;          /* the name of the file that was compressed, and a hash of its tensors */
    const char *mode, *backup; /* "int4_asym" and the like; "none" */
    int group_size;
    bool all_layers;
    double ratio_asked, target_bits;
    uint64_t target_bytes;
    const char *sensitivity;                       /* "measured" and the like; "" where it is not known */
    int calibration_sequences, calibration_tokens; /* 0: no calibration */
    bool calibrated_on_self;
    const char *ways;                   /* tried in calibration, as in "gptq, awq"; "" for none */
    uint64_t bytes_before, bytes_after; /* of all tensors */
    double ratio;                       /* share of the layers' weights in 4 bits that was reached */
    /* These are 0 where it was read from a file. */
    double kl, kl_error; /* divergence from the uncompressed model and its standard error, with target_kl */
    double seconds;
    size_t n_resumed; /* tensors that an interrupted run with the same options had written already */
    void *memory;     /* behind all of it */
} pn_compress_result;
PN_API void pn_compress_result_free(pn_compress_result *result);

/* Writes the model of float weights at in_path to out_path with its matrices in integers. What was done is in
   the file too, under "postern.compression.report"; in a folder it is a file. A folder is never replaced.
   Which layers get 8 bits: those where that saves the most error of the weights. In memory it needs what the
   largest matrix takes. options may be NULL; *result is filled in on success, progress counts weights in
   millions. PN_ERR_UNSUPPORTED: weights that are integers already; PN_ERR_NUMERIC: a weight that is no
   number; PN_ERR_IO, PN_ERR_FORMAT, PN_ERR_MEMORY, PN_ERR_ARGUMENT; out_path is then as it was. */
PN_API pn_status pn_compress_weights(const char *in_path, const char *out_path,
                                     const pn_compress_options *options, pn_progress_fn progress, void *user,
                                     pn_compress_result *result, pn_error *err);

/* The same of a file that was written so, as it says itself. PN_ERR_UNSUPPORTED: it was not; PN_ERR_FORMAT,
   PN_ERR_LIMIT: what it says is damaged, or is not of these tensors; PN_ERR_IO, PN_ERR_MEMORY. */
PN_API pn_status pn_compress_read_report(const char *path, pn_compress_result *result, pn_error *err);

/* ---- quality
 * --------------------------------------------------------------------------------------------------- */

/* A mean and its standard error, as if the positions were independent. */
typedef struct pn_estimate {
    double value, error;
} pn_estimate;

typedef struct pn_perplexity_options {
    int n_ctx;                  /* tokens of a chunk, 8 or more; 0: those of the reference, or 512 */
    size_t n_chunks;            /* at most so many; 0: those of the reference, or all that the text has */
    pn_model *base;             /* compare with this model, on the same vocabulary; NULL: with none */
    const char *reference;      /* or with what was saved of one; NULL: nothing */
    const char *save_reference; /* write what the model says here, to compare others with it; NULL: do not */
    pn_kv_type kv_type;
    pn_precision precision;  /* of the model, and of the base */
    pn_progress_fn progress; /* counts tokens; may be NULL */
    void *user;
} pn_perplexity_options;

typedef struct pn_perplexity_result {
    int n_ctx;
    size_t n_chunks, n_scored; /* positions, of all chunks */
    pn_estimate ppl;
    /* The rest is 0 without a base or its reference. */
    pn_estimate base_ppl;
    pn_estimate ppl_ratio; /* ppl / base_ppl; its error is that of the pairs, so it is far smaller */
    pn_estimate kl;        /* divergence of the model from its base (Kullback-Leibler), mean of all positions
                              in nats; with a reference estimated, without bias */
    double kl_p99, kl_max; /* of positions: all but a hundredth are below, the greatest */
    pn_estimate same_top;  /* share of positions where both find the same token the most probable */
    pn_precision base_precision;
    char base_name[128];
} pn_perplexity_result;

/* How well a model predicts a text, and how near it is to its base. The text is tokenised as plain text and
   cut into chunks of n_ctx tokens, of which the first becomes BOS where the model wants one; what is left
   over is not used. Each token of a chunk's second half is predicted from all of the chunk before it: the
   positions n_ctx / 2 to n_ctx - 2 are scored. Perplexity is e to the mean of -log(probability) in nats.
   These are the conventions of llama.cpp.

   A reference is a file of some 300 bytes per scored position: the log-probability of the text's token, the
   32 most probable tokens with theirs, and 16 drawn from all others. It belongs to one vocabulary, text and
   n_ctx, and appears when it is whole.

   options may be NULL. PN_ERR_ARGUMENT: a text too short for a chunk, a chunk too long for the model, another
   vocabulary, or a reference of something else; PN_ERR_NUMERIC: a logit is no number; and what opening
   sessions, reading and writing files give. */
PN_API pn_status pn_perplexity(pn_model *model, const char *text, size_t len,
                               const pn_perplexity_options *options, pn_perplexity_result *out,
                               pn_error *err);

/* ---- generation
 * ------------------------------------------------------------------------------------------------ */

typedef struct pn_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY bans the token; +INFINITY is PN_ERR_ARGUMENT */
} pn_logit_bias;

/* Applied in this order: logit_bias; repeat, frequency and presence penalties over the last penalty_last_n
   tokens of the timeline; then, when temperature is 0, the greatest logit (the lowest id on a tie); else
   top_k, temperature, min_p, top_p, and a draw by seed. min_p and top_p see the probabilities after the
   temperature, top_p those among the tokens that min_p left. At least one candidate always survives. */
typedef struct pn_sampling {
    float temperature;       /* [0, 100] */
    int top_k;               /* 0: off */
    float top_p;             /* [0, 1]; 1: off; 0 keeps one candidate */
    float min_p;             /* [0, 1]; 0: off */
    float repeat_penalty;    /* [1e-6, 100]; 1: off */
    float presence_penalty;  /* [-100, 100] */
    float frequency_penalty; /* [-100, 100] */
    int penalty_last_n;      /* -1: the whole timeline */
    const pn_logit_bias *logit_bias;
    size_t n_logit_bias;
    uint64_t seed; /* the same request and seed give the same text on one build and kind of CPU */
    bool has_seed; /* false: a fresh seed, reported in pn_generate_result */
} pn_sampling;

/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalties, penalty_last_n 64, no seed. */
PN_API pn_sampling pn_sampling_default(void);

typedef enum pn_finish {
    PN_FINISH_STOP = 0, /* an end-of-generation token or a stop string */
    PN_FINISH_LENGTH,   /* max_tokens or the context was reached */
    PN_FINISH_CANCELLED /* by pn_session_cancel, or on_text returned false */
} pn_finish;

typedef struct pn_generate_options {
    int max_tokens; /* 0: until the context is full, or as many as it holds where it slides */
    size_t n_keep;  /* tokens of the prompt that sliding never cuts, as pn_chat_prefix counts those of the
                       system message; no fewer than what pn_session_start_chat was given, where the prompt
                       begins with that, and some in any case */
    pn_sampling sampling;    /* begin with pn_sampling_default(): all zero is refused */
    const char *const *stop; /* NUL-terminated strings that end the answer and are not part of it */
    size_t n_stop;
    bool ignore_eos; /* go on after an end-of-generation token, for benchmarks */
    /* Receives the answer as whole UTF-8 characters, in order, as soon as no stop string can begin there. The
       joined pieces are result.text. Return false to stop. May be NULL. */
    bool (*on_text)(void *user, const char *text, size_t len);
    /* Receives each token as it is sampled, before its text goes to on_text, an end-of-generation token too;
       and the logits [n_vocab] that it was drawn from, as the model gave them. NULL: nobody wants all of
       these, which is faster. */
    void (*on_token)(void *user, int32_t id, const float *logits);
    pn_progress_fn on_prefill;
    void *user;
} pn_generate_options;

typedef struct pn_generate_result {
    pn_text text;     /* freed by pn_generate_result_free */
    pn_tokens tokens; /* the generated ids, without the end-of-generation token */
    pn_finish finish;
    const char *stopped_by; /* the one of the options' stop strings that ended the answer, or NULL */
    uint64_t seed;
    /* Tokens of the prompt; so many were there already, so many were computed, and the rest was cut out. */
    size_t n_prompt, n_reused, n_prefilled;
    size_t cut_from, cut_to; /* tokens of prompt and answer that were cut out, from the first to before the
                                last: the model does not see them any more; both 0 where nothing was cut */
    size_t n_slides;         /* how often it was cut: before, and in the middle of the answer */
    size_t n_step_downs;     /* how often keys and values were packed to fewer bits */
    size_t n_stepped;        /* the first so many tokens, lastly */
    pn_kv_type kv_type;      /* what they are packed to now */
    double ttft_seconds;     /* from the call to the first token; 0 when there was none */
    double prefill_seconds;  /* n_prefilled tokens */
    double decode_seconds;   /* all tokens after the first */
    size_t n_drafted, n_accepted; /* by prompt lookup: tokens guessed, and guessed right */
    double lookup_break_even;     /* right guesses per attempt that it takes to pay; 0: not known yet */
} pn_generate_result;
PN_API void pn_generate_result_free(pn_generate_result *result);

/* Syncs to the prompt, then samples, streams and appends token by token. The session's timeline afterwards is
   the prompt and the tokens generated (but the last one, unless an end-of-generation token followed it), so
   that the next turn reuses it. options may be NULL. An empty prompt is PN_ERR_ARGUMENT.
   PN_ERR_NUMERIC when a logit is NaN. Cancelling is no error: the result says so. */
PN_API pn_status pn_generate(pn_session *session, const int32_t *prompt, size_t n_prompt,
                             const pn_generate_options *options, pn_generate_result *result, pn_error *err);

/* ---- machine
 * --------------------------------------------------------------------------------------------------- */

/* Bytes that this process may still use: the least of the system's available memory and of what its control
   groups leave; file pages, as mapped weights are, count as free. 0 when nothing tells. */
PN_API uint64_t pn_memory_available(void);

/* One budget for all that this process holds through the library, 0: none, as at first. Models and sessions
   that would pass it are refused with PN_ERR_MEMORY and what would fit instead, a session without a given
   n_ctx is made to fit, and no allocation passes it. */
PN_API void pn_memory_set_budget(uint64_t bytes);
/* What a process that has the machine's memory to itself can set: available memory, or less where a resource
   limit of the process leaves less, but for a twentieth, and 16 MiB at least, for what is not the library's.
   0 when nothing tells. */
PN_API uint64_t pn_memory_default_budget(void);

/* Bytes held now, and in `peak` the most at once of each, which need not have been at one time, and of all
   together in total; mapped weights as far as they are mapped, read or not. Either may be NULL. */
typedef struct pn_memory_use {
    uint64_t weights, kv, scratch, tables, total;
} pn_memory_use;
PN_API void pn_memory_get_use(pn_memory_use *now, pn_memory_use *peak);

/* Reads memory as decode does, several streams per thread, and gives the best of a few rounds in GB/s (1e9).
   Takes about half a second, and twice the memory of the last cache: 256 MiB at least, where so much is free.
   A model that fits in that cache may decode faster. n_threads 0: as for pn_model_open. */
PN_API pn_status pn_measure_bandwidth(int n_threads, double *gb_per_s, pn_error *err);

/* The multiply-adds of a product with integer weights in this precision, out of registers alone: the best of
   a few rounds in 1e9 per second, by the instructions that the kernels in use are made of. A tenth of a
   second. */
PN_API pn_status pn_measure_arithmetic(int n_threads, pn_precision precision, double *gmac_per_s,
                                       pn_error *err);

/* Rates of every kernel in one thread, on operands in cache, as a JSON object of "kernels", the instruction
   set, and "rates": per kernel and size of operands ("small", "large") the microseconds of a call, 1e9
   multiply-adds or bytes per second, and their share of what the instruction set's multiply-adds, or plain
   reads of as many bytes, come to. Takes some seconds. */
PN_API pn_status pn_bench_kernels_json(pn_precision precision, pn_text *out, pn_error *err);

#ifdef __cplusplus
}
#endif

#endif
