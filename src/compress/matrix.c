/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/matrix.h"

#include "base/mem.h"
#include "compress/feedback.h"
#include "quant/integer.h"

#include <stdatomic.h>
#include <string.h>

/* What a worker needs for a panel. */
struct place {
    float *row; /* [n_col] */
    void *memory;
    pn_feedback_room room; /* in memory */
};

struct pn_rounder {
    pn_pool *pool;
    const pn_kernels *kernels;
    size_t max_col;
    struct place *places; /* [threads of the pool] */
};

pn_status pn_rounder_create(pn_pool *pool, size_t max_col, pn_rounder **out, pn_error *err) {
    size_t n = (size_t)pn_pool_threads(pool);
    pn_rounder *r = pn_alloc(PN_MEM_SCRATCH, 1, sizeof *r);
    if (!r) return pn_fail_memory(err, "rounding", sizeof *r);
    *r = (pn_rounder){pool, pn_kernels_host(), max_col, pn_alloc(PN_MEM_SCRATCH, n, sizeof *r->places)};
    bool ok = r->places;
    for (size_t i = 0; ok && i < n; i++) {
        struct place *p = &r->places[i];
        p->row = pn_alloc(PN_MEM_SCRATCH, max_col, sizeof(float));
        p->memory = pn_alloc(PN_MEM_SCRATCH, 1, pn_feedback_room_bytes(max_col));
        ok = p->row && p->memory;
        if (ok) p->room = pn_feedback_room_in(p->memory, max_col);
    }
    if (!ok) {
        pn_rounder_free(r);
        return pn_fail_memory(err, "rounding", n * pn_feedback_room_bytes(max_col));
    }
    *out = r;
    return PN_OK;
}

void pn_rounder_free(pn_rounder *r) {
    if (!r) return;
    for (int i = 0; r->places && i < pn_pool_threads(r->pool); i++) {
        pn_free(r->places[i].row);
        pn_free(r->places[i].memory);
    }
    pn_free(r->places);
    pn_free(r);
}

/* ---- a matrix ---- */

/* What a panel lost, and had, of weights and of outputs. */
struct squares {
    double lost, all, lost_outputs, all_outputs;
};

struct job {
    const pn_rounder *rounder;
    const pn_gguf_tensor *tensor;
    const pn_qtype *type;
    pn_panel_kind kind;
    pn_panel_shape shape;
    const pn_gram *inputs;
    size_t n_row, panel_bytes;
    uint8_t *packed;
    struct squares *squares; /* [panels] */
    atomic_size_t first_bad; /* the first row that cannot be rounded */
};

static void note_bad(struct job *j, size_t row) {
    size_t first = atomic_load(&j->first_bad);
    while (row < first && !atomic_compare_exchange_weak(&j->first_bad, &first, row)) {
    }
}

static void add_squares(const struct job *j, const struct place *at, size_t in_panel, struct squares *s) {
    const pn_panel_format f = pn_panel_formats[j->kind];
    const size_t n_col = j->shape.n_col, group = j->shape.group;
    const pn_integer_scale *scales = at->room.scales + in_panel * (n_col / group);
    const uint8_t *codes = at->room.codes + in_panel * n_col;
    for (size_t c = 0; c < n_col; c += group, scales++) {
        const double d = (double)pn_f16_to_f32(scales->d);
        const int zero = f.min ? scales->zero : f.zero;
        for (size_t i = c; i < c + group; i++) {
            double w = (double)at->row[i], e = w - d * (codes[i] - zero);
            s->lost += e * e;
            s->all += w * w;
        }
    }
}

static void read_row(const struct job *j, const struct place *at, size_t row) {
    size_t bytes = j->shape.n_col / j->type->block_len * j->type->block_bytes;
    const uint8_t *data = j->tensor->data + row * bytes;
    if (j->type->id == PN_QTYPE_ID_F16)
        j->rounder->kernels->f16_to_f32((const uint16_t *)(const void *)data, at->row, j->shape.n_col);
    else
        j->type->decode(data, at->row, j->shape.n_col);
}

static bool round_row(const struct job *j, const struct place *at, size_t in_panel) {
    const size_t n_col = j->shape.n_col, group = j->shape.group;
    for (size_t c = 0; c < n_col; c += group) {
        pn_integer_scale *scale = &at->room.scales[in_panel * (n_col / group) + c / group];
        if (pn_integer_find_scale(j->kind, at->row + c, group, scale) != PN_INTEGER_RANGE_OK) return false;
        pn_integer_round(j->kind, *scale, at->row + c, group, at->room.codes + in_panel * n_col + c);
    }
    return true;
}

