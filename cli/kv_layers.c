/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_layers.h"

#include "common.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define N_MAX (sizeof((kv_layers *)NULL)->items / sizeof((kv_layers *)NULL)->items[0])

/* A number below a million. */
static bool read_number(const char **text, int *out) {
    *out = 0;
    const char *at = *text;
    while (isdigit((unsigned char)*at) && at - *text < 6)
        *out = 10 * *out + (*at++ - '0');
    const bool found = at > *text && !isdigit((unsigned char)*at);
    *text = at;
    return found;
}

static bool read_type(const char **text, pn_kv_type *out) {
    static const struct {
        const char *name;
        pn_kv_type type;
    } types[] = {{"f16", PN_KV_F16}, {"q8", PN_KV_Q8}, {"k8v4", PN_KV_K8V4}};
    const size_t len = strcspn(*text, ",");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (len == strlen(types[i].name) && strncmp(*text, types[i].name, len) == 0) {
            *out = types[i].type;
            *text += len;
            return true;
        }
    return false;
}

/* FIRST[-LAST]=TYPE */
static bool read_item(const char **text, pn_kv_layers *out) {
    if (!read_number(text, &out->first)) return false;
    out->last = out->first;
    if (**text == '-') {
        ++*text;
        if (!read_number(text, &out->last)) return false;
    }
    return *(*text)++ == '=' && read_type(text, &out->type);
}

int kv_layers_set(kv_layers *l, const char *text, pn_model_options *options) {
    *l = (kv_layers){.n = 0};
    for (const char *at = text; at != NULL && *at != '\0';) {
        if (l->n == N_MAX || !read_item(&at, &l->items[l->n++]) || (*at != ',' && *at != '\0'))
            return cli_error(
                CLI_USAGE,
                "--kv-layers takes up to %zu times FIRST-LAST=TYPE, with a type of f16, q8 or k8v4, "
                "as in 0-1=q8,29=f16: \"%s\" is something else",
                N_MAX, text);
        if (*at == ',') at++;
    }
    options->kv_layers = l->items;
    options->n_kv_layers = l->n;
    return CLI_OK;
}
