/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/report.h"

#include "base/mem.h"

#include <jansson.h>
#include <string.h>

#define LATER_BYTES 128 /* of what is known only when a tensor is written: its errors and method */

static const char *const modes[] = {"int4_asym", "int4_sym", "int8_asym", "int8_sym"};
static const char *const backups[] = {"int8_asym", "int8_sym", "none"};

static json_t *tensor_json(const pn_choice *c) {
    json_t *object = json_pack("{s:s%, s:s, s:f}", "name", c->tensor->name.data, c->tensor->name.len, "type",
                               pn_choice_type(c)->name, "error", c->error);
    if (object && c->output_error > 0)
        json_object_set_new(object, "output_error", json_real(c->output_error));
    if (object && c->why) json_object_set_new(object, "why", json_string(c->why));
    if (object && c->method) json_object_set_new(object, "method", json_string(c->method));
    return object;
}

static json_t *report(const pn_source *source, const pn_compress_options *o, const pn_choices *choices) {
    json_t *tensors = json_array(), *object;
    for (size_t i = 0; i < choices->n; i++)
        if (choices->items[i].role != PN_ROLE_OTHER)
            json_array_append_new(tensors, tensor_json(&choices->items[i]));
    json_t *name = json_string(source->name); /* NULL where a file's name is not UTF-8 */
    object = json_pack("{s:o, s:s, s:s, s:i, s:f, s:s, s:b, s:o}", "source", name ? name : json_null(),
                       "source_hash", source->hash, "mode", modes[o->mode], "group_size", o->group_size,
                       "ratio", o->ratio, "backup_mode", backups[o->backup], "all_layers", (int)o->all_layers,
                       "tensors", tensors);
    if (object && o->target_bytes > 0)
        json_object_set_new(object, "target_bytes", json_integer((json_int_t)o->target_bytes));
    if (object && o->target_bits > 0) json_object_set_new(object, "target_bits", json_real(o->target_bits));
    return object;
}

char *pn_report_json(const pn_source *source, const pn_compress_options *o, const pn_choices *choices,
                     size_t *len) {
    json_t *object = report(source, o, choices);
    char *text = NULL;
    *len = object ? json_dumpb(object, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(6)) : 0;
    if (*len > 0) text = pn_alloc(PN_MEM_OTHER, *len, 1);
    if (text) json_dumpb(object, text, *len, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(object);
    return text;
}

size_t pn_report_json_most(size_t len, const pn_choices *choices) {
    return len + choices->n * LATER_BYTES;
}

/* ---- the result ---- */

static uint64_t bytes_before(const pn_choice *c) {
    return pn_qtype_bytes(pn_qtype_find(c->tensor->type), c->tensor->dims);
}

pn_status pn_report_fill(const pn_choices *choices, pn_compress_result *out, pn_error *err) {
    size_t bytes = choices->n * sizeof(pn_compressed_tensor);
    for (size_t i = 0; i < choices->n; i++)
        bytes += choices->items[i].tensor->name.len + 1;
    char *memory = pn_alloc(PN_MEM_OTHER, bytes, 1);
    if (!memory) return pn_fail_memory(err, "report", bytes);
    pn_compress_result r = {
        .tensors = (pn_compressed_tensor *)(void *)memory, .n_tensors = choices->n, .memory = memory};
    char *names = memory + choices->n * sizeof(pn_compressed_tensor);
    uint64_t all = 0, in_4_bits = 0;
    for (size_t i = 0; i < choices->n; i++) {
        const pn_choice *c = &choices->items[i];
        const bool four = c->compressed && pn_panel_formats[c->kind].bits == 4;
        r.tensors[i] = (pn_compressed_tensor){.name = names,
                                              .type_before = pn_qtype_find(c->tensor->type)->name,
                                              .type_after = pn_choice_type(c)->name,
                                              .why = c->why,
                                              .method = c->method,
                                              .n_weights = pn_choice_weights(c),
                                              .bytes_before = bytes_before(c),
                                              .bytes_after = pn_choice_bytes(c),
                                              .error = c->error,
                                              .output_error = c->output_error,
                                              .seconds = c->seconds};
        memcpy(names, c->tensor->name.data, c->tensor->name.len);
        names += c->tensor->name.len + 1;
        r.bytes_before += r.tensors[i].bytes_before;
        r.bytes_after += r.tensors[i].bytes_after;
        if (c->may_be_4_bits) all += pn_choice_weights(c);
        if (four) in_4_bits += pn_choice_weights(c);
    }
    r.ratio = all > 0 ? (double)in_4_bits / (double)all : 0;
    *out = r;
    return PN_OK;
}

void pn_compress_result_free(pn_compress_result *result) {
    if (!result) return;
    pn_free(result->memory);
    *result = (pn_compress_result){0};
}
