/* SPDX-License-Identifier: Apache-2.0 */
/* How an API writes an answer: the worker makes parts, and a format makes JSON of them. */
#ifndef SERVER_API_FORMAT_H
#define SERVER_API_FORMAT_H

#include "generation.h"
#include "logprobs.h"
#include "metrics.h"

/* What holds for all of an answer. */
typedef struct answer_head {
    const generation *work;
    const char *model_name;
    const request_record *record; /* so far */
    size_t n_prompt;              /* tokens of the first prompt */
} answer_head;

/* A whole answer, or a piece of a stream. */
typedef struct answer_part {
    int index;  /* of the choice */
    bool first; /* of its choice, in a stream */
    const char *text;
    size_t len;
    const scored_tokens
        *tokens; /* the first n_tokens of these, which `text` shows; NULL: no log-probabilities */
    size_t n_tokens;
    size_t text_offset;     /* characters of the choice before them */
    const char *finish;     /* "stop" or "length"; NULL: it goes on */
    const char *stopped_by; /* the stop string that ended it, or NULL */
} answer_part;

/* Where events of a stream go; takes the data, of which NULL is no memory. `name` is NULL where the API has
   no names. False: nobody waits for more, or there is no memory. */
typedef struct event_sink {
    bool (*send)(void *user, const char *name, json_t *data);
    void *user;
} event_sink;

typedef struct api_format {
    const char *object, *chunk_object; /* names of OpenAI's kinds */
    bool shows_end;                    /* end-of-generation tokens are among those with log-probabilities */
    bool role_first;                   /* a stream's first piece has no text of its own */
    const char *last_line;             /* of a stream, after all events; NULL: none */
    json_t *(*choice)(const answer_part *part);
    json_t *(*piece)(const answer_part *part);                  /* of OpenAI's kinds */
    json_t *(*whole)(const answer_head *head, json_t *choices); /* takes the choices */
    bool (*send_piece)(const answer_head *head, const answer_part *part, const event_sink *to);
    bool (*send_end)(const answer_head *head, const event_sink *to);
} api_format;

/* openai_format.c: `whole`, `send_piece` and `send_end` of OpenAI's kinds. */
json_t *openai_whole(const answer_head *head, json_t *choices);
bool openai_send_piece(const answer_head *head, const answer_part *part, const event_sink *to);
bool openai_send_end(const answer_head *head, const event_sink *to);
/* Beside what an API knows: what was not reused and why, and what became of the context. */
json_t *context_json(const context_record *context);
/* Text of any bytes. */
json_t *clean_json(const char *text, size_t len);

/* POST /v1/chat/completions, /v1/completions and /v1/messages: the request read from a body, which is taken
   over. NULL: the error says why. */
generation *chat_api_read(json_t *body, api_error *error);
generation *completion_api_read(json_t *body, api_error *error);
generation *messages_api_read(json_t *body, api_error *error);

#endif
