/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/statistics.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/new_file.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- keys ---- */

/* Each part seeds the hash of the next. */
static void add_bytes(uint64_t *hash, const void *bytes, size_t n) {
    *hash = XXH3_64bits_withSeed(bytes, n, *hash + n);
}

static void add_text(uint64_t *hash, const char *text, size_t len) {
    add_bytes(hash, &len, sizeof len);
    if (len > 0) add_bytes(hash, text, len);
}

pn_key pn_statistics_key(const pn_job *job, bool whole) {
    const pn_compress_options *o = &job->options;
    const double measured[] = {o->format,
                               o->mode,
                               o->group_size,
                               o->fallback,
                               o->backup,
                               o->all_layers,
                               o->sensitivity,
                               o->calibrate_on_self,
                               o->calibration_sequences,
                               o->calibration_tokens};
    const double result[] = {
        o->ratio, (double)o->target_bytes, o->target_bits, o->scale_estimation, o->zero_search, o->gptq,
        o->awq};
    uint64_t hash = 0;
    add_text(&hash, job->source.hash, strlen(job->source.hash));
    add_bytes(&hash, measured, sizeof measured);
    for (size_t i = 0; i < o->n_ignore; i++)
        add_text(&hash, o->ignore[i], strlen(o->ignore[i]));
    add_text(&hash, o->calibration, o->calibration_len);
    add_bytes(&hash, &o->seed, sizeof o->seed);
    if (whole) add_bytes(&hash, result, sizeof result);
    pn_key key;
    snprintf(key.text, sizeof key.text, "%016llx", (unsigned long long)hash);
    return key;
}

/* ---- reading ---- */

static bool take_tokens(pn_job *job, const json_t *tokens) {
    pn_sequences *s = &job->sequences;
    const size_t n = (size_t)job->options.calibration_sequences,
                 len = (size_t)job->options.calibration_tokens;
    if (!job->options.calibrate_on_self) return true;
    if (json_array_size(tokens) != n * len || pn_sequences_make(n, len, s, NULL) != PN_OK) return false;
    for (size_t i = 0; i < n * len; i++) {
        const json_int_t id = json_integer_value(json_array_get(tokens, i));
        if (id < 0 || id >= pn_calibration_decoder(job->calibration)->n_vocab) {
            pn_sequences_free(s);
            return false;
        }
        s->ids[i] = (int32_t)id;
    }
    return true;
}

static bool take_gains(pn_job *job, const json_t *gains) {
    for (size_t i = 0; i < job->choices.n; i++) {
        pn_choice *c = &job->choices.items[i];
        const json_t *gain = json_object_getn(gains, c->tensor->name.data, c->tensor->name.len);
        c->measured = json_is_number(gain);
        c->gain = json_number_value(gain);
    }
    return json_is_object(gains);
}

bool pn_statistics_take(pn_job *job, const pn_key *key, const char *text, size_t len) {
    json_t *object = json_loadb(text, len, 0, NULL);
    const char *its_key = json_string_value(json_object_get(object, "key"));
    bool taken = its_key && strcmp(its_key, key->text) == 0 &&
                 take_gains(job, json_object_get(object, "gains")) &&
                 (job->sequences.ids || take_tokens(job, json_object_get(object, "tokens")));
    json_decref(object);
    return taken;
}

/* ---- writing ---- */

static json_t *gains_json(const pn_job *job) {
    json_t *gains = json_object();
    for (size_t i = 0; i < job->choices.n; i++) {
        const pn_choice *c = &job->choices.items[i];
        if (c->measured)
            json_object_setn_new(gains, c->tensor->name.data, c->tensor->name.len, json_real(c->gain));
    }
    return gains;
}

char *pn_statistics_text(const pn_job *job, const pn_key *key, size_t *len) {
    json_t *object =
        json_pack("{s:i, s:s, s:o}", "postern_statistics", 1, "key", key->text, "gains", gains_json(job));
    if (object && job->options.calibrate_on_self) {
        json_t *tokens = json_array();
        for (size_t i = 0; i < job->sequences.n * job->sequences.len; i++)
            json_array_append_new(tokens, json_integer(job->sequences.ids[i]));
        json_object_set_new(object, "tokens", tokens);
    }
    *len = object ? json_dumpb(object, NULL, 0, JSON_COMPACT) : 0;
    char *text = *len > 0 ? pn_alloc(PN_MEM_OTHER, *len, 1) : NULL;
    if (text) json_dumpb(object, text, *len, JSON_COMPACT);
    json_decref(object);
    return text;
}

/* ---- the file ---- */

void pn_statistics_load(pn_job *job) {
    pn_map map;
    if (pn_map_open(job->options.statistics, &map, NULL) != PN_OK) return;
    const pn_key key = pn_statistics_key(job, false);
    pn_statistics_take(job, &key, (const char *)map.data, (size_t)map.len);
    pn_map_close(&map);
}

pn_status pn_statistics_save(const pn_job *job, pn_error *err) {
    const pn_key key = pn_statistics_key(job, false);
    size_t len;
    char *text = pn_statistics_text(job, &key, &len);
    if (!text) return pn_fail_memory(err, "statistics", len);
    pn_new_file file = {.fd = -1};
    pn_status status = pn_new_file_begin(job->options.statistics, &file, err);
    if (status == PN_OK) {
        pn_new_file_write(&file, text, len);
        pn_new_file_write(&file, "\n", 1);
        status = pn_new_file_finish(&file, err);
    }
    pn_new_file_done(&file);
    pn_free(text);
    return status;
}
