/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads read a prompt, and how many decode. A prompt is arithmetic: it takes all threads, unless
   two on one core are no faster than one. Decoding waits for memory, which a few threads may saturate: it
   takes as many as bring the most, and no more. Which these are is measured on the model's own matrices in a
   few milliseconds, and noted for the next time. */
#include "engine/engine.h"

#include "base/cpu.h"
#include "base/notes.h"

#include <math.h>
#include <stdio.h>

#define NOTES "threads"

enum {
    LAP_BYTES = 3 << 20,     /* of matrices that one measurement goes over */
    SLICE_BYTES = 512 << 10, /* of one matrix */
    PROMPT_TOKENS = 16,
    ROUNDS = 2,
    MAX_COUNTS = 32
};
/* Seconds that a lap of all threads, and gathering them, may take: where it is more, cores are counted
 * instead. */
#define SLOW_LAP        1.5e-3
#define MEETING_SECONDS 1e-3

struct probe {
    const pn_decoder *decoder;
    pn_ops ops;
    pn_scratch scratch;
    int layer;      /* the next one; going on through the model, no lap finds its weights in a cache */
    bool disturbed; /* some thread did not get a core */
};

/* ---- measuring ---- */

static pn_weight slice_of(const pn_weight *weight, uint64_t *bytes) {
    pn_weight slice = *weight;
    size_t n = SLICE_BYTES / weight->panel_bytes + 1;
    if (n < slice.n_panel) {
        slice.n_panel = n;
        slice.n_row = n * PN_PANEL_ROWS;
    }
    *bytes += slice.n_panel * slice.panel_bytes;
    return slice;
}

/* The matrices of a layer as a pass goes over them, with the inputs zero. Returns their bytes. */
static uint64_t do_layer(struct probe *p, const pn_layer *l, size_t n_tok) {
    pn_scratch *s = &p->scratch;
    uint64_t bytes = 0;
    const pn_weight q = slice_of(&l->q, &bytes), k = slice_of(&l->k, &bytes), v = slice_of(&l->v, &bytes),
                    out = slice_of(&l->out, &bytes), gate = slice_of(&l->gate, &bytes),
                    up = slice_of(&l->up, &bytes), down = slice_of(&l->down, &bytes);
    const pn_matmul_job qkv[] = {{&q, NULL, s->q}, {&k, NULL, s->k}, {&v, NULL, s->v}};
    const pn_matmul_job gate_up[] = {{&gate, NULL, s->gate}, {&up, NULL, s->up}};
    const pn_matmul_job project = {&out, NULL, s->part}, shrink = {&down, NULL, s->part};
    const pn_matmul_input x = {.x = s->x}, attended = {.x = s->attended}, gated = {.x = s->gate};
    pn_ops_matmul(&p->ops, qkv, 3, &x, n_tok);
    pn_ops_matmul(&p->ops, &project, 1, &attended, n_tok);
    pn_ops_matmul(&p->ops, gate_up, 2, &x, n_tok);
    pn_ops_matmul(&p->ops, &shrink, 1, &gated, n_tok);
    return bytes;
}

static uint64_t do_next_layer(struct probe *p, size_t n_tok) {
    const pn_layer *l = &p->decoder->layers[p->layer];
    p->layer = (p->layer + 1) % p->decoder->h.n_layer;
    return do_layer(p, l, n_tok);
}

/* Whoever comes stays until all are there, or it has taken too long. */
struct meeting {
    int n_wanted;
    atomic_int n_there;
    double deadline;
};

static void meet(void *arg, size_t begin, size_t end, int worker) {
    struct meeting *m = arg;
    (void)begin;
    (void)end;
    (void)worker;
    atomic_fetch_add(&m->n_there, 1);
    while (atomic_load(&m->n_there) < m->n_wanted && pn_clock_seconds() < m->deadline)
        pn_cpu_pause();
}

/* Whether that many threads are awake and have a core each. */
static bool all_run(struct probe *p, int n_threads) {
    struct meeting m = {.n_wanted = n_threads, .deadline = pn_clock_seconds() + MEETING_SECONDS};
    pn_pool_run_on(p->ops.pool, n_threads, meet, &m, (size_t)n_threads, 1);
    return pn_clock_seconds() < m.deadline;
}

/* Seconds per byte. */
static double lap(struct probe *p, int n_threads, size_t n_tok, uint64_t bytes_wanted) {
    uint64_t bytes = 0;
    p->ops.n_threads = n_threads;
    if (!all_run(p, n_threads)) p->disturbed = true;
    double start = pn_clock_seconds();
    while (bytes < bytes_wanted)
        bytes += do_next_layer(p, n_tok);
    return (pn_clock_seconds() - start) / (double)bytes;
}

