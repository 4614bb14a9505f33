/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a template, rendered over variables of every kind within small limits. Whatever the template,
   it must end in a rendering whose trusted ranges are in order, or in an error with a message; and the same
   again when some allocation fails, which the first byte picks. */
#include "base/mem.h"
#include "template/template.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char variables_json[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\" hi "
    "<|end|>\\n\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{"
    "\"x\":1.5,"
    "\"y\":\"\\u4e2d\\\"\"}}}]},{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}],\"s\":"
    "\"a,b c\","
    "\"n\":3,\"f\":-0.5,\"b\":true,\"z\":null,\"l\":[3,1,[2,\"x\"]],\"d\":{\"k\":\"v\",\"a\":{}},"
    "\"add_generation_prompt\":true}";
static const char trusted_json[] = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}";

static void require(bool holds) {
    if (!holds) abort();
}

static void check_rendering(const pn_rendering *r) {
    size_t end = 0;
    require(r->text.data[r->text.len] == '\0');
    for (size_t i = 0; i < r->n_trusted; i++) {
        require(r->trusted[i].begin >= end && r->trusted[i].begin < r->trusted[i].end);
        require(i == 0 || r->trusted[i].begin > end);
        end = r->trusted[i].end;
    }
    require(end <= r->text.len);
}

static void render(const char *source, size_t len, const pn_template_input *input) {
    pn_template *t = NULL;
    pn_rendering r;
    pn_error err = {0};
    pn_status status = pn_template_parse(source, len, &t, &err);
    if (status == PN_OK) status = pn_template_render(t, input, &r, &err);
    if (status == PN_OK) {
        check_rendering(&r);
        pn_rendering_free(&r);
    } else {
        require(err.code == status && err.message[0] != '\0');
    }
    pn_template_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *variables = json_loads(variables_json, 0, NULL), *trusted = json_loads(trusted_json, 0, NULL);
    require(variables && trusted);
    pn_template_input input = {.variables = variables,
                               .trusted = trusted,
                               .now = 1767323045,
                               .limits = {.max_steps = 20000, .max_output_bytes = 1u << 20}};
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    render((const char *)data, size, &input);
    pn_mem_fail_at(size ? 1 + data[0] % 16u : 1);
    render((const char *)data, size, &input);
    pn_mem_fail_at(0);
    require(pn_mem_bytes(PN_MEM_OTHER) == held);
    json_decref(variables);
    json_decref(trusted);
    return 0;
}
