/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/weights.h"

#include "base/mem.h"

struct pn_weights {
    pn_gguf *file;
    pn_arena vectors; /* those decoded to float */
    bool *used;       /* [n_tensors] */
};

pn_status pn_weights_open(const char *path, pn_weights **out, pn_error *err) {
    pn_weights *w = pn_alloc(PN_MEM_OTHER, 1, sizeof *w);
    if (!w) return pn_fail_memory(err, "weights", sizeof *w);
    pn_arena_init(&w->vectors, 0);
    pn_status status;
    PN_TRY_GOTO(status, pn_gguf_open(path, &w->file, err), fail);
    size_t n = pn_gguf_n_tensors(w->file);
    w->used = pn_alloc(PN_MEM_OTHER, n, sizeof *w->used);
    if (!w->used) {
        status = pn_fail_memory(err, "tensor table", n);
        goto fail;
    }
    *out = w;
    return PN_OK;
fail:
    pn_weights_close(w);
    return status;
}

void pn_weights_close(pn_weights *w) {
    if (!w) return;
    pn_gguf_close(w->file);
    pn_arena_done(&w->vectors);
    pn_free(w->used);
    pn_free(w);
}

const pn_gguf *pn_weights_file(const pn_weights *w) {
    return w->file;
}

/* The description of `name`, marked as used; NULL when absent. */
static const pn_gguf_tensor *use(pn_weights *w, const char *name) {
    const pn_gguf_tensor *t = pn_gguf_find_tensor(w->file, name);
    if (t) w->used[t - pn_gguf_tensor_at(w->file, 0)] = true;
    return t;
}

static pn_status absent(const char *name, pn_presence presence, pn_error *err) {
    if (presence == PN_OPTIONAL) return PN_OK;
    return pn_fail(err, PN_ERR_FORMAT,
                   "tensor %s is missing: the file is incomplete or not of this architecture", name);
}

static pn_status wrong_shape(const pn_gguf_tensor *t, const char *name, size_t n_col, size_t n_row,
                             pn_error *err) {
    return pn_fail_at(
        err, PN_ERR_FORMAT, t->position,
        "tensor %s is [%llu, %llu, %llu, %llu], expected [%zu, %zu] by the model's hyper-parameters", name,
        (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
        (unsigned long long)t->dims[3], n_col, n_row);
}

pn_status pn_weights_find_matrix(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                                 pn_presence presence, pn_weight *out, pn_error *err) {
    const pn_gguf_tensor *t = use(w, name);
    if (!t) {
        PN_TRY(absent(name, presence, err));
        *out = (pn_weight){0};
        return PN_OK;
    }
    if (t->dims[0] != n_col || (n_row != 0 && t->dims[1] != n_row) || t->dims[2] != 1 || t->dims[3] != 1)
        return wrong_shape(t, name, n_col, n_row, err);
    const pn_qtype *type = pn_qtype_find(t->type);
    *out = (pn_weight){.data = t->data,
                       .type = type,
                       .n_row = (size_t)t->dims[1],
                       .n_col = n_col,
                       .row_bytes = n_col / type->block_len * type->block_bytes};
    return PN_OK;
}

pn_status pn_weights_find_vector(pn_weights *w, const char *name, size_t n, pn_presence presence,
                                 const float **out, pn_error *err) {
    const pn_gguf_tensor *t = use(w, name);
    if (!t) {
        PN_TRY(absent(name, presence, err));
        *out = NULL;
        return PN_OK;
    }
    if (t->dims[0] != n || t->dims[1] != 1 || t->dims[2] != 1 || t->dims[3] != 1)
        return wrong_shape(t, name, n, 1, err);
    float *values = pn_arena_alloc(&w->vectors, n * sizeof *values);
    if (!values) return pn_fail_memory(err, name, n * sizeof *values);
    pn_qtype_find(t->type)->decode(t->data, values, n);
    *out = values;
    return PN_OK;
}

pn_status pn_weights_check_all_used(const pn_weights *w, pn_error *err) {
    for (size_t i = 0; i < pn_gguf_n_tensors(w->file); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(w->file, i);
        if (!w->used[i])
            return pn_fail_at(err, PN_ERR_UNSUPPORTED, t->position,
                              "tensor %.*s belongs to a feature of this model that postern does not know",
                              (int)t->name.len, t->name.data);
    }
    return PN_OK;
}

uint64_t pn_weights_bytes(const pn_weights *w) {
    uint64_t sum = 0;
    for (size_t i = 0; i < pn_gguf_n_tensors(w->file); i++)
        sum += pn_gguf_tensor_at(w->file, i)->n_bytes;
    return sum;
}