static bool round_rows(struct job *j, const struct place *at, size_t first, size_t n, struct squares *s) {
    for (size_t r = 0; r < n; r++) {
        read_row(j, at, first + r);
        if (!round_row(j, at, r)) {
            note_bad(j, first + r);
            return false;
        }
        add_squares(j, at, r, s);
    }
    return true;
}

/* First to the nearest, as a check that all can be rounded. */
static bool round_with_feedback(struct job *j, const struct place *at, size_t first, size_t n,
                                struct squares *s) {
    struct squares nearest = {0};
    if (!round_rows(j, at, first, n, &nearest)) return false;
    memset(at->room.weights, 0, j->shape.n_col * PN_PANEL_ROWS * sizeof(float));
    for (size_t r = 0; r < n; r++) {
        read_row(j, at, first + r);
        for (size_t c = 0; c < j->shape.n_col; c++)
            at->room.weights[c * PN_PANEL_ROWS + r] = at->row[c];
    }
    s->all_outputs = pn_feedback_energy(j->inputs, j->rounder->kernels, &at->room);
    s->lost_outputs = pn_feedback_round(j->inputs, j->rounder->kernels, j->kind, j->shape, &at->room);
    for (size_t r = 0; r < n; r++) {
        read_row(j, at, first + r);
        add_squares(j, at, r, s);
    }
    return true;
}

static void round_panels(void *arg, size_t begin, size_t end, int worker) {
    struct job *j = arg;
    const struct place *at = &j->rounder->places[worker];
    for (size_t panel = begin; panel < end; panel++) {
        size_t first = panel * PN_PANEL_ROWS, left = j->n_row - first;
        size_t n = left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
        struct squares s = {0};
        if (!(j->inputs ? round_with_feedback : round_rows)(j, at, first, n, &s)) return;
        j->squares[panel] = s;
        if (j->packed)
            pn_integer_pack(j->kind, j->shape, at->room.codes, at->room.scales, n,
                            j->packed + panel * j->panel_bytes);
    }
}

static pn_status bad_row(const struct job *j, pn_error *err) {
    const struct place *at = &j->rounder->places[0];
    const pn_gguf_tensor *t = j->tensor;
    size_t row = atomic_load(&j->first_bad), n_col = j->shape.n_col, c = 0;
    read_row(j, at, row);
    while (c < n_col && at->row[c] - at->row[c] == 0)
        c++;
    if (c < n_col)
        return pn_fail(err, PN_ERR_NUMERIC,
                       "%.*s has %g in row %zu, column %zu: the file is damaged, or was made by an overflow",
                       (int)t->name.len, t->name.data, (double)at->row[c], row, c);
    return pn_fail(
        err, PN_ERR_NUMERIC,
        "%.*s has weights in row %zu that are too large for a scale of 16 bits: leave it as it is with "
        "--ignore",
        (int)t->name.len, t->name.data, row);
}

pn_status pn_round_matrix(pn_rounder *r, const pn_gguf_tensor *t, pn_panel_kind kind, size_t group,
                          const pn_gram *inputs, uint8_t *packed, pn_rounding_error *error, pn_error *err) {
    const size_t n_col = (size_t)t->dims[0], n_row = (size_t)t->dims[1];
    const size_t n_panel = (n_row + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS;
    struct job j = {.rounder = r,
                    .tensor = t,
                    .type = pn_qtype_find(t->type),
                    .kind = kind,
                    .shape = {n_col, group ? group : n_col},
                    .inputs = inputs,
                    .n_row = n_row,
                    .packed = packed,
                    .squares = pn_alloc(PN_MEM_SCRATCH, n_panel, sizeof(struct squares))};
    if (!j.squares) return pn_fail_memory(err, "errors of panels", n_panel * sizeof(struct squares));
    j.panel_bytes = pn_panel_bytes(kind, j.shape);
    atomic_init(&j.first_bad, n_row);
    pn_pool_run(r->pool, round_panels, &j, n_panel, 1);
    struct squares sum = {0};
    for (size_t i = 0; i < n_panel; i++) { /* in order, so that it does not matter who did what */
        sum.lost += j.squares[i].lost;
        sum.all += j.squares[i].all;
        sum.lost_outputs += j.squares[i].lost_outputs;
        sum.all_outputs += j.squares[i].all_outputs;
    }
    pn_free(j.squares);
    if (atomic_load(&j.first_bad) < n_row) return bad_row(&j, err);
    *error = (pn_rounding_error){.weights = sum.all > 0 ? sum.lost / sum.all : 0,
                                 .outputs = sum.all_outputs > 0 ? sum.lost_outputs / sum.all_outputs : 0};
    return PN_OK;
}
