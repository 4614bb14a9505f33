/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/matrix.h"

#include "base/mem.h"
#include "compress/feedback.h"
#include "quant/split.h"

#include <stdatomic.h>
#include <string.h>

/* What a worker needs for a panel. */
struct place {
    float *row; /* [n_col] */
    void *memory;
    pn_feedback_room room; /* in memory */
    float *outputs;        /* [max_heldout][16] */
};

struct pn_rounder {
    pn_pool *pool;
    const pn_kernels *kernels;
    struct place *places; /* [threads of the pool] */
    void (*meanwhile)(void *user);
    void *user;
};

uint64_t pn_rounder_bytes(const pn_pool *pool, size_t max_col, size_t max_heldout) {
    return (uint64_t)pn_pool_threads(pool) *
           (pn_feedback_room_bytes(max_col) + (max_col + max_heldout * PN_PANEL_ROWS + 1) * sizeof(float));
}

static bool make_place(struct place *p, size_t max_col, size_t max_heldout) {
    p->row = pn_alloc(PN_MEM_SCRATCH, max_col, sizeof(float));
    p->memory = pn_alloc(PN_MEM_SCRATCH, 1, pn_feedback_room_bytes(max_col));
    p->outputs = pn_alloc(PN_MEM_SCRATCH, max_heldout * PN_PANEL_ROWS + 1, sizeof(float));
    if (!p->row || !p->memory || !p->outputs) return false;
    p->room = pn_feedback_room_in(p->memory, max_col);
    return true;
}

pn_status pn_rounder_create(pn_pool *pool, size_t max_col, size_t max_heldout, pn_rounder **out,
                            pn_error *err) {
    size_t n = (size_t)pn_pool_threads(pool);
    pn_rounder *r = pn_alloc(PN_MEM_SCRATCH, 1, sizeof *r);
    if (!r) return pn_fail_memory(err, "rounding", sizeof *r);
    *r = (pn_rounder){
        .pool = pool, .kernels = pn_kernels_host(), .places = pn_alloc(PN_MEM_SCRATCH, n, sizeof *r->places)};
    bool ok = r->places;
    for (size_t i = 0; ok && i < n; i++)
        ok = make_place(&r->places[i], max_col, max_heldout);
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
        pn_free(r->places[i].outputs);
    }
    pn_free(r->places);
    pn_free(r);
}

void pn_rounder_meanwhile(pn_rounder *r, void (*fn)(void *user), void *user) {
    r->meanwhile = fn;
    r->user = user;
}

/* ---- a matrix ---- */

struct job {
    const pn_rounder *rounder;
    const pn_gguf_tensor *tensor;
    const pn_qtype *type;
    const pn_rounding *how;
    pn_panel_shape shape;
    bool all_outputs;
    size_t n_row, panel_bytes;
    uint8_t *packed;
    pn_rounding_loss *losses; /* [panels] */
    atomic_size_t first_bad;  /* the first row that cannot be rounded */
};

