/* SPDX-License-Identifier: Apache-2.0 */
#include "export/hf_folder.h"

#include "base/file.h"
#include "base/new_folder.h"
#include "export/hf_config.h"
#include "export/hf_tokenizer.h"
#include "format/safetensors.h"

struct pn_hf_folder {
    pn_hf_model model;
    const char *path;
    pn_new_folder folder;
    pn_safetensors_writer *weights;
    const pn_export_tensors *tensors;
    size_t *first; /* [tensors] the number of each tensor's first part in the file */
};

pn_status pn_hf_folder_create(const pn_gguf *file, const char *path, pn_hf_folder **out, pn_error *err) {
    pn_hf_folder *f = pn_alloc(PN_MEM_OTHER, 1, sizeof *f);
    if (!f) return pn_fail_memory(err, "folder", sizeof *f);
    pn_status status;
    PN_TRY_GOTO(status, pn_hf_model_read(file, &f->model, err), done);
    PN_TRY_GOTO(status, pn_hf_tokenizer_check(&f->model, err), done);
    PN_TRY_GOTO(status, pn_new_folder_check(path, err), done);
    f->path = path;
    *out = f;
    f = NULL;
done:
    pn_hf_folder_free(f);
    return status;
}

void pn_hf_folder_free(pn_hf_folder *f) {
    if (!f) return;
    pn_safetensors_free(f->weights);
    pn_new_folder_done(&f->folder);
    pn_hf_model_done(&f->model);
    pn_free(f->first);
    pn_free(f);
}

/* ---- the shapes of a matrix ---- */

struct shape {
    pn_panel_format format;
    pn_panel_shape panel;
    uint64_t n_row, n_group;
    uint64_t row_words, zero_words; /* of 32 bits: of the codes of a row, of the zero points of a column */
};

static struct shape shape_of(const pn_export_tensor *e) {
    const pn_gguf_tensor *t = e->tensor;
    struct shape s = {.format = pn_panel_formats[e->kind],
                      .panel = {(size_t)t->dims[0], e->group > 0 ? e->group : (size_t)t->dims[0]},
                      .n_row = t->dims[1]};
    s.n_group = s.panel.n_col / s.panel.group;
    s.row_words = s.panel.n_col * s.format.bits / 32;
    s.zero_words = s.format.min ? (s.n_row * s.format.bits + 31) / 32 : 0;
    return s;
}

uint64_t pn_hf_bytes(const pn_export_tensor *e) {
    if (!e->compressed) return e->tensor->n_bytes;
    const struct shape s = shape_of(e);
    return s.n_row * (s.row_words * 4 + s.n_group * 2) + s.zero_words * s.n_group * 4 + 2 * sizeof(uint64_t);
}

const char *pn_hf_type_name(const pn_export_tensor *e) {
#define OF_KIND(kind) [PN_PANEL_##kind] = { #kind "_CH", #kind "_G32", #kind "_G64", #kind "_G128" }
    static const char *const names[][4] = {OF_KIND(INT4_SYM), OF_KIND(INT4_ASYM), OF_KIND(INT8_SYM),
                                           OF_KIND(INT8_ASYM)};
#undef OF_KIND
    if (!e->compressed) return pn_qtype_find(e->tensor->type)->name;
    return names[e->kind][e->group == 0 ? 0 : e->group == 32 ? 1 : e->group == 64 ? 2 : 3];
}

/* ---- description ---- */

static pn_status add_floats(pn_hf_folder *f, const pn_gguf_tensor *t, const pn_hf_place *place,
                            pn_error *err) {
    pn_safetensors_type type = PN_SAFETENSORS_F32;
    if (t->type == PN_QTYPE_ID_F16) type = PN_SAFETENSORS_F16;
    if (t->type == PN_QTYPE_ID_BF16) type = PN_SAFETENSORS_BF16;
    if ((type == PN_SAFETENSORS_F32 && t->type != PN_QTYPE_ID_F32) || t->n_dims > 2)
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "%.*s is of type %s, which a model of transformers cannot hold: let it be compressed",
                       (int)t->name.len, t->name.data, pn_qtype_find(t->type)->name);
    if (place->added != 0) type = PN_SAFETENSORS_F32;
    const uint64_t dims[2] = {t->n_dims == 2 ? t->dims[1] : t->dims[0], t->dims[0]};
    pn_safetensors_add(f->weights, place->module, place->part, type, t->n_dims == 2 ? 2 : 1, dims);
    return PN_OK;
}

