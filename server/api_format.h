/* SPDX-License-Identifier: Apache-2.0 */
/* How an API writes an answer: the worker makes parts, and a format makes JSON of them. */
#ifndef SERVER_API_FORMAT_H
#define SERVER_API_FORMAT_H

#include "generation.h"
#include "logprobs.h"

/* A whole answer, or a piece of a stream. */
typedef struct answer_part {
    int index;  /* of the choice */
    bool first; /* of its choice, in a stream */
    const char *text;
    size_t len;
    const scored_tokens
        *tokens; /* the first n_tokens of these, which `text` shows; NULL: no log-probabilities */
    size_t n_tokens;
    size_t text_offset; /* characters of the choice before them */
    const char *finish; /* NULL: it goes on */
} answer_part;

typedef struct api_format {
    const char *object, *chunk_object;
    bool shows_end;  /* end-of-generation tokens are among those with log-probabilities */
    bool role_first; /* a stream's first piece has no text of its own */
    json_t *(*whole)(const answer_part *part);
    json_t *(*piece)(const answer_part *part);
} api_format;

/* POST /v1/chat/completions and /v1/completions: the request read from a body, which is taken over. The
   latter of prompts in tokens or text. NULL: the error says why. */
generation *chat_api_read(json_t *body, api_error *error);
generation *completion_api_read(json_t *body, api_error *error);

#endif
