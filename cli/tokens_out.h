/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens as `tokenize` and `template --tokens` show them. */
#ifndef CLI_TOKENS_OUT_H
#define CLI_TOKENS_OUT_H

#include <postern.h>

#include <jansson.h>

/* One line per token on standard output: id, tab, piece escaped. */
pn_status tokens_print(const pn_model *model, const pn_tokens *tokens, pn_error *err);
/* Sets "n", "ids" and "pieces" of the object. */
pn_status tokens_to_json(const pn_model *model, const pn_tokens *tokens, json_t *object, pn_error *err);

#endif
