/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of every kernel in one thread, on operands that lie in cache: what a kernel is worth where neither
   memory nor threads are the limit. */
#include "advise/kernel_work.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/slice.h"
#include "ops/ops.h"

#define ROUND_SECONDS 0.001
#define N_ROUNDS      7

/* Vectors of 4 and 64 KiB; matrices and batches as a small and a large model has them. */
static const pn_work_shape shapes[] = {
    {.name = "small", .n = 1024, .n_col = 256, .n_tok = 8, .n_query = 4, .n_key = 64, .head_dim = 64},
    {.name = "large", .n = 16384, .n_col = 2048, .n_tok = 32, .n_query = 48, .n_key = 1024, .head_dim = 64},
};

/* One kernel on one set of operands. */
struct subject {
    const pn_operands *operands;
    const pn_slot_work *slot; /* or, where it is NULL: */
    pn_panel_kind format;
    size_t n_tok; /* 0: expand */
};

static pn_work call(const struct subject *s) {
    if (s->slot) return s->slot->call(s->operands);
    return s->n_tok ? pn_call_few(s->operands, s->format, s->n_tok) : pn_call_expand(s->operands, s->format);
}

/* The least time of one call over a few rounds. */
static double seconds_per_call(const struct subject *s) {
    double best = 0;
    size_t n = 1;
    for (int round = 0; round < N_ROUNDS;) {
        double start = pn_clock_seconds();
        for (size_t i = 0; i < n; i++)
            call(s);
        double seconds = pn_clock_seconds() - start;
        if (seconds < ROUND_SECONDS) { /* also warms up */
            n *= 2;
            continue;
        }
        if (round == 0 || seconds / (double)n < best) best = seconds / (double)n;
        round++;
    }
    return best;
}

struct report {
    pn_buf json;
    size_t n_rows;
    double codes, floats, reads; /* what shares are of, in 1e9 per second */
};

static const char *format_name(pn_panel_kind format) {
    static const char *const names[PN_PANEL_CODED_COUNT] = {
#define PN_PANEL(name, ...) [PN_PANEL_##name] = #name,
#include "quant/panels.inc"
#undef PN_PANEL
    };
    return names[format];
}

static void add_rates(struct report *r, pn_work work, double seconds) {
    double gmacs = (double)work.macs * 1e-9 / seconds, gbs = (double)work.bytes * 1e-9 / seconds;
    double share = work.limit == PN_LIMIT_READS   ? gbs / r->reads
                   : work.limit == PN_LIMIT_CODES ? gmacs / r->codes
                                                  : gmacs / r->floats;
    pn_buf_append_fmt(&r->json, "\"us\": %.4g, ", seconds * 1e6);
    if (work.macs > 0) pn_buf_append_fmt(&r->json, "\"gmac_s\": %.5g, ", gmacs);
    if (work.bytes > 0) pn_buf_append_fmt(&r->json, "\"gb_s\": %.5g, ", gbs);
    pn_buf_append_fmt(&r->json, "\"share\": %.4g}", share);
}

static void add_row(struct report *r, const struct subject *s) {
    pn_work work = call(s);
    if (work.macs == 0 && work.bytes == 0) return;
    const char *name = s->slot ? s->slot->name : s->n_tok ? "few" : "expand";
    pn_buf_append_fmt(&r->json, "%s{\"kernel\": \"%s\", \"operands\": \"%s\", ", r->n_rows++ > 0 ? ", " : "",
                      name, s->operands->shape->name);
    if (!s->slot) pn_buf_append_fmt(&r->json, "\"format\": \"%s\", ", format_name(s->format));
    if (!s->slot && s->n_tok > 0) pn_buf_append_fmt(&r->json, "\"tokens\": %zu, ", s->n_tok);
    add_rates(r, work, seconds_per_call(s));
}

/* The rate of a slot that is a peak; 0 where it is not to be called. */
static double peak(const pn_operands *o, pn_slot slot) {
    struct subject s = {.operands = o, .slot = &pn_slot_works[slot]};
    pn_work work = call(&s);
    uint64_t n = work.macs > 0 ? work.macs : work.bytes;
    return n > 0 ? (double)n * 1e-9 / seconds_per_call(&s) : 0;
}

static void add_shape(struct report *r, const pn_operands *o) {
    static const size_t n_toks[] = {1, PN_FEW_TOKENS, 0};
    r->codes = peak(o, PN_SLOT_peak_codes);
    r->floats = peak(o, PN_SLOT_peak_f32);
    r->reads = peak(o, PN_SLOT_read_streams);
    for (int slot = 0; slot < PN_SLOT_COUNT; slot++)
        add_row(r, &(struct subject){.operands = o, .slot = &pn_slot_works[slot]});
    for (int format = 0; format < PN_PANEL_CODED_COUNT; format++)
        for (size_t i = 0; i < sizeof n_toks / sizeof n_toks[0]; i++)
            add_row(r, &(struct subject){.operands = o, .format = (pn_panel_kind)format, .n_tok = n_toks[i]});
}

static pn_status measure(struct report *r, pn_precision precision, pn_error *err) {
    pn_buf_append_fmt(&r->json, "{\"kernels\": \"%s\", \"rates\": [", pn_cpu_feature_name(pn_cpu_features()));
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        pn_operands o;
        PN_TRY(pn_operands_create(&o, pn_kernels_host(), &shapes[i], pn_ops_planes(precision), err));
        add_shape(r, &o);
        pn_operands_free(&o);
    }
    pn_buf_append_str(&r->json, "]}");
    return r->json.status == PN_OK ? PN_OK : pn_fail_memory(err, "the rates of the kernels", r->json.len);
}

pn_status pn_bench_kernels_json(pn_precision precision, pn_text *out, pn_error *err) {
    struct report r = {0};
    PN_TRY(pn_cpu_check(err));
    pn_buf_init(&r.json, PN_BUF_NO_BOUND);
    pn_status status = measure(&r, precision, err);
    if (status == PN_OK) {
        pn_text text = {0};
        text.data = pn_buf_take(&r.json, &text.len);
        *out = text;
    }
    pn_buf_done(&r.json);
    return status;
}
