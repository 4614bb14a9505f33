/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_SCORING_H
#define SERVER_SCORING_H

#include "logprobs.h"

/* Tokens that a session of the server computes at a time. */
#define SCORING_CHUNK 256

/* Adds every token of a prompt to the list, each but the first with what the model says of it and of the
   n_top likeliest in its place. All of the prompt is computed, and is the session's timeline then; the
   session's n_chunk must be SCORING_CHUNK. Errors as of pn_session_sync. */
pn_status scoring_prompt(pn_session *session, const pn_model *model, const pn_tokens *prompt, int n_top,
                         scored_tokens *list, pn_error *err);

#endif
