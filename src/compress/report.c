/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/report.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define LATER_BYTES 128 /* of what is known only when a tensor is written: its errors and method */

static const char *const modes[] = {"int4_asym", "int4_sym", "int8_asym", "int8_sym"};
static const char *const sensitivities[] = {"auto", "weight-error", "activation-variance", "hessian",
                                            "measured"};
static const char *const backups[] = {"auto", "int8_asym", "int8_sym", "none"};

/* ---- the result ---- */

/* NULL for lack of memory. A name that is not UTF-8 gets U+FFFD where it is not. */
static const char *copy(pn_arena *arena, pn_str text) {
    if (pn_utf8_valid(text.data, text.len)) return pn_arena_copy(arena, text.data, text.len);
    pn_buf clean;
    pn_buf_init(&clean, PN_BUF_NO_BOUND);
    const char *copied = NULL;
    if (pn_utf8_append_clean(&clean, text.data, text.len) == PN_OK)
        copied = pn_arena_copy(arena, clean.data, clean.len);
    pn_buf_done(&clean);
    return copied;
}

static bool fill_tensor(pn_arena *arena, const pn_choice *c, pn_compressed_tensor *out) {
    const pn_qtype *before = pn_qtype_find(c->tensor->type);
    *out = (pn_compressed_tensor){.name = copy(arena, c->tensor->name),
                                  .type_before = before->name,
                                  .type_after = pn_choice_type(c)->name,
                                  .why = c->why ? copy(arena, pn_str_from(c->why)) : NULL,
                                  .method = c->method ? copy(arena, pn_str_from(c->method)) : NULL,
                                  .bits = c->compressed ? pn_panel_formats[c->kind].bits : 0,
                                  .n_weights = pn_choice_weights(c),
                                  .bytes_before = pn_qtype_bytes(before, c->tensor->dims),
                                  .bytes_after = pn_choice_bytes(c),
                                  .error = c->error,
                                  .output_error = c->output_error,
                                  .seconds = c->seconds};
    return out->name && (out->why || !c->why) && (out->method || !c->method);
}

/* Share of the weights that may be of 4 bits that are. */
static double reached_ratio(const pn_choices *choices) {
    uint64_t all = 0, in_4_bits = 0;
    for (size_t i = 0; i < choices->n; i++) {
        const pn_choice *c = &choices->items[i];
        if (c->may_be_4_bits) all += pn_choice_weights(c);
        if (c->compressed && pn_panel_formats[c->kind].bits == 4) in_4_bits += pn_choice_weights(c);
    }
    return all > 0 ? (double)in_4_bits / (double)all : 0;
}

static bool fill_calibration(pn_arena *arena, const pn_compress_options *o, pn_compress_result *r) {
    char ways[64] = "";
    r->ways = "";
    if (!o->calibration && !o->calibrate_on_self) return true;
    snprintf(ways, sizeof ways, "%s%s%s%s", o->scale_estimation ? ", scale-estimation" : "",
             o->zero_search ? ", zero-search" : "", o->gptq ? ", gptq" : "", o->awq ? ", awq" : "");
    r->calibration_sequences = o->calibration_sequences;
    r->calibration_tokens = o->calibration_tokens;
    r->calibrated_on_self = o->calibrate_on_self;
    r->ways = copy(arena, pn_str_from(ways[0] ? ways + 2 : ""));
    return r->ways != NULL;
}