/* The least of the counts, given from least to greatest, that is nearly as fast as the fastest. */
static int least_good(struct probe *p, const int *counts, int n, size_t n_tok, uint64_t bytes, double share) {
    double seconds[MAX_COUNTS], best = INFINITY;
    for (int i = 0; i < n; i++)
        seconds[i] = INFINITY;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++)
            seconds[i] = fmin(seconds[i], lap(p, counts[i], n_tok, bytes));
    for (int i = 0; i < n; i++)
        best = fmin(best, seconds[i]);
    int i = 0;
    while (seconds[i] * share > best)
        i++;
    return counts[i];
}

/* 1, 2, 3, 4, 6, 8, 12, 16, ... up to the cores, and all threads where that is more. */
static int candidates(int n_cores, int n_threads, int counts[MAX_COUNTS]) {
    int n = 0;
    for (int count = 1, step = 1; count < n_cores; count += step) {
        counts[n++] = count;
        if (count == 4 * step) step *= 2;
    }
    counts[n++] = n_cores;
    if (n_threads > n_cores) counts[n++] = n_threads;
    return n;
}

/* False when that failed, or some thread did not get its core. */
static bool measure(const pn_model *m, int n_cores, int n_threads, pn_thread_counts *out) {
    struct probe p = {.decoder = m->decoder};
    if (pn_scratch_init(&p.scratch, m->decoder, PN_PRECISION_HIGH, PROMPT_TOKENS, pn_pool_threads(m->pool),
                        NULL) != PN_OK)
        return false;
    p.ops = (pn_ops){.kernels = m->kernels,
                     .pool = m->pool,
                     .inputs = &p.scratch.inputs,
                     .scratch = p.scratch.worker,
                     .scratch_stride = p.scratch.worker_stride};
    bool ok = lap(&p, n_threads, 1, LAP_BYTES) * LAP_BYTES < SLOW_LAP && !p.disturbed;
    if (ok) {
        int counts[MAX_COUNTS], n = candidates(n_cores, n_threads, counts);
        const int siblings[] = {n_cores, n_threads};
        out->decode = least_good(&p, counts, n, 1, LAP_BYTES, 0.95);
        out->prefill = n_threads;
        if (n_threads > n_cores) out->prefill = least_good(&p, siblings, 2, PROMPT_TOKENS, 1, 0.97);
        ok = !p.disturbed;
    }
    pn_scratch_done(&p.scratch);
    return ok;
}

/* ---- choosing ---- */

/* By this machine, our share of it, and the model. */
static void note_key(const pn_model *m, char *key, size_t size) {
    char cpu[256];
    pn_cpu_identify(cpu, sizeof cpu);
    snprintf(key, size, "%s, %s, %llu bytes per token", cpu, m->info.kernels,
             (unsigned long long)m->info.decode_bytes_per_token);
}

static bool read_note(const char *key, int n_threads, pn_thread_counts *out) {
    char value[64];
    pn_thread_counts counts;
    if (!pn_notes_get(NOTES, key, value, sizeof value) ||
        sscanf(value, "prefill %d decode %d", &counts.prefill, &counts.decode) != 2 || counts.prefill < 1 ||
        counts.prefill > n_threads || counts.decode < 1 || counts.decode > n_threads)
        return false;
    *out = counts;
    return true;
}

pn_thread_counts pn_threads_find(const pn_model *m, int n_cores, int n_threads) {
    pn_thread_counts counts;
    char key[400], value[64];
    note_key(m, key, sizeof key);
    if (read_note(key, n_threads, &counts)) return counts;
    if (!measure(m, n_cores, n_threads, &counts)) return (pn_thread_counts){n_threads, n_cores};
    snprintf(value, sizeof value, "prefill %d decode %d", counts.prefill, counts.decode);
    pn_notes_put(NOTES, key, value);
    return counts;
}

/* With a core for each of two threads there is nothing to find out, and small models tell nothing. */
static pn_thread_counts choose(const pn_model *m, bool may_measure) {
    int n_threads = pn_cpu_usable_threads(), n_cores = pn_cpu_usable_cores(NULL);
    bool worth = (n_threads > 2 || n_threads > n_cores) && m->info.decode_bytes_per_token >= 2 * LAP_BYTES;
    return worth && may_measure ? pn_threads_find(m, n_cores, n_threads)
                                : (pn_thread_counts){.prefill = n_threads, .decode = n_cores};
}

int pn_threads_most(const pn_model_options *options) {
    int n = options->n_threads, n_decode = options->n_threads_decode;
    if (n < 0 || n_decode < 0) return -1;
    if (n == 0) n = pn_cpu_usable_threads();
    return n > n_decode ? n : n_decode;
}

pn_thread_counts pn_threads_choose(const pn_model *m, const pn_model_options *options) {
    int n = options->n_threads, n_decode = options->n_threads_decode;
    pn_thread_counts counts = n > 0 ? (pn_thread_counts){n, n} : choose(m, !options->no_probe);
    if (n_decode > 0) counts.decode = n_decode;
    return counts;
}
