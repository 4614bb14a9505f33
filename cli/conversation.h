/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a chat, as the JSON array that the library renders. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include <postern.h>

#include <jansson.h>

typedef struct conversation {
    json_t *messages; /* an optional system message, then user and assistant in turn */
    char *answered;   /* the messages of the prompt that was answered last, as JSON; NULL: none yet */
} conversation;

void conversation_init(conversation *c);
void conversation_done(conversation *c);

/* Sets the system message; an empty text takes it away. */
void conversation_set_system(conversation *c, const char *text, size_t len);
/* The system message, or NULL. */
const char *conversation_system(const conversation *c);
void conversation_add(conversation *c, const char *role, const char *text, size_t len);
void conversation_drop_last(conversation *c);
/* Role of the last message, or "" when there is none. */
const char *conversation_last_role(const conversation *c);
/* Drops all but the system message. */
void conversation_reset(conversation *c);
size_t conversation_length(const conversation *c);

pn_status conversation_tokenize(const conversation *c, const pn_model *model, const pn_chat_options *options,
                                pn_tokens *out, pn_error *err);
/* The messages that all conversations with this system message begin with, as JSON, for free(). */
char *conversation_begin_json(const conversation *c);
/* To be called before a prompt is answered: where it departs from the last one, and why. */
pn_status conversation_explain(conversation *c, pn_session *session, const pn_chat_options *options,
                               pn_cache_explanation *out, pn_error *err);
/* What the prompts of all conversations with this system message begin with (pn_chat_prefix), and how many
   tokens that is. */
pn_status conversation_begin(const conversation *c, const pn_model *model, const pn_chat_options *options,
                             pn_tokens *out, pn_error *err);
pn_status conversation_count_system(const conversation *c, const pn_model *model,
                                    const pn_chat_options *options, size_t *n, pn_error *err);
/* Writes the messages as `postern template -f` reads them; prints the error and returns the exit code. */
int conversation_save(const conversation *c, const char *path);

#endif