static void note_bad(struct job *j, size_t row) {
    size_t first = atomic_load(&j->first_bad);
    while (row < first && !atomic_compare_exchange_weak(&j->first_bad, &first, row)) {
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

static double length_squared(const float *x, size_t n) {
    float lanes[16] = {0};
    double sum = 0;
    for (size_t i = 0; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 16; j++)
            lanes[j] += x[i + j] * x[i + j];
    for (size_t j = 0; j < 16; j++)
        sum += (double)lanes[j];
    return sum;
}

/* at->row to the nearest codes, and what that loses. */
static bool round_row(const struct job *j, const struct place *at, size_t in_panel, pn_rounding_loss *loss) {
    const pn_kernels *kernels = j->rounder->kernels;
    const size_t n_col = j->shape.n_col, group = j->shape.group;
    uint8_t *codes = at->room.codes + in_panel * n_col;
    pn_integer_scale *scale = at->room.scales + in_panel * (n_col / group);
    for (size_t c = 0; c < n_col; c += group, scale++) {
        float range[2];
        kernels->find_range(at->row + c, group, range);
        if (pn_integer_find_scale(j->how->kind, range, scale) != PN_INTEGER_RANGE_OK) return false;
        loss->weights += (double)kernels->round_codes(j->how->kind, *scale, at->row + c, group, codes + c);
    }
    loss->all_weights += length_squared(at->row, n_col);
    return true;
}

static bool round_rows(struct job *j, const struct place *at, size_t first, size_t n,
                       pn_rounding_loss *loss) {
    for (size_t r = 0; r < n; r++) {
        read_row(j, at, first + r);
        if (!round_row(j, at, r, loss)) {
            note_bad(j, first + r);
            return false;
        }
    }
    return true;
}

/* ---- column by column ---- */

/* The panel's weights, by column. That each can be rounded is seen from its row. */
static bool turn_rows(struct job *j, const struct place *at, size_t first, size_t n) {
    pn_rounding_loss plain = {0};
    if (!round_rows(j, at, first, n, &plain)) return false;
    memset(at->room.weights, 0, j->shape.n_col * PN_PANEL_ROWS * sizeof(float));
    for (size_t r = 0; r < n; r++) {
        read_row(j, at, first + r);
        for (size_t c = 0; c < j->shape.n_col; c++)
            at->room.weights[c * PN_PANEL_ROWS + r] = at->row[c];
    }
    return true;
}

/* The squared length of what these columns make of the rows to judge by. */
static double outputs_of(const struct job *j, const struct place *at, const float *columns) {
    const pn_activations *in = j->how->inputs;
    double sum = 0;
    if (!in) return 0;
    memset(at->outputs, 0, in->n_heldout * PN_PANEL_ROWS * sizeof(float));
    j->rounder->kernels->matmul_f32(columns, PN_PANEL_ROWS, in->heldout, j->shape.n_col, in->n_heldout,
                                    j->shape.n_col, at->outputs, PN_PANEL_ROWS);
    for (size_t i = 0; i < in->n_heldout * PN_PANEL_ROWS; i++)
        sum += (double)at->outputs[i] * (double)at->outputs[i];
    return sum;
}

static void add_losses(const struct job *j, const struct place *at, pn_rounding_loss *loss) {
    for (size_t c = 0; c < j->shape.n_col; c++) {
        const float *e = at->room.errors + c * PN_PANEL_ROWS, *w = at->room.weights + c * PN_PANEL_ROWS;
        double lost = 0;
        for (int r = 0; r < PN_PANEL_ROWS; r++) {
            lost += (double)e[r] * (double)e[r];
            loss->all_weights += (double)w[r] * (double)w[r];
        }
        loss->weights += lost;
        loss->weighed += lost * (double)j->how->mean_square[c];
    }
    loss->outputs = outputs_of(j, at, at->room.errors);
    if (j->all_outputs) loss->all_outputs = outputs_of(j, at, at->room.weights);
}

static bool round_columns(struct job *j, const struct place *at, size_t first, size_t n,
                          pn_rounding_loss *loss) {
    const pn_rounding *how = j->how;
    const pn_column_rounding columns = {.kind = how->kind,
                                        .shape = j->shape,
                                        .search = {how->scales, how->zeros},
                                        .gram = how->feedback ? &how->inputs->gram : NULL,
                                        .weight = how->mean_square,
                                        .stretch = how->stretch};
    if (!turn_rows(j, at, first, n)) return false;
    pn_feedback_round(j->rounder->kernels, &columns, &at->room);
    add_losses(j, at, loss);
    return true;
}

/* Item 0 is what is done meanwhile, each other one a panel. */
static void round_panels(void *arg, size_t begin, size_t end, int worker) {
    struct job *j = arg;
    const struct place *at = &j->rounder->places[worker];
    if (begin == 0 && j->rounder->meanwhile) j->rounder->meanwhile(j->rounder->user);
    for (size_t item = begin > 0 ? begin : 1; item < end; item++) {
        const size_t panel = item - 1;
        if (j->how->every > 1 && panel % j->how->every != 0) continue;
        size_t first = panel * PN_PANEL_ROWS, left = j->n_row - first;
        size_t n = left < PN_PANEL_ROWS ? left : PN_PANEL_ROWS;
        pn_rounding_loss loss = {0};
        if (!(j->how->mean_square ? round_columns : round_rows)(j, at, first, n, &loss)) return;
        j->losses[panel] = loss;
        if (j->packed && j->how->split)
            pn_split_pack_integers(j->how->kind, at->room.codes, at->room.scales, n,
                                   (j->n_row + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS, j->shape.n_col, panel,
                                   j->packed);
        else if (j->packed)
            pn_integer_pack(j->how->kind, j->shape, at->room.codes, at->room.scales, n,
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

pn_status pn_round_matrix(pn_rounder *r, const pn_gguf_tensor *t, const pn_rounding *how, bool all_outputs,
                          uint8_t *packed, pn_rounding_loss *loss, pn_error *err) {
    const size_t n_col = (size_t)t->dims[0], n_row = (size_t)t->dims[1];
    const size_t n_panel = (n_row + PN_PANEL_ROWS - 1) / PN_PANEL_ROWS;
    struct job j = {.rounder = r,
                    .tensor = t,
                    .type = pn_qtype_find(t->type),
                    .how = how,
                    .shape = {n_col, how->group ? how->group : n_col},
                    .all_outputs = all_outputs,
                    .n_row = n_row,
                    .packed = packed,
                    .losses = pn_alloc(PN_MEM_SCRATCH, n_panel, sizeof(pn_rounding_loss))};
    if (!j.losses) return pn_fail_memory(err, "errors of panels", n_panel * sizeof(pn_rounding_loss));
    j.panel_bytes = pn_panel_bytes(how->kind, j.shape);
    atomic_init(&j.first_bad, n_row);
    pn_pool_run(r->pool, round_panels, &j, n_panel + 1, 1);
    r->meanwhile = NULL;
    pn_rounding_loss sum = {0};
    for (size_t i = 0; i < n_panel; i++) { /* in order, so that it does not matter who did what */
        sum.weights += j.losses[i].weights;
        sum.all_weights += j.losses[i].all_weights;
        sum.weighed += j.losses[i].weighed;
        sum.outputs += j.losses[i].outputs;
        sum.all_outputs += j.losses[i].all_outputs;
    }
    pn_free(j.losses);
    if (atomic_load(&j.first_bad) < n_row) return bad_row(&j, err);
    *loss = sum;
    return PN_OK;
}
