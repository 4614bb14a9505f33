/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/weights.h"

#include "base/file.h"
#include "base/mem.h"
#include "quant/pack.h"
#include "quant/split.h"

/* A matrix on its way from the file to its packed place. */
struct packing {
    const pn_gguf_tensor *tensor;
    pn_panel_kind kind;
    uint8_t *place;
    size_t first; /* panel of the run at hand */
};

struct pn_weights {
    pn_gguf *file;
    pn_arena vectors; /* those decoded to float */
    bool *used;       /* [n_tensors] */
    uint8_t *packed;  /* [packed_cap], room for all matrices of the file */
    size_t packed_cap, packed_len;
    uint64_t matrix_bytes;    /* of all matrices found, packed by us or by the file */
    uint64_t packed_bytes;    /* of those packed by us */
    struct packing *packings; /* [n_packing], at most n_tensors */
    size_t n_packing;
};

pn_status pn_weights_open(const char *path, pn_weights **out, pn_error *err) {
    pn_weights *w = pn_alloc(PN_MEM_OTHER, 1, sizeof *w);
    if (!w) return pn_fail_memory(err, "weights", sizeof *w);
    pn_arena_init(&w->vectors, 0);
    pn_status status;
    PN_TRY_GOTO(status, pn_gguf_open(path, &w->file, err), fail);
    size_t n = pn_gguf_n_tensors(w->file);
    w->used = pn_alloc(PN_MEM_OTHER, n, sizeof *w->used);
    w->packings = pn_alloc(PN_MEM_OTHER, n, sizeof *w->packings);
    if (!w->used || !w->packings) {
        status = pn_fail_memory(err, "tensor table", n * sizeof *w->packings);
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
    pn_free(w->packings);
    pn_pages_free(PN_MEM_WEIGHTS, w->packed, w->packed_cap);
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

/* Packed matrices begin on cache lines. */
#define LINE 64u

static bool packed_bytes(const pn_gguf_tensor *t, pn_panel_kind kind, uint64_t *out) {
    uint64_t bytes;
    if (!pn_pack_bytes(kind, t->dims[1], t->dims[0], &bytes) || !pn_add_u64(bytes, LINE - 1, &bytes))
        return false;
    *out = bytes / LINE * LINE;
    return true;
}

/* Room for every matrix that the file does not hold packed, when the first one is asked for. */
static pn_status make_room(pn_weights *w, pn_error *err) {
    uint64_t sum = 0, bytes;
    for (size_t i = 0; i < pn_gguf_n_tensors(w->file); i++) {
        const pn_gguf_tensor *t = pn_gguf_tensor_at(w->file, i);
        if (t->n_dims < 2 || pn_qtype_find(t->type)->block_rows > 1) continue;
        pn_panel_kind kind = pn_panel_kind_of(pn_qtype_find(t->type));
        kind = pn_split_kind(kind, t->dims[1]); /* a little larger; it may be the head */
        if (!packed_bytes(t, kind, &bytes) || !pn_add_u64(sum, bytes, &sum) || sum > SIZE_MAX / 2)
            return pn_fail_at(err, PN_ERR_LIMIT, t->position, "the matrices do not fit in memory");
    }
    if (sum == 0) return PN_OK;
    w->packed = pn_pages_alloc(PN_MEM_WEIGHTS, (size_t)sum);
    if (!w->packed) return pn_fail_memory(err, "packed weights", sum);
    w->packed_cap = (size_t)sum;
    return PN_OK;
}

/* A matrix that the file holds in plain rows gets its place now and its data when pn_weights_pack runs. */
static pn_status plan_packing(pn_weights *w, const pn_gguf_tensor *t, const char *name, pn_panel_kind kind,
                              const uint8_t **out, pn_error *err) {
    uint64_t bytes;
    if (!w->packed) PN_TRY(make_room(w, err));
    if (!packed_bytes(t, kind, &bytes) || bytes > w->packed_cap - w->packed_len)
        return pn_fail_at(err, PN_ERR_FORMAT, t->position, "matrix %s does not fit the room for it", name);
    *out = w->packed + w->packed_len;
    w->packings[w->n_packing++] =
        (struct packing){.tensor = t, .kind = kind, .place = w->packed + w->packed_len};
    w->packed_len += (size_t)bytes;
    return PN_OK;
}

/* What a matrix of a kind is that lies packed at data. */
static pn_weight describe(const pn_gguf_tensor *t, pn_panel_kind kind, const uint8_t *data) {
    pn_weight weight = {.data = data,
                        .kind = pn_split_whole(kind),
                        .n_row = (size_t)t->dims[1],
                        .n_col = (size_t)t->dims[0],
                        .group = pn_panel_shape_of(pn_qtype_find(t->type), (size_t)t->dims[0]).group,
                        .n_panel = ((size_t)t->dims[1] + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS};
    if (kind != weight.kind) {
        weight.split = pn_split_at(weight.kind, data, weight.n_panel, weight.n_col);
        kind = pn_split_high(weight.kind);
    }
    weight.panel_bytes = pn_panel_bytes(kind, pn_weight_shape(&weight));
    return weight;
}

static pn_status find_matrix(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                             pn_presence presence, bool split, pn_weight *out, pn_error *err) {
    const pn_gguf_tensor *t = use(w, name);
    if (!t) {
        PN_TRY(absent(name, presence, err));
        *out = (pn_weight){0};
        return PN_OK;
    }
    if (t->dims[0] != n_col || (n_row != 0 && t->dims[1] != n_row) || t->dims[2] != 1 || t->dims[3] != 1)
        return wrong_shape(t, name, n_col, n_row, err);
    const pn_qtype *type = pn_qtype_find(t->type);
    pn_panel_kind kind = pn_panel_kind_of(type);
    const uint8_t *data = t->data;
    if (type->block_rows == 1) {
        if (split) kind = pn_split_kind(kind, t->dims[1]);
        PN_TRY(plan_packing(w, t, name, kind, &data, err));
    } else if ((uintptr_t)data % LINE != 0) {
        return pn_fail_at(err, PN_ERR_FORMAT, t->position,
                          "matrix %s begins at byte %llu: a packed one must begin on a multiple of %u", name,
                          (unsigned long long)t->offset, LINE);
    }
    *out = describe(t, kind, data);
    w->matrix_bytes += pn_weight_bytes(out);
    if (type->block_rows == 1) w->packed_bytes += pn_weight_bytes(out);
    return PN_OK;
}

pn_status pn_weights_find_matrix(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                                 pn_presence presence, pn_weight *out, pn_error *err) {
    return find_matrix(w, name, n_row, n_col, presence, false, out, err);
}

pn_status pn_weights_find_head(pn_weights *w, const char *name, size_t n_row, size_t n_col,
                               pn_presence presence, pn_weight *out, pn_error *err) {
    return find_matrix(w, name, n_row, n_col, presence, true, out, err);
}

bool pn_weights_has(const pn_weights *w, const char *name) {
    return pn_gguf_find_tensor(w->file, name) != NULL;
}

/* ---- one matrix ---- */

void pn_weight_decode_row(const pn_weight *weight, size_t row, float *dst) {
    size_t panel = row / PN_PANEL_ROWS, in_panel = row % PN_PANEL_ROWS;
    const uint8_t *data = weight->data + panel * weight->panel_bytes;
    if (weight->split.low)
        pn_split_decode_row(weight->kind, &weight->split, data, panel, in_panel, weight->n_col, dst);
    else
        pn_panel_decode_row(weight->kind, pn_weight_shape(weight), data, in_panel, dst);
}

uint64_t pn_weight_bytes(const pn_weight *weight) {
    return weight->split.low ? pn_split_bytes(weight->kind, weight->n_panel, weight->n_col)
                             : weight->n_panel * weight->panel_bytes;
}

/* ---- packing ---- */

static void pack_panels(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    const struct packing *p = arg;
    const pn_gguf_tensor *t = p->tensor;
    for (size_t panel = p->first + begin; panel < p->first + end; panel++)
        pn_pack_panel(pn_qtype_find(t->type), p->kind, t->data, (size_t)t->dims[1], (size_t)t->dims[0], panel,
                      p->place);
}

/* In runs of about so many bytes, so that source and result are never both there as a whole. */
#define RUN_BYTES ((size_t)4 << 20)

static void pack_matrix(struct packing *p, pn_pool *pool) {
    const pn_gguf_tensor *t = p->tensor;
    size_t n_panel = (size_t)((t->dims[1] + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS);
    size_t source_bytes = (size_t)(t->n_bytes / t->dims[1]) * PN_PANEL_ROWS,
           run = RUN_BYTES / (source_bytes + 1) + 1;
    for (p->first = 0; p->first < n_panel; p->first += run) {
        size_t n = n_panel - p->first < run ? n_panel - p->first : run;
        pn_pool_run(pool, pack_panels, p, n, 1);
        size_t done = p->first * source_bytes, left = (size_t)t->n_bytes - done, bytes = n * source_bytes;
        pn_map_forget(t->data + done, left < bytes ? left : bytes);
    }
}

void pn_weights_pack(pn_weights *w, pn_pool *pool) {
    for (size_t i = 0; i < w->n_packing; i++)
        pack_matrix(&w->packings[i], pool);
    w->n_packing = 0;
}

static struct packing *packing_of(const pn_weights *w, const pn_weight *matrix) {
    for (size_t i = 0; i < w->n_packing; i++)
        if (w->packings[i].place == matrix->data) return &w->packings[i];
    return NULL;
}

void pn_weights_load(pn_weights *w, const pn_weight *matrix, pn_pool *pool) {
    struct packing *p = packing_of(w, matrix);
    if (p) pack_matrix(p, pool);
}

void pn_weights_unload(pn_weights *w, const pn_weight *matrix) {
    struct packing *p = packing_of(w, matrix);
    if (p) pn_map_forget(p->place, (size_t)pn_weight_bytes(matrix));
}

pn_status pn_weights_find_vector(pn_weights *w, const char *name, size_t n, pn_presence presence,
                                 const float **out, pn_error *err) {
    const pn_gguf_tensor *t = use(w, name);
    if (!t) {
        PN_TRY(absent(name, presence, err));
        *out = NULL;
        return PN_OK;
    }
    const pn_qtype *type = pn_qtype_find(t->type);
    if (t->dims[0] != n || t->dims[1] != 1 || t->dims[2] != 1 || t->dims[3] != 1)
        return wrong_shape(t, name, n, 1, err);
    if (!type->decode)
        return pn_fail_at(err, PN_ERR_FORMAT, t->position, "tensor %s is of type %s, which is for matrices",
                          name, type->name);
    float *values = pn_arena_alloc(&w->vectors, n * sizeof *values);
    if (!values) return pn_fail_memory(err, name, n * sizeof *values);
    type->decode(t->data, values, n);
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

uint64_t pn_weights_matrix_bytes(const pn_weights *w) {
    return w->matrix_bytes;
}

uint64_t pn_weights_packed_bytes(const pn_weights *w) {
    return w->packed_bytes;
}
