/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/chat/completions, /v1/completions, /v1/messages. */
#include "api_format.h"
#include "routes.h"

void ep_chat_completions(request *r);
void ep_completions(request *r);
void ep_messages(request *r);

/* The body goes to the worker whole: jansson's counts of references are not for two threads at a time. */
static void submit(request *r, generation *(*read)(json_t *, api_error *)) {
    api_error error = {0};
    json_t *body = r->json;
    r->json = NULL;
    request_submit(r, read(body, &error), &error);
}

void ep_chat_completions(request *r) {
    submit(r, chat_api_read);
}

void ep_completions(request *r) {
    submit(r, completion_api_read);
}

void ep_messages(request *r) {
    submit(r, messages_api_read);
}
