/* SPDX-License-Identifier: Apache-2.0 */
/* What a request asks of the model, whatever API it came by. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include "fields.h"

struct api_format;

#define GENERATION_CHOICES_MAX 128
#define GENERATION_ID_MAX      48

/* A prompt of the completions API: text or tokens. */
typedef struct raw_prompt {
    const char *text; /* [len], or NULL: tokens; in `body` */
    size_t len;
    pn_tokens tokens; /* ids of ours, freed with free() */
} raw_prompt;

typedef struct generation {
    const struct api_format *format;
    json_t *body; /* owned; other pointers go into it */
    char id[GENERATION_ID_MAX];
    int64_t created;        /* Unix seconds */
    const json_t *messages; /* of a chat, or NULL */
    raw_prompt *prompts;    /* [n_prompts] otherwise */
    size_t n_prompts;       /* 1 for a chat */
    int n;                  /* answers to each */
    int max_tokens;         /* 0: no limit but the context; -1: none, the prompt is only scored */
    bool stream, include_usage, echo, no_cache;
    int n_logprobs;      /* alternatives to report with each token; -1: no log-probabilities at all */
    const char *session; /* name that requests of one conversation share; NULL: none */
    const char *tier;    /* NULL: as the server was started */
    int overflow;        /* pn_overflow; -1: as the server was started */
    pn_sampling sampling;
    const char **stop; /* [n_stop] */
    size_t n_stop;
} generation;

/* Reads the fields that the APIs share out of `body`, which it owns from then on, also when it fails. NULL:
   the error says why. */
generation *generation_create(json_t *body, const char *id_prefix, api_error *error);
void generation_free(generation *g);

#endif