static void add_matrix(pn_hf_folder *f, const pn_export_tensor *e, const pn_hf_place *place) {
    const struct shape s = shape_of(e);
    const char *module = place->module;
    pn_safetensors_add(f->weights, module, "weight_packed", PN_SAFETENSORS_I32, 2,
                       (uint64_t[]){s.n_row, s.row_words});
    pn_safetensors_add(f->weights, module, "weight_scale", PN_SAFETENSORS_F16, 2,
                       (uint64_t[]){s.n_row, s.n_group});
    pn_safetensors_add(f->weights, module, "weight_shape", PN_SAFETENSORS_I64, 1, (uint64_t[]){2});
    if (s.format.min)
        pn_safetensors_add(f->weights, module, "weight_zero_point", PN_SAFETENSORS_I32, 2,
                           (uint64_t[]){s.zero_words, s.n_group});
}

static pn_status write_text(const pn_hf_folder *f, const char *name, const char *text, size_t len,
                            pn_error *err) {
    pn_new_file file;
    PN_TRY(pn_new_folder_file(&f->folder, name, &file, err));
    pn_new_file_write(&file, text, len);
    pn_status status = pn_new_file_finish(&file, err);
    pn_new_file_done(&file);
    return status;
}

static int append(const char *text, size_t len, void *buf) {
    return pn_buf_append(buf, text, len) == PN_OK ? 0 : -1;
}

