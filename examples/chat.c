/* SPDX-License-Identifier: Apache-2.0 */
/* A chat in a screen of code:
     cc chat.c $(pkg-config --cflags --libs postern jansson) -o chat && ./chat MODEL.gguf */
#include <jansson.h>
#include <postern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool show(void *user, const char *text, size_t len) {
    (void)user;
    return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0;
}

static void add_message(json_t *messages, const char *role, const char *text, size_t len) {
    json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", role, "content", text, len));
}

/* Answers the messages so far. The session computes only what is new since its last answer. */
static pn_status answer(pn_model *model, pn_session *session, json_t *messages, pn_error *err) {
    pn_generate_options options = {.sampling = pn_sampling_default(), .on_text = show};
    pn_generate_result result = {0};
    pn_tokens prompt = {0};
    char *json = json_dumps(messages, 0);
    pn_status status = pn_chat_tokenize(model, json, NULL, &prompt, err);
    if (status == PN_OK) status = pn_generate(session, prompt.ids, prompt.n, &options, &result, err);
    if (status == PN_OK) add_message(messages, "assistant", result.text.data, result.text.len);
    pn_generate_result_free(&result);
    pn_tokens_free(&prompt);
    free(json);
    return status;
}

int main(int argc, char **argv) {
    pn_error err = {0};
    pn_model *model = NULL;
    pn_session *session = NULL;
    json_t *messages = json_array();
    char line[4096];
    pn_status status = argc == 2 ? pn_model_open(argv[1], NULL, &model, &err) : PN_ERR_ARGUMENT;
    if (status == PN_OK) status = pn_session_create(model, NULL, &session, &err);
    while (status == PN_OK && fputs("> ", stdout) >= 0 && fgets(line, sizeof line, stdin) != NULL) {
        add_message(messages, "user", line, strcspn(line, "\n"));
        status = answer(model, session, messages, &err);
        putchar('\n');
    }
    if (status != PN_OK) fprintf(stderr, "%s\n", argc == 2 ? err.message : "usage: chat MODEL.gguf");
    json_decref(messages);
    pn_session_free(session);
    pn_model_close(model);
    return status == PN_OK ? 0 : 1;
}
