/* SPDX-License-Identifier: Apache-2.0 */
/* A model's file with its matrices in the form that the kernels read: the same numbers, opened without work.
 */
#include "engine/engine.h"

#include "format/gguf_write.h"
#include "quant/pack.h"
#include "quant/split.h"

#define LINE 64 /* packed matrices begin on cache lines */

static bool is_packable(const pn_gguf_tensor *t) {
    return t->n_dims == 2 && pn_qtype_find(t->type)->block_rows == 1;
}

/* The output head: by its own name, or the embedding where it serves as both. */
static bool is_head(const pn_gguf *in, const pn_gguf_tensor *t) {
    const char *name = pn_gguf_find_tensor(in, "output.weight") ? "output.weight" : "token_embd.weight";
    return pn_str_equal(t->name, pn_str_from(name));
}

static pn_panel_kind kind_of(const pn_gguf *in, const pn_gguf_tensor *t) {
    pn_panel_kind kind = pn_panel_kind_of(pn_qtype_find(t->type));
    return is_head(in, t) ? pn_split_kind(kind, t->dims[1]) : kind;
}

static void describe(const pn_gguf *in, pn_gguf_writer *out) {
    for (size_t i = 0; i < pn_gguf_n_keys(in); i++)
        pn_gguf_write_key(out, pn_gguf_key_at(in, i));
    if (!pn_gguf_find_key(in, "postern.layout")) pn_gguf_write_str(out, "postern.layout", "R16");
    for (size_t i = 0; i < pn_gguf_n_tensors(in); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(in, i);
        uint32_t type = is_packable(t) ? pn_panel_type(kind_of(in, t), 0)->id : t->type;
        pn_gguf_write_tensor(out, t->name, type, t->n_dims, t->dims);
    }
}

static pn_status write_matrix(const pn_gguf_tensor *t, size_t i, pn_panel_kind kind, pn_gguf_writer *out,
                              pn_error *err) {
    uint64_t bytes = 0;
    uint8_t *packed = NULL;
    if (pn_pack_bytes(kind, t->dims[1], t->dims[0], &bytes))
        packed = pn_pages_alloc(PN_MEM_SCRATCH, (size_t)bytes);
    if (!packed) return pn_fail_memory(err, "packed matrix", bytes);
    pn_pack_matrix(pn_qtype_find(t->type), kind, t->data, (size_t)t->dims[1], (size_t)t->dims[0], packed);
    pn_gguf_write_data(out, i, packed);
    pn_pages_free(PN_MEM_SCRATCH, packed, (size_t)bytes);
    return PN_OK;
}

static pn_status write_tensors(const pn_gguf *in, pn_gguf_writer *out, pn_progress_fn progress, void *user,
                               pn_error *err) {
    size_t n = pn_gguf_n_tensors(in);
    for (size_t i = 0; i < n; i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(in, i);
        if (is_packable(t))
            PN_TRY(write_matrix(t, i, kind_of(in, t), out, err));
        else
            pn_gguf_write_data(out, i, t->data);
        if (progress) progress(user, i + 1, n);
    }
    return PN_OK;
}

pn_status pn_pack_file(const char *in_path, const char *out_path, pn_progress_fn progress, void *user,
                       pn_error *err) {
    if (!in_path || !out_path) return pn_fail(err, PN_ERR_ARGUMENT, "pn_pack_file needs two paths");
    pn_gguf *in = NULL;
    pn_gguf_writer *out = NULL;
    pn_status status;
    PN_TRY(pn_gguf_open(in_path, &in, err));
    PN_TRY_GOTO(status, pn_gguf_writer_create(out_path, LINE, &out, err), done);
    describe(in, out);
    PN_TRY_GOTO(status, write_tensors(in, out, progress, user, err), done);
    status = pn_gguf_writer_finish(out, err);
done:
    pn_gguf_writer_free(out);
    pn_gguf_close(in);
    return status;
}
