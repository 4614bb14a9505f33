/* SPDX-License-Identifier: Apache-2.0 */
#include "support/template_render.h"

#include <stdlib.h>

static json_t *load(const char *text) {
    return text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
}

pn_status render_json(const char *source, size_t len, const char *variables, const char *trusted,
                      pn_template_limits limits, pn_rendering *out, pn_error *err) {
    json_t *given = load(variables), *good = load(trusted);
    pn_template *t = NULL;
    pn_status status = pn_template_parse(source, len, &t, err);
    pn_template_input input = {.variables = given, .trusted = good, .now = 1767323045, .limits = limits};
    if (status == PN_OK) status = pn_template_render(t, &input, out, err);
    pn_template_free(t);
    json_decref(given);
    json_decref(good);
    return status;
}

char *mark_trusted(const pn_rendering *r) {
    char *marked = malloc(r->text.len + 4 * r->n_trusted + 1), *to = marked;
    if (!marked) abort();
    size_t at = 0;
    for (size_t i = 0; i < r->n_trusted; i++) {
        pn_range range = r->trusted[i];
        memcpy(to, r->text.data + at, range.begin - at);
        to += range.begin - at;
        to = stpcpy(to, "[[");
        memcpy(to, r->text.data + range.begin, range.end - range.begin);
        to += range.end - range.begin;
        to = stpcpy(to, "]]");
        at = range.end;
    }
    memcpy(to, r->text.data + at, r->text.len - at);
    to[r->text.len - at] = '\0';
    return marked;
}