/* Takes json over; NULL: there was no memory for it. */
static pn_status write_json(const pn_hf_folder *f, const char *name, json_t *json, pn_error *err) {
    pn_buf text;
    pn_buf_init(&text, PN_BUF_NO_BOUND);
    pn_status status = PN_OK;
    if (!json || json_dump_callback(json, append, &text, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0 ||
        pn_buf_append_str(&text, "\n") != PN_OK)
        status = pn_fail_memory(err, name, text.len);
    if (status == PN_OK) status = write_text(f, name, text.data, text.len, err);
    pn_buf_done(&text);
    json_decref(json);
    return status;
}

static pn_status write_tokenizer(const pn_hf_folder *f, pn_error *err) {
    pn_new_file file;
    PN_TRY(pn_new_folder_file(&f->folder, "tokenizer.json", &file, err));
    pn_status status = pn_hf_tokenizer_write(&f->model, &file, err);
    if (status == PN_OK) status = pn_new_file_finish(&file, err);
    pn_new_file_done(&file);
    return status;
}

static pn_status describe(pn_hf_folder *f, pn_error *err) {
    size_t n = 0;
    f->first = pn_alloc(PN_MEM_OTHER, f->tensors->n, sizeof *f->first);
    if (!f->first) return pn_fail_memory(err, "tensor table", f->tensors->n * sizeof *f->first);
    for (size_t i = 0; i < f->tensors->n; i++) {
        const pn_export_tensor *e = &f->tensors->items[i];
        pn_hf_place place;
        PN_TRY(pn_hf_place_of(&f->model, e->tensor, &place, err));
        f->first[i] = n;
        if (place.module[0] == '\0') continue;
        if (e->compressed)
            add_matrix(f, e, &place);
        else
            PN_TRY(add_floats(f, e->tensor, &place, err));
        n += !e->compressed ? 1 : pn_panel_formats[e->kind].min ? 4 : 3;
    }
    PN_TRY(write_json(f, "config.json", pn_hf_config(&f->model, f->tensors), err));
    PN_TRY(write_json(f, "generation_config.json", pn_hf_generation_config(&f->model), err));
    PN_TRY(write_json(f, "tokenizer_config.json", pn_hf_tokenizer_config(&f->model), err));
    return write_tokenizer(f, err);
}

/* ---- floats ---- */

static pn_status write_floats(pn_hf_folder *f, size_t i, const pn_hf_place *place, pn_error *err) {
    const pn_gguf_tensor *t = f->tensors->items[i].tensor;
    if (place->n_head == 0 && place->added == 0) {
        pn_safetensors_write(f->weights, f->first[i], t->data);
        return PN_OK;
    }
    const pn_qtype *type = pn_qtype_find(t->type);
    const size_t n_row = (size_t)(t->n_dims == 2 ? t->dims[1] : t->dims[0]);
    const size_t row_bytes = (size_t)t->n_bytes / n_row, n = (size_t)t->n_bytes / type->block_bytes;
    uint8_t *changed = pn_alloc(PN_MEM_SCRATCH, n, sizeof(float));
    if (!changed) return pn_fail_memory(err, "tensor", n * sizeof(float));
    if (place->added != 0) { /* of norms, which are vectors */
        float *values = (float *)(void *)changed;
        type->decode(t->data, values, n);
        for (size_t k = 0; k < n; k++)
            values[k] -= place->added;
    } else {
        for (size_t row = 0; row < n_row; row++)
            memcpy(changed + row * row_bytes, t->data + pn_hf_row(place, n_row, row) * row_bytes, row_bytes);
    }
    pn_safetensors_write(f->weights, f->first[i], changed);
    pn_free(changed);
    return PN_OK;
}

/* ---- matrices ---- */

/* The 32 columns of a step: low nibbles hold the first half, high ones the second (quant/panel.h). */
static uint8_t *put_nibbles(const uint8_t *step, size_t row, uint8_t *dst) {
    for (size_t v = 0; v < 4; v++)
        for (size_t i = 0; i < 4; i += 2) {
            const unsigned a = step[64 * v + 4 * row + i], b = step[64 * v + 4 * row + i + 1];
            dst[2 * v + i / 2] = (uint8_t)((a & 15) | (b & 15) << 4);
            dst[2 * v + i / 2 + 8] = (uint8_t)(a >> 4 | (b & 0xF0));
        }
    return dst + 16;
}

static uint8_t *put_bytes(const uint8_t *step, size_t row, uint8_t *dst) {
    for (size_t v = 0; v < 8; v++)
        memcpy(dst + 4 * v, step + 64 * v + 4 * row, 4);
    return dst + 32;
}

/* The parts of a matrix as the file has them. */
struct parts {
    uint8_t *codes;
    uint16_t *scales;
    uint32_t *zeros;
};

static void put_row(const struct shape *s, const uint8_t *panel, size_t in_panel, size_t row,
                    struct parts *to) {
    uint8_t *codes = to->codes + row * s->row_words * 4;
    const size_t step_bytes = pn_panel_step_bytes(s->format), steps_of_group = s->panel.group / PN_STEP;
    for (size_t step = 0; step < s->panel.n_col / PN_STEP; step++)
        codes = (s->format.bits == 4 ? put_nibbles : put_bytes)(panel + step * step_bytes, in_panel, codes);
    for (size_t g = 0; g < s->n_group; g++) {
        const uint8_t *scales = panel + pn_panel_scales_at(s->format, s->panel, g * steps_of_group);
        memcpy(&to->scales[row * s->n_group + g], scales + 2 * in_panel, sizeof(uint16_t));
        if (!s->format.min) continue;
        const size_t bit = row * s->format.bits;
        const uint32_t zero = pn_panel_zero(s->format, scales + 2 * PN_PANEL_ROWS, in_panel);
        to->zeros[bit / 32 * s->n_group + g] |= zero << bit % 32;
    }
}

static pn_status write_matrix(pn_hf_folder *f, size_t i, const pn_hf_place *place, pn_error *err) {
    const uint8_t *packed = f->tensors->items[i].tensor->data;
    const struct shape s = shape_of(&f->tensors->items[i]);
    const size_t n_row = (size_t)s.n_row, panel_bytes = pn_panel_coded_bytes(s.format, s.panel);
    const size_t code_bytes = n_row * s.row_words * 4, scale_bytes = n_row * s.n_group * sizeof(uint16_t);
    struct parts parts = {.codes = pn_alloc(PN_MEM_SCRATCH, code_bytes, 1),
                          .scales = pn_alloc(PN_MEM_SCRATCH, scale_bytes, 1),
                          .zeros = pn_alloc(PN_MEM_SCRATCH, s.zero_words * s.n_group, sizeof(uint32_t))};
    pn_status status = PN_OK;
    if (parts.codes && parts.scales && parts.zeros) {
        for (size_t row = 0; row < n_row; row++) {
            const size_t from = pn_hf_row(place, n_row, row);
            put_row(&s, packed + from / PN_PANEL_ROWS * panel_bytes, from % PN_PANEL_ROWS, row, &parts);
        }
        pn_safetensors_write(f->weights, f->first[i], parts.codes);
        pn_safetensors_write(f->weights, f->first[i] + 1, parts.scales);
        pn_safetensors_write(f->weights, f->first[i] + 2, (uint64_t[]){s.n_row, s.panel.n_col});
        if (s.format.min) pn_safetensors_write(f->weights, f->first[i] + 3, parts.zeros);
    } else {
        status = pn_fail_memory(err, "codes of a matrix", code_bytes + scale_bytes);
    }
    pn_free(parts.codes);
    pn_free(parts.scales);
    pn_free(parts.zeros);
    return status;
}

pn_status pn_hf_folder_write(pn_hf_folder *f, const pn_export_tensors *tensors, const char *report,
                             size_t len, pn_error *err) {
    f->tensors = tensors;
    PN_TRY(pn_new_folder_begin(f->path, &f->folder, err));
    PN_TRY(pn_safetensors_create(&f->folder, "model.safetensors", &f->weights, err));
    PN_TRY(describe(f, err));
    for (size_t i = 0; i < tensors->n; i++) {
        const pn_export_tensor *e = &tensors->items[i];
        pn_hf_place place;
        PN_TRY(pn_hf_place_of(&f->model, e->tensor, &place, err));
        if (place.module[0] == '\0') continue;
        PN_TRY(e->compressed ? write_matrix(f, i, &place, err) : write_floats(f, i, &place, err));
        pn_map_forget(e->tensor->data, (size_t)e->tensor->n_bytes);
    }
    PN_TRY(write_text(f, "postern.compression.report.json", report, len, err));
    PN_TRY(pn_safetensors_finish(f->weights, err));
    return pn_new_folder_finish(&f->folder, err);
}
