/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of a server: a few timelines, so that several conversations go on where they were. What they
   share, and what was lost of them, the library's tree of prefixes has. Used by the worker alone. */
#ifndef SERVER_SESSIONS_H
#define SERVER_SESSIONS_H

#include "generation.h"

#define SESSIONS_NAME_MAX 64

typedef struct session_slot {
    pn_session *session;
    char name[SESSIONS_NAME_MAX]; /* that requests gave it, cut; "": none */
    int32_t *tokens; /* [n] the timeline, as far as it is known: a prompt of n_prompt, and its answer */
    size_t n, n_prompt;
    uint64_t used; /* the greater, the later */
} session_slot;

typedef struct sessions {
    pn_model *model;
    pn_session_options options;
    session_slot *slots; /* [n] of at most n_max */
    size_t n, n_max;
    uint64_t n_uses;
} sessions;

/* With one session to begin with; others are made as they are wanted, as long as the memory budget has room.
 */
pn_status sessions_init(sessions *s, pn_model *model, const pn_session_options *options, size_t n_max,
                        pn_error *err);
void sessions_done(sessions *s);

/* The slot that loses the least by going on with a text: the one of the name; the one whose last prompt the
   text goes on from; an empty one, or SIZE_MAX for a new one; and when they are `full`, the one not used for
   the longest time: what its text has in common with another is taken over block by block. */
size_t sessions_pick(const session_slot *slots, size_t n, bool full, const char *name, const int32_t *tokens,
                     size_t n_tokens);

/* A slot for the tokens, with its session as the request wants it. NULL: the error says why. */
session_slot *sessions_take(sessions *s, const generation *g, const pn_tokens *tokens, api_error *error);
/* The slot's timeline is now these tokens, and the answer's after them. */
void sessions_note(session_slot *slot, const pn_tokens *prompt, const pn_tokens *answer);
/* Bytes of keys and values of all sessions, and what the prefix cache holds and gave up. */
void sessions_measure(const sessions *s, uint64_t *kv_bytes, uint64_t *prefix_cache_bytes,
                      uint64_t *n_evicted);

#endif
