/* SPDX-License-Identifier: Apache-2.0 */
#include "export/gguf_blocks.h"

#include "base/file.h"
#include "base/mem.h"
#include "compress/report.h"
#include "format/gguf_write.h"
#include "quant/blocks.h"

#include <math.h>

#define ALIGNMENT 32 /* what GGUF files have when they say nothing */

pn_status pn_gguf_blocks_check(const pn_gguf *source, pn_error *err) {
    for (size_t i = 0; i < pn_gguf_n_tensors(source); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(source, i);
        const pn_qtype *type = pn_qtype_find(t->type);
        if (type->block_rows > 1)
            return pn_fail(err, PN_ERR_UNSUPPORTED,
                           "%.*s is of type %s, which only postern reads: other formats are made of the "
                           "model's F16, BF16 or F32 file",
                           (int)t->name.len, t->name.data, type->name);
    }
    return PN_OK;
}

const pn_qtype *pn_gguf_block_type(const pn_export_tensor *e) {
    if (!e->compressed) return pn_qtype_find(e->tensor->type);
    if (pn_panel_formats[e->kind].bits == 8) return pn_qtype_find(PN_QTYPE_ID_Q8_0);
    return pn_qtype_find(e->kind == PN_PANEL_INT4_SYM ? PN_QTYPE_ID_Q4_0 : PN_QTYPE_ID_Q4_1);
}

/* ---- blocks ---- */

/* Byte 4 v + i of a row's 16 is byte 4 row + i of vector v, with the same two columns in its nibbles. */
static uint8_t *put_nibbles(const uint8_t *step, size_t row, uint8_t *dst) {
    for (size_t v = 0; v < 4; v++)
        memcpy(dst + 4 * v, step + 64 * v + 4 * row, 4);
    return dst + 16;
}

/* Codes count from -128 here. */
static uint8_t *put_bytes(const uint8_t *step, size_t row, uint8_t *dst) {
    for (size_t v = 0; v < 8; v++)
        for (size_t i = 0; i < 4; i++)
            *dst++ = step[64 * v + 4 * row + i] ^ 0x80;
    return dst;
}

/* False where the offset is too large. */
static bool put_offset(pn_panel_format f, const uint8_t *scales, size_t row, uint8_t *dst) {
    const float d = pn_block_half(scales + 2 * row), zero = pn_panel_zero(f, scales + 2 * PN_PANEL_ROWS, row);
    const uint16_t m = pn_f32_to_f16(-(d * zero));
    memcpy(dst, &m, sizeof m);
    return isfinite(pn_f16_to_f32(m));
}

/* One row of a panel. */
static bool put_row(pn_panel_format f, pn_panel_shape shape, const uint8_t *panel, size_t row, uint8_t *dst) {
    bool ok = true;
    for (size_t step = 0; step < shape.n_col / PN_STEP; step++) {
        const uint8_t *codes = panel + step * pn_panel_step_bytes(f);
        const uint8_t *scales = panel + pn_panel_scales_at(f, shape, step);
        memcpy(dst, scales + 2 * row, 2);
        dst += 2;
        if (f.min) {
            ok = put_offset(f, scales, row, dst) && ok;
            dst += 2;
        }
        dst = f.bits == 4 ? put_nibbles(codes, row, dst) : put_bytes(codes, row, dst);
    }
    return ok;
}

static pn_status put_matrix(const pn_export_tensor *e, uint8_t *blocks, pn_error *err) {
    const pn_gguf_tensor *t = e->tensor;
    const pn_qtype *type = pn_gguf_block_type(e);
    const pn_panel_shape shape = {(size_t)t->dims[0], PN_STEP};
    const size_t panel_bytes = pn_panel_bytes(e->kind, shape);
    const size_t row_bytes = shape.n_col / type->block_len * type->block_bytes;
    for (size_t row = 0; row < t->dims[1]; row++) {
        const uint8_t *panel = t->data + row / PN_PANEL_ROWS * panel_bytes;
        if (!put_row(pn_panel_formats[e->kind], shape, panel, row % PN_PANEL_ROWS, blocks + row * row_bytes))
            return pn_fail(
                err, PN_ERR_NUMERIC,
                "%.*s has weights in row %zu that are too large for an offset of 16 bits: leave it "
                "as it is with --ignore",
                (int)t->name.len, t->name.data, row);
    }
    return PN_OK;
}

/* ---- the file ---- */

/* What "general.file_type" says of a file whose matrices are mostly of a type: llama.cpp's numbering. */
static uint32_t file_type_of(pn_weight_mode mode) {
    return mode == PN_WEIGHTS_INT4_SYM ? 2 : mode == PN_WEIGHTS_INT4_ASYM ? 3 : 7;
}

static bool is_replaced(pn_str key) {
    static const char *const keys[] = {"general.file_type", "general.quantization_version", "postern.layout",
                                       PN_REPORT_KEY};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (pn_str_equal(key, pn_str_from(keys[i]))) return true;
    return false;
}

static void write_keys(pn_gguf_writer *out, const pn_gguf *source, pn_weight_mode mode) {
    for (size_t i = 0; i < pn_gguf_n_keys(source); i++)
        if (!is_replaced(pn_gguf_key_at(source, i)->key)) pn_gguf_write_key(out, pn_gguf_key_at(source, i));
    pn_gguf_write_u32(out, "general.file_type", file_type_of(mode));
    pn_gguf_write_u32(out, "general.quantization_version", 2);
}

static pn_status write_tensor(pn_gguf_writer *out, size_t i, const pn_export_tensor *e, pn_error *err) {
    const pn_gguf_tensor *t = e->tensor;
    if (!e->compressed) {
        pn_gguf_write_data(out, i, t->data);
        return PN_OK;
    }
    const size_t bytes = (size_t)pn_qtype_bytes(pn_gguf_block_type(e), t->dims);
    uint8_t *blocks = pn_pages_alloc(PN_MEM_SCRATCH, bytes);
    if (!blocks) return pn_fail_memory(err, "matrix in blocks", bytes);
    pn_status status = put_matrix(e, blocks, err);
    if (status == PN_OK) pn_gguf_write_data(out, i, blocks);
    pn_pages_free(PN_MEM_SCRATCH, blocks, bytes);
    return status;
}

static pn_status write_all(pn_gguf_writer *out, const pn_export_tensors *tensors, const char *report,
                           size_t len, pn_error *err) {
    pn_gguf_reserve_text(out, PN_REPORT_KEY, len);
    for (size_t i = 0; i < tensors->n; i++) {
        const pn_gguf_tensor *t = tensors->items[i].tensor;
        pn_gguf_write_tensor(out, t->name, pn_gguf_block_type(&tensors->items[i])->id, t->n_dims, t->dims);
    }
    pn_gguf_fill_text(out, report, len);
    for (size_t i = 0; i < tensors->n; i++) {
        const pn_gguf_tensor *t = tensors->items[i].tensor;
        PN_TRY(write_tensor(out, i, &tensors->items[i], err));
        pn_map_forget(t->data, (size_t)t->n_bytes);
    }
    return pn_gguf_writer_finish(out, err);
}

pn_status pn_gguf_blocks_write(const char *path, const pn_gguf *source, const pn_export_tensors *tensors,
                               pn_weight_mode mode, const char *report, size_t len, pn_error *err) {
    pn_gguf_writer *out;
    PN_TRY(pn_gguf_writer_create(path, ALIGNMENT, &out, err));
    write_keys(out, source, mode);
    pn_status status = write_all(out, tensors, report, len, err);
    pn_gguf_writer_free(out);
    return status;
}
