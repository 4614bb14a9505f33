/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/chat/completions, /v1/completions. */
#include "api_format.h"
#include "routes.h"

void ep_chat_completions(request *r);
void ep_completions(request *r);

void ep_chat_completions(request *r) {
    api_error error = {0};
    request_submit(r, chat_api_read(json_incref(r->json), &error), &error);
}

void ep_completions(request *r) {
    api_error error = {0};
    request_submit(r, completion_api_read(json_incref(r->json), &error), &error);
}
