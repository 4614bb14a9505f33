/* SPDX-License-Identifier: Apache-2.0 */
#include "advise/kernel_work.h"

#include "quant/split.h"

#include "base/mem.h"
#include "ops/ops.h"

/* ---- operands ---- */

static size_t greatest(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Floats of x, y and z: vectors, the inputs and outputs of a matmul, a panel of floats, and the queries, keys
   and scores of attention. */
static size_t floats(const pn_work_shape *s) {
    size_t matmul = greatest(s->n_tok, PN_PANEL_ROWS) * s->n_col;
    size_t attention = greatest(s->n_key * s->head_dim, s->n_query * greatest(s->head_dim, PN_ATTN_KEYS));
    return greatest(greatest(s->n, matmul),
                    greatest(attention, PN_FEW_PANELS * PN_FEW_TOKENS * PN_PANEL_ROWS));
}

/* With groups of 128 columns where a format leaves that open, as weights are mostly compressed. */
static pn_panel_shape panel_shape(const pn_work_shape *s) {
    return (pn_panel_shape){s->n_col, 128};
}

/* Keys or values of a block, in codes of 4 bits, which take more work than those of 8. */
enum { RUN_BITS = 4 };

static pn_kv_run_shape run_shape(const pn_work_shape *s) {
    return (pn_kv_run_shape){s->head_dim, PN_ATTN_KEYS, RUN_BITS};
}

static size_t run_bytes(const pn_work_shape *s) {
    const pn_kv_run_shape shape = run_shape(s);
    return pn_kv_run_size(&shape);
}

static size_t packed_bytes(const pn_work_shape *s) {
    size_t bytes = s->n_key / PN_ATTN_KEYS * run_bytes(s);
    for (int format = 0; format < PN_PANEL_CODED_COUNT; format++)
        bytes = greatest(bytes, PN_FEW_PANELS * pn_panel_bytes((pn_panel_kind)format, panel_shape(s)));
    return bytes;
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Values as activations have them; no number becomes so small or so great by repetition that a CPU would
   treat it differently. */
static void fill(pn_operands *o, size_t n) {
    for (size_t i = 0; i < n; i++) {
        o->x[i] = (float)(i * 37 % 255) / 128.0f - 1.0f;
        o->y[i] = i % 2 ? 0.8f : 0.6f; /* as (cos, sin) it keeps a pair's length */
    }
    o->kernels->f32_to_f16(o->x, o->halves, n);
    /* As half, as small scale and as codes these bytes are ordinary. */
    memset(o->packed, 0x2c, packed_bytes(o->shape));
}

pn_status pn_operands_create(pn_operands *o, const pn_kernels *kernels, const pn_work_shape *s, int n_plane,
                             pn_error *err) {
    size_t n = floats(s), vector = round_up(n * sizeof(float)), scales = round_up(s->n_col * sizeof(float));
    uint64_t inputs_bytes = 0;
    pn_ops_inputs_bytes(n_plane, s->n_col, s->n_tok, &inputs_bytes); /* small: no overflow */
    size_t parts[] = {vector,
                      vector,
                      vector,
                      round_up(n * sizeof(uint16_t)),
                      round_up(packed_bytes(s)),
                      round_up(inputs_bytes),
                      round_up(s->n_col * PN_PANEL_ROWS),
                      scales,
                      scales};
    uint8_t *at[sizeof parts / sizeof *parts];
    size_t total = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        total += parts[i];
    uint8_t *memory = pn_alloc(PN_MEM_SCRATCH, total, 1);
    if (!memory) return pn_fail_memory(err, "kernel measurement", total);
    at[0] = memory;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        at[i] = at[i - 1] + parts[i - 1];
    *o = (pn_operands){.kernels = kernels, .shape = s, .memory = memory};
    o->x = (float *)(void *)at[0];
    o->y = (float *)(void *)at[1];
    o->z = (float *)(void *)at[2];
    o->halves = (uint16_t *)(void *)at[3];
    o->packed = at[4];
    o->inputs = pn_ops_inputs(n_plane, s->n_col, s->n_tok, at[5]);
    o->inputs.n_step = s->n_col / PN_STEP;
    o->codes = (pn_codes){
        .codes = (int8_t *)at[6], .scale = (float *)(void *)at[7], .offset = (float *)(void *)at[8]};
    fill(o, n);
    kernels->expand[PN_PANEL_Q4_1](o->packed, panel_shape(s), &o->codes);
    if (n_plane) kernels->quantise(o->x, 0, s->n_tok, &o->inputs);
    return PN_OK;
}

void pn_operands_free(pn_operands *o) {
    pn_free(o->memory);
}

/* ---- one call of each slot ---- */

static pn_work moved(size_t bytes) {
    return (pn_work){.bytes = bytes};
}

static pn_work multiplied(size_t macs, size_t bytes) {
    return (pn_work){.macs = macs, .bytes = bytes, .limit = PN_LIMIT_F32};
}

static pn_work multiplied_integers(size_t macs, size_t bytes) {
    return (pn_work){.macs = macs, .bytes = bytes, .limit = PN_LIMIT_CODES};
}

static pn_work call_quantise(const pn_operands *o) {
    size_t n = o->shape->n_tok * o->shape->n_col;
    if (o->inputs.n_plane == 0) return (pn_work){0};
    o->kernels->quantise(o->x, 0, o->shape->n_tok, &o->inputs);
    return moved(n * (sizeof(float) + (size_t)o->inputs.n_plane));
}

static pn_work call_matmul_codes(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    if (o->inputs.n_plane == 0) return (pn_work){0};
    o->kernels->matmul_codes(&o->codes, PN_PANEL_ROWS, &o->inputs, 0, s->n_tok, o->z, PN_PANEL_ROWS);
    return multiplied_integers(PN_PANEL_ROWS * s->n_col * s->n_tok,
                               s->n_col * (PN_PANEL_ROWS + (size_t)o->inputs.n_plane * s->n_tok));
}

static pn_work call_codes_to_f32(const pn_operands *o) {
    o->kernels->codes_to_f32(&o->codes, 0, o->shape->n_col / PN_STEP, o->z);
    return moved(PN_PANEL_ROWS * o->shape->n_col * (1 + sizeof(float)));
}

/* From the first two of the panels into the third. */
static pn_work call_join_split(const pn_operands *o) {
    size_t steps = o->shape->n_col / PN_STEP, high = pn_panel_bytes(PN_PANEL_Q4_1, panel_shape(o->shape)),
           whole = pn_panel_bytes(PN_PANEL_Q8_0, panel_shape(o->shape));
    o->kernels->join_split(o->packed, o->packed + high, steps, 2 * PN_PANEL_ROWS, o->packed + 2 * whole);
    return moved(high + steps * PN_SPLIT_CODES + whole);
}

static pn_work call_f16_to_f32(const pn_operands *o) {
    o->kernels->f16_to_f32(o->halves, o->z, o->shape->n);
    return moved(o->shape->n * (sizeof(uint16_t) + sizeof(float)));
}

static pn_work call_bf16_to_f32(const pn_operands *o) {
    o->kernels->bf16_to_f32(o->halves, o->z, o->shape->n);
    return moved(o->shape->n * (sizeof(uint16_t) + sizeof(float)));
}

static pn_work call_matmul_f32(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    memset(o->z, 0, s->n_tok * PN_PANEL_ROWS * sizeof *o->z);
    o->kernels->matmul_f32(o->y, PN_PANEL_ROWS, o->x, s->n_col, s->n_tok, s->n_col, o->z, PN_PANEL_ROWS);
    return multiplied(PN_PANEL_ROWS * s->n_col * s->n_tok,
                      s->n_col * (PN_PANEL_ROWS + s->n_tok) * sizeof(float));
}

/* Every query with every block of keys, or of values. */
static pn_work attended(const pn_work_shape *s, size_t element_bytes) {
    return multiplied(s->n_query * s->n_key * s->head_dim, s->n_key * s->head_dim * element_bytes);
}

static pn_work call_attn_scores_f16(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    for (size_t key = 0; key < s->n_key; key += PN_ATTN_KEYS)
        o->kernels->attn_scores_f16(o->x, s->n_query, o->halves + key * s->head_dim, s->head_dim, o->z, NULL);
    return attended(s, sizeof(uint16_t));
}

static pn_work call_attn_scores_f32(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    for (size_t key = 0; key < s->n_key; key += PN_ATTN_KEYS)
        o->kernels->attn_scores_f32(o->x, s->n_query, o->y + key * s->head_dim, s->head_dim, o->z, NULL);
    return attended(s, sizeof(float));
}

static pn_work call_attn_softmax(const pn_operands *o) {
    size_t n = o->shape->n_query;
    float *max = o->x, *sum = o->x + n, *shrink = o->x + 2 * n;
    memset(o->x, 0, 2 * n * sizeof *o->x);
    o->kernels->attn_softmax(o->z, n, 0, PN_ATTN_KEYS, max, sum, shrink);
    return moved(2 * n * PN_ATTN_KEYS * sizeof(float));
}

static pn_work call_attn_mix_f16(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    memset(o->z, 0, s->n_query * s->head_dim * sizeof *o->z);
    for (size_t key = 0; key < s->n_key; key += PN_ATTN_KEYS)
        o->kernels->attn_mix_f16(o->y, s->n_query, o->halves + key * s->head_dim, PN_ATTN_KEYS, s->head_dim,
                                 o->z, NULL);
    return attended(s, sizeof(uint16_t));
}

static pn_work call_attn_mix_f32(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    memset(o->z, 0, s->n_query * s->head_dim * sizeof *o->z);
    for (size_t key = 0; key < s->n_key; key += PN_ATTN_KEYS)
        o->kernels->attn_mix_f32(o->y, s->n_query, o->x + key * s->head_dim, PN_ATTN_KEYS, s->head_dim, o->z,
                                 NULL);
    return attended(s, sizeof(float));
}

static pn_work call_attn_scores_coded(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    for (size_t block = 0; block < s->n_key / PN_ATTN_KEYS; block++)
        o->kernels->attn_scores_coded(o->x, s->n_query, o->packed + block * run_bytes(s), RUN_BITS,
                                      s->head_dim, o->z, NULL);
    return multiplied(s->n_query * s->n_key * s->head_dim, s->n_key / PN_ATTN_KEYS * run_bytes(s));
}

/* A head has as many groups of values per key as make its run as large as that of the keys. */
static pn_work call_attn_mix_coded(const pn_operands *o) {
    const pn_work_shape *s = o->shape;
    memset(o->z, 0, s->n_query * s->head_dim * sizeof *o->z);
    for (size_t block = 0; block < s->n_key / PN_ATTN_KEYS; block++)
        o->kernels->attn_mix_coded(o->y, s->n_query, o->packed + block * run_bytes(s), RUN_BITS, 0,
                                   PN_ATTN_KEYS, s->head_dim, o->z, NULL);
    return multiplied(s->n_query * s->n_key * s->head_dim, s->n_key / PN_ATTN_KEYS * run_bytes(s));
}

static pn_work call_kv_pack(const pn_operands *o) {
    const pn_kv_run_shape shape = run_shape(o->shape);
    o->kernels->kv_pack(o->halves, shape, o->z);
    return moved(shape.n_row * shape.n_col * sizeof(uint16_t) + pn_kv_run_size(&shape));
}

static pn_work call_max_f32(const pn_operands *o) {
    o->z[0] = o->kernels->max_f32(o->x, o->shape->n);
    return moved(o->shape->n * sizeof(float));
}

/* In place again and again: exp(x - 1) tends to 1. */
static pn_work call_exp_sum_f32(const pn_operands *o) {
    o->kernels->exp_sum_f32(o->z, o->shape->n, 1.0f);
    return moved(2 * o->shape->n * sizeof(float));
}

static pn_work call_rms_norm_f32(const pn_operands *o) {
    o->kernels->rms_norm_f32(o->x, o->y, 1e-5f, o->shape->n, o->z);
    return moved(3 * o->shape->n * sizeof(float));
}

static pn_work call_rope_pairs_f32(const pn_operands *o) {
    o->kernels->rope_pairs_f32(o->x, o->y, o->shape->n);
    return moved(3 * o->shape->n * sizeof(float));
}

static pn_work call_rope_halves_f32(const pn_operands *o) {
    o->kernels->rope_halves_f32(o->x, o->y, o->shape->n);
    return moved(3 * o->shape->n * sizeof(float));
}

static pn_work call_silu_mul_f32(const pn_operands *o) {
    o->kernels->silu_mul_f32(o->x, o->y, o->shape->n, o->z);
    return moved(3 * o->shape->n * sizeof(float));
}

static pn_work call_gelu_mul_f32(const pn_operands *o) {
    o->kernels->gelu_mul_f32(o->x, o->y, o->shape->n, o->z);
    return moved(3 * o->shape->n * sizeof(float));
}

static pn_work call_add_f32(const pn_operands *o) {
    o->kernels->add_f32(o->z, o->y, o->shape->n);
    return moved(3 * o->shape->n * sizeof(float));
}

static pn_work call_scale_f32(const pn_operands *o) {
    o->kernels->scale_f32(o->x, 1.0f, o->shape->n);
    return moved(2 * o->shape->n * sizeof(float));
}

static pn_work call_f32_to_f16(const pn_operands *o) {
    o->kernels->f32_to_f16(o->x, o->halves, o->shape->n);
    return moved(o->shape->n * (sizeof(float) + sizeof(uint16_t)));
}

static pn_work call_find_range(const pn_operands *o) {
    o->kernels->find_range(o->x, o->shape->n, o->z);
    return moved(o->shape->n * sizeof(float));
}

static pn_work call_round_codes(const pn_operands *o) {
    const pn_integer_scale scale = {pn_f32_to_f16(0.1f), 7};
    o->z[0] = o->kernels->round_codes(PN_PANEL_INT4_ASYM, scale, o->x, o->shape->n, (uint8_t *)o->halves);
    return moved(o->shape->n * (sizeof(float) + 1));
}

static pn_work call_read_streams(const pn_operands *o) {
    uint64_t sink = o->kernels->read_streams(o->x, o->shape->n * sizeof(float), 1);
    memcpy(o->z, &sink, sizeof sink);
    return moved(o->shape->n * sizeof(float));
}

static pn_work call_peak_codes(const pn_operands *o) {
    if (o->inputs.n_plane == 0) return (pn_work){0};
    return multiplied_integers(o->kernels->peak_codes(16) / (size_t)o->inputs.n_plane, 0);
}

static pn_work call_peak_f32(const pn_operands *o) {
    return multiplied(o->kernels->peak_f32(16), 0);
}

pn_work pn_call_few(const pn_operands *o, pn_panel_kind format, size_t n_tok) {
    size_t n_col = o->shape->n_col, bytes = pn_panel_bytes(format, panel_shape(o->shape));
    const uint8_t *panels[PN_FEW_PANELS];
    if (o->inputs.n_plane == 0) return (pn_work){0};
    for (size_t p = 0; p < PN_FEW_PANELS; p++)
        panels[p] = o->packed + p * bytes;
    o->kernels->few[format](panels, PN_FEW_PANELS, panel_shape(o->shape), &o->inputs, 0, n_tok, o->z);
    /* Made to keep up with memory, so it is bytes that count. */
    return (pn_work){.macs = PN_FEW_PANELS * PN_PANEL_ROWS * n_col * n_tok, .bytes = PN_FEW_PANELS * bytes};
}

pn_work pn_call_expand(const pn_operands *o, pn_panel_kind format) {
    pn_codes codes = o->codes;
    o->kernels->expand[format](o->packed, panel_shape(o->shape), &codes);
    return moved(pn_panel_bytes(format, panel_shape(o->shape)) + PN_PANEL_ROWS * o->shape->n_col);
}

/* ---- the list ---- */

const pn_slot_work pn_slot_works[PN_SLOT_COUNT] = {
#define PN_SLOT_WORK(slot, class, ret, params) {#slot, call_##slot},
    PN_KERNEL_SLOTS(PN_SLOT_WORK)
#undef PN_SLOT_WORK
};