static bool fill(pn_arena *arena, const pn_source *source, const pn_compress_options *o,
                 const pn_choices *choices, pn_compress_result *r) {
    r->tensors = pn_arena_alloc(arena, choices->n * sizeof *r->tensors);
    r->source = copy(arena, pn_str_from(source->name));
    r->source_hash = copy(arena, pn_str_from(source->hash));
    if (!r->tensors || !r->source || !r->source_hash) return false;
    for (; r->n_tensors < choices->n; r->n_tensors++) {
        pn_compressed_tensor *t = &r->tensors[r->n_tensors];
        if (!fill_tensor(arena, &choices->items[r->n_tensors], t)) return false;
        r->bytes_before += t->bytes_before;
        r->bytes_after += t->bytes_after;
    }
    r->mode = modes[o->mode];
    r->backup = backups[o->backup];
    r->group_size = o->group_size;
    r->all_layers = o->all_layers;
    r->ratio_asked = o->ratio;
    r->target_bytes = o->target_bytes;
    r->target_bits = o->target_bits;
    r->sensitivity = sensitivities[o->sensitivity];
    r->ratio = reached_ratio(choices);
    return fill_calibration(arena, o, r);
}

pn_status pn_report_fill(const pn_source *source, const pn_compress_options *options,
                         const pn_choices *choices, pn_compress_result *out, pn_error *err) {
    pn_arena *arena = pn_alloc(PN_MEM_OTHER, 1, sizeof *arena);
    pn_compress_result r = {.memory = arena};
    if (arena) pn_arena_init(arena, 0);
    if (!arena || !fill(arena, source, options, choices, &r)) {
        pn_compress_result_free(&r);
        return pn_fail_memory(err, "report", choices->n * sizeof *r.tensors);
    }
    *out = r;
    return PN_OK;
}

void pn_compress_result_free(pn_compress_result *result) {
    if (!result) return;
    if (result->memory) pn_arena_done(result->memory);
    pn_free(result->memory);
    *result = (pn_compress_result){0};
}

/* ---- as JSON ---- */

/* Takes value, which may be NULL: then it fails. */
static bool put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static json_t *tensor_json(const pn_compressed_tensor *t) {
    json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:f}", "name", t->name, "type_before",
                               t->type_before, "type_after", t->type_after, "bits", t->bits, "weights",
                               (json_int_t)t->n_weights, "bytes_before", (json_int_t)t->bytes_before,
                               "bytes_after", (json_int_t)t->bytes_after, "error", t->error);
    if (object && (t->output_error <= 0 || put(object, "output_error", json_real(t->output_error))) &&
        (!t->why || put(object, "why", json_string(t->why))) &&
        (!t->method || put(object, "method", json_string(t->method))))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *tensors_json(const pn_compress_result *r) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < r->n_tensors; i++) {
        if (json_array_append_new(list, tensor_json(&r->tensors[i])) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *calibration_json(const pn_compress_result *r) {
    return json_pack("{s:i, s:i, s:b, s:s}", "samples", r->calibration_sequences, "sample_tokens",
                     r->calibration_tokens, "self", (int)r->calibrated_on_self, "ways", r->ways);
}

static json_t *result_json(const pn_compress_result *r) {
    json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:f, s:s, s:s, s:b, s:f}", "source", r->source,
                               "source_hash", r->source_hash, "mode", r->mode, "group_size", r->group_size,
                               "ratio", r->ratio_asked, "sensitivity", r->sensitivity, "backup_mode",
                               r->backup, "all_layers", (int)r->all_layers, "ratio_reached", r->ratio);
    if (object &&
        (!r->target_bytes || put(object, "target_bytes", json_integer((json_int_t)r->target_bytes))) &&
        (r->target_bits <= 0 || put(object, "target_bits", json_real(r->target_bits))) &&
        (!r->calibration_sequences || put(object, "calibration", calibration_json(r))) &&
        put(object, "tensors", tensors_json(r)))
        return object;
    json_decref(object);
    return NULL;
}

char *pn_report_json(const pn_compress_result *result, size_t *len) {
    json_t *object = result_json(result);
    char *text = NULL;
    *len = object ? json_dumpb(object, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(6)) : 0;
    if (*len > 0) text = pn_alloc(PN_MEM_OTHER, *len, 1);
    if (text) json_dumpb(object, text, *len, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(object);
    return text;
}

size_t pn_report_json_most(size_t len, const pn_compress_result *result) {
    return len + result->n_tensors * LATER_BYTES;
}
