/* SPDX-License-Identifier: Apache-2.0 */
#include "generation.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define STOPS_MAX  64
#define BIASES_MAX 4096

static bool no_memory(api_error *error) {
    return api_error_set(error, 503, "out_of_memory", NULL, "there is no memory for the request");
}

static bool read_stop(const fields *f, generation *g) {
    const json_t *stop = fields_get(f, "stop");
    if (stop == NULL) return true;
    const size_t n = json_is_array(stop) ? json_array_size(stop) : 1;
    if (!json_is_array(stop) && !json_is_string(stop))
        return fields_wrong(f, "stop", "a string or a list of strings");
    if (n > STOPS_MAX)
        return api_error_set(f->error, 400, "invalid_value", "stop",
                             "'stop' has %zu strings: at most %d are possible", n, STOPS_MAX);
    g->stop = calloc(n > 0 ? n : 1, sizeof *g->stop);
    if (g->stop == NULL) return no_memory(f->error);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(stop) ? json_array_get(stop, i) : stop;
        if (!json_is_string(item)) return fields_wrong(f, "stop", "a string or a list of strings");
        g->stop[i] = json_string_value(item);
        if (json_string_length(item) == 0 || strlen(g->stop[i]) != json_string_length(item))
            return api_error_set(f->error, 400, "invalid_value", "stop",
                                 "string %zu of 'stop' is empty or holds a NUL character", i + 1);
    }
    g->n_stop = n;
    return true;
}

/* "123": a token's id. */
static bool read_id(const char *text, int32_t *out) {
    char *end;
    errno = 0;
    const long id = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || id > INT32_MAX) return false;
    *out = (int32_t)id;
    return true;
}

/* By the API's definition -100 bans a token. */
static bool read_bias(const fields *f, generation *g) {
    const json_t *bias = fields_get(f, "logit_bias");
    if (bias == NULL) return true;
    if (!json_is_object(bias)) return fields_wrong(f, "logit_bias", "an object of token ids and numbers");
    if (json_object_size(bias) > BIASES_MAX)
        return api_error_set(f->error, 400, "invalid_value", "logit_bias",
                             "'logit_bias' has more than %d tokens", BIASES_MAX);
    pn_logit_bias *items = calloc(json_object_size(bias) + 1, sizeof *items);
    if (items == NULL) return no_memory(f->error);
    g->sampling.logit_bias = items;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)bias, key, value) {
        pn_logit_bias *item = &items[g->sampling.n_logit_bias];
        const double x = json_number_value(value);
        if (!read_id(key, &item->id) || !json_is_number(value) || !(x >= -100 && x <= 100))
            return api_error_set(f->error, 400, "invalid_value", "logit_bias",
                                 "'logit_bias' must give token ids numbers from -100 to 100");
        item->bias = x <= -100 ? -INFINITY : (float)x;
        g->sampling.n_logit_bias++;
    }
    return true;
}

static bool read_sampling(const fields *f, generation *g) {
    pn_sampling *s = &g->sampling;
    *s = pn_sampling_default();
    return fields_float(f, "temperature", 0, 100, &s->temperature) &&
           fields_float(f, "top_p", 0, 1, &s->top_p) && fields_int(f, "top_k", 0, INT_MAX, &s->top_k) &&
           fields_float(f, "min_p", 0, 1, &s->min_p) &&
           fields_float(f, "repeat_penalty", 1e-6, 100, &s->repeat_penalty) &&
           fields_float(f, "repetition_penalty", 1e-6, 100, &s->repeat_penalty) &&
           fields_float(f, "presence_penalty", -100, 100, &s->presence_penalty) &&
           fields_float(f, "frequency_penalty", -100, 100, &s->frequency_penalty) &&
           fields_int(f, "penalty_last_n", -1, INT_MAX, &s->penalty_last_n) &&
           fields_seed(f, "seed", &s->seed, &s->has_seed) && read_bias(f, g) && read_stop(f, g);
}

static bool read_overflow(const fields *f, generation *g) {
    const char *name = NULL;
    if (!fields_text(f, "overflow", &name)) return false;
    if (name == NULL) return true;
    if (strcmp(name, "error") != 0 && strcmp(name, "slide") != 0)
        return api_error_set(f->error, 400, "invalid_value", "overflow",
                             "'overflow' must be \"error\" or \"slide\"");
    g->overflow = strcmp(name, "slide") == 0 ? PN_OVERFLOW_SLIDE : PN_OVERFLOW_ERROR;
    return true;
}

static bool read_stream(const fields *f, generation *g) {
    const json_t *options = fields_get(f, "stream_options");
    if (!fields_bool(f, "stream", &g->stream)) return false;
    if (options == NULL) return true;
    if (!json_is_object(options)) return fields_wrong(f, "stream_options", "an object");
    if (!g->stream)
        return api_error_set(f->error, 400, "invalid_value", "stream_options",
                             "'stream_options' is only possible with 'stream': true");
    const fields inner = {options, f->error};
    return fields_bool(&inner, "include_usage", &g->include_usage);
}

/* What would change the answer's form and is not there is refused: an answer of another form is worse than
 * none. */
static bool refuse_unsupported(const fields *f) {
    static const char *const lists[] = {"tools", "functions"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = fields_get(f, lists[i]);
        if (list != NULL && !json_is_array(list)) return fields_wrong(f, lists[i], "a list");
        if (list != NULL && json_array_size(list) > 0)
            return api_error_set(f->error, 400, "unsupported", lists[i], "'%s' is not supported yet",
                                 lists[i]);
    }
    const json_t *format = fields_get(f, "response_format");
    if (format == NULL) return true;
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type == NULL) return fields_wrong(f, "response_format", "an object with a 'type'");
    if (strcmp(type, "text") == 0) return true;
    return api_error_set(f->error, 400, "unsupported", "response_format",
                         "'response_format' of a type other than \"text\" is not supported yet");
}

static void set_id(generation *g, const char *prefix) {
    static atomic_uint n_ids;
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = (uint64_t)time(NULL);
    snprintf(g->id, sizeof g->id, "%s-%016llx%04x", prefix, (unsigned long long)random,
             atomic_fetch_add(&n_ids, 1) & 0xFFFF);
}

generation *generation_create(json_t *body, const char *id_prefix, api_error *error) {
    const fields f = {body, error};
    const char *model = NULL, *user = NULL; /* of any name: there is one model */
    generation *g = calloc(1, sizeof *g);
    if (g == NULL) {
        json_decref(body);
        no_memory(error);
        return NULL;
    }
    *g = (generation){.body = body, .n_prompts = 1, .n = 1, .n_logprobs = -1, .overflow = -1};
    g->created = (int64_t)time(NULL);
    set_id(g, id_prefix);
    bool cache = true;
    if (fields_text(&f, "model", &model) && fields_text(&f, "user", &user) &&
        fields_int(&f, "n", 1, GENERATION_CHOICES_MAX, &g->n) && fields_bool(&f, "cache_prompt", &cache) &&
        fields_text(&f, "session", &g->session) && fields_text(&f, "tier", &g->tier) &&
        read_overflow(&f, g) && read_stream(&f, g) && read_sampling(&f, g) && refuse_unsupported(&f)) {
        g->no_cache = !cache;
        return g;
    }
    generation_free(g);
    return NULL;
}

void generation_free(generation *g) {
    if (g == NULL) return;
    for (size_t i = 0; g->prompts != NULL && i < g->n_prompts; i++)
        free(g->prompts[i].tokens.ids);
    free(g->prompts);
    free(g->stop);
    free((void *)g->sampling.logit_bias);
    json_decref(g->body);
    free(g);
}
