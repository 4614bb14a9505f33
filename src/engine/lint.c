/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a chat template only appends: conversations grow turn by turn, and each prompt is compared with the
   one before it and its answer. */
#include "engine/engine.h"

#include <jansson.h>

#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define THINK      "<think>\nIt is dark.\n</think>\n\n"
#define THINK_JSON "<think>\\nIt is dark.\\n</think>\\n\\n"
#define CALL                                                                                                 \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{"         \
    "\"name\":\"look\",\"arguments\":{\"at\":\"gate\"}}}]},{\"role\":\"tool\",\"content\":\"One man.\"}"
#define ANSWER(pre) "{\"role\":\"assistant\",\"content\":\"" pre "A friend of the castle.\"}"

/* A prompt, the answer that the model gives, and the prompt of the turn after it. */
static const struct growth {
    const char *name, *before, *answer, *after;
    int64_t seconds; /* that pass between them */
} cases[] = {
    {"turns", "[" USER("Who goes there?") "]", "A friend of the castle.",
     "[" USER("Who goes there?") "," ANSWER("") "," USER("Then pass.") "]", 0},
    {"system message",
     "[{\"role\":\"system\",\"content\":\"You keep the gate.\"}," USER("Who goes there?") "]",
     "A friend of the castle.",
     "[{\"role\":\"system\",\"content\":\"You keep the gate.\"}," USER("Who goes there?") "," ANSWER(
         "") "," USER("Then pass.") "]",
     0},
    {"thinking", "[" USER("Who goes there?") "]", THINK "A friend of the castle.",
     "[" USER("Who goes there?") "," ANSWER(THINK_JSON) "," USER("Then pass.") "]", 0},
    {"third turn", "[" USER("Halt.") "," ANSWER("") "," USER("Who goes there?") "]",
     "A friend of the castle.",
     "[" USER("Halt.") "," ANSWER("") "," USER("Who goes there?") "," ANSWER("") "," USER("Then pass.") "]",
     0},
    {"tool result", "[" USER("Who goes there?") "," CALL "]", "A friend of the castle.",
     "[" USER("Who goes there?") "," CALL "," ANSWER("") "," USER("Then pass.") "]", 0},
    {"another time", "[" USER("Who goes there?") "]", "A friend of the castle.",
     "[" USER("Who goes there?") "," ANSWER("") "," USER("Then pass.") "]", 86400 + 3661},
};
#define N_CASES (sizeof cases / sizeof cases[0])

static pn_status compare(const pn_model *m, const struct growth *g, const pn_chat_options *o, bool *appends,
                         pn_cache_explanation *e, pn_error *err) {
    const char *answer = g->answer;
    pn_chat_options first = *o, second;
    pn_text prompt = {0};
    pn_rendering now = {0};
    json_t *messages = NULL, *before = NULL;
    pn_buf old;
    pn_buf_init(&old, PN_BUF_NO_BOUND);
    pn_status status = PN_OK;
    first.no_generation_prompt = false;
    if (first.now == 0) first.now = 1767323045; /* the same in both, where no time is to pass */
    second = first;
    second.now += g->seconds;
    PN_TRY_GOTO(status, pn_chat_render(m, g->before, &first, &prompt, err), done);
    PN_TRY_GOTO(status, pn_chat_rendering(m, g->after, &second, &now, err), done);
    PN_TRY_GOTO(status, pn_chat_messages(g->before, &before, err), done);
    PN_TRY_GOTO(status, pn_chat_messages(g->after, &messages, err), done);
    pn_buf_append(&old, prompt.data, prompt.len);
    /* Templates that begin the thought themselves leave the rest to the model. */
    if (strncmp(answer, "<think>\n", 8) == 0 && prompt.len >= 8 &&
        memcmp(prompt.data + prompt.len - 8, "<think>\n", 8) == 0)
        answer += 8;
    pn_buf_append_str(&old, answer);
    status = old.status == PN_OK ? PN_OK : pn_fail_memory(err, "prompt", prompt.len);
    if (status == PN_OK)
        *appends = !pn_departure_find((pn_str){old.data, old.len}, &now, messages, before, e);
done:
    pn_buf_done(&old);
    json_decref(messages);
    json_decref(before);
    pn_rendering_free(&now);
    pn_text_free(&prompt);
    return status;
}

static pn_status lint_case(const pn_model *m, const struct growth *g, const pn_chat_options *o, json_t *list,
                           bool *all, pn_error *err) {
    bool appends = true;
    pn_cache_explanation e = {.message = -1};
    pn_error why = {0};
    json_t *object;
    const pn_status status = compare(m, g, o, &appends, &e, &why);
    if (status == PN_ERR_TEMPLATE && g != cases) {
        object = json_pack("{s:s, s:s, s:s}", "name", g->name, "result", "refused", "message", why.message);
    } else if (status != PN_OK) {
        if (err) *err = why;
        return status;
    } else if (appends) {
        object = json_pack("{s:s, s:s}", "name", g->name, "result", "appends");
    } else {
        *all = false;
        object = json_pack("{s:s, s:s, s:s, s:i, s:s, s:s?, s:s, s:s}", "name", g->name, "result", "rewrites",
                           "cause", pn_cache_cause_name(e.cause), "index", e.message, "role", e.role, "field",
                           e.field, "old_text", e.old_text, "new_text", e.new_text);
    }
    return object && json_array_append_new(list, object) == 0 ? PN_OK : pn_fail_memory(err, "report", 0);
}

pn_status pn_chat_lint_json(const pn_model *model, const pn_chat_options *options, pn_text *out,
                            pn_error *err) {
    const pn_chat_options plain = {0};
    json_t *list = json_array();
    bool all = true;
    pn_status status = list ? PN_OK : pn_fail_memory(err, "report", 0);
    for (size_t i = 0; i < N_CASES && status == PN_OK; i++)
        status = lint_case(model, &cases[i], options ? options : &plain, list, &all, err);
    json_t *report = status == PN_OK ? json_pack("{s:b, s:O}", "appends", all, "cases", list) : NULL;
    char *text = report ? pn_chat_json_text(report) : NULL;
    if (status == PN_OK && !text) status = pn_fail_memory(err, "report", 0);
    if (status == PN_OK) *out = (pn_text){text, strlen(text)};
    json_decref(report);
    json_decref(list);
    return status;
}
