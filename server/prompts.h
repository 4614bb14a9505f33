/* SPDX-License-Identifier: Apache-2.0 */
/* The prompts of a request as tokens. */
#ifndef SERVER_PROMPTS_H
#define SERVER_PROMPTS_H

#include "generation.h"

typedef struct prompts {
    pn_tokens *items; /* [n] */
    size_t n;
    size_t n_keep; /* tokens that a context which slides keeps: of a chat's system message */
} prompts;

/* Of all prompts, checked. False: the error says why. */
bool prompts_make(prompts *p, const generation *g, const pn_model *model, bool slides, api_error *error);
void prompts_free(prompts *p, const generation *g);

#endif
