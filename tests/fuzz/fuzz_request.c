/* SPDX-License-Identifier: Apache-2.0 */
/* The input is the body of a request to the server. It is refused with an error that names a status, or read,
   within the bounds that are promised; and an answer that says what the input says is JSON. */
#include "server/api_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) abort();
}

static void check_bounds(const generation *g) {
    require(g->n >= 1 && g->n <= GENERATION_CHOICES_MAX && g->n_prompts >= 1);
    require(g->n_logprobs >= -1 && g->n_logprobs <= LOGPROBS_TOP_MAX && g->max_tokens >= -1);
    require(g->sampling.temperature >= 0 && g->sampling.top_p >= 0 && g->sampling.top_p <= 1);
    for (size_t i = 0; i < g->n_stop; i++)
        require(g->stop[i][0] != '\0');
    for (size_t i = 0; i < g->sampling.n_logit_bias; i++)
        require(g->sampling.logit_bias[i].id >= 0 && g->sampling.logit_bias[i].bias <= 100);
    if (g->messages != NULL) require(json_array_size(g->messages) > 0);
}

static void check_json(json_t *json) {
    require(json != NULL);
    char *text = json_dumps(json, JSON_COMPACT);
    require(text != NULL);
    free(text);
    json_decref(json);
}

static bool take_event(void *user, const char *name, json_t *data) {
    (void)user, (void)name;
    check_json(data);
    return true;
}

static void answer(const generation *g, const uint8_t *data, size_t size) {
    scored_token token = {.token = {1, -0.5f}, .n_top = 1, .piece = {(char *)data, size}};
    token.top[0] = token.token;
    token.top_pieces[0] = token.piece;
    const scored_tokens list = {.items = &token, .n = 1};
    const answer_part part = {.first = true,
                              .text = (const char *)data,
                              .len = size,
                              .tokens = &list,
                              .n_tokens = 1,
                              .finish = "stop"};
    const request_record record = {.finish = "stop"};
    const answer_head head = {g, "model", &record, 1};
    const event_sink to = {take_event, NULL};
    check_json(g->format->whole(&head, json_pack("[o]", g->format->choice(&part))));
    require(g->format->send_piece(&head, &part, &to) && g->format->send_end(&head, &to));
}

static void ask(generation *(*read)(json_t *, api_error *), const uint8_t *data, size_t size) {
    json_t *body = json_loadb((const char *)data, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    api_error error = {0};
    if (!json_is_object(body)) {
        json_decref(body);
        return;
    }
    generation *g = read(body, &error);
    require((g != NULL) == (error.status == 0));
    if (g != NULL) {
        check_bounds(g);
        answer(g, data, size);
    } else {
        require(error.status >= 400 && error.message[0] != '\0');
        check_json(api_error_json(&error));
    }
    generation_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ask(chat_api_read, data, size);
    ask(completion_api_read, data, size);
    ask(messages_api_read, data, size);
    return 0;
}
