/* SPDX-License-Identifier: Apache-2.0 */
/* The queries of neighbouring tokens, and of the heads that share a KV head, meet a block of keys together: a
   tile of rows. Its softmax runs online over the blocks of a segment, and the segments' results are merged in
   order (Dao, "Flash-Decoding for long-context inference", 2023). Where segments begin and end depends on a
   query's own position alone, so it makes no difference to the bits that a batch takes them one after the
   other and a few tokens spread them over the workers. */
#include "ops/matmul.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    TILE_ROWS = 128,
    MIN_SEGMENT = 2,   /* blocks */
    MAX_SEGMENTS = 16, /* of a query's span; blocks at both ends may stand in one more each */
    MAX_TOUCHED = MAX_SEGMENTS + 2
};

#define KEYS PN_ATTN_KEYS

/* ---- geometry ---- */

/* The rows of one KV head: tokens first .. first + n_tok of the batch, all in one block, times the heads of
   its group. */
struct tile {
    const pn_attention_job *job;
    size_t first, n_tok, group, dim, n_row;
    size_t begin, end; /* blocks that some row sees */
    size_t segment;    /* blocks of a segment; they begin at its multiples */
};

/* A power of two, so that no tile crosses a block. */
static size_t tile_tokens(size_t group) {
    size_t n = KEYS;
    while (n > 1 && n * group > TILE_ROWS)
        n /= 2;
    return n;
}

static size_t max_rows(size_t group) {
    return tile_tokens(group) * group;
}

static size_t first_visible(const pn_attention_job *job, size_t position) {
    return job->window && position + 1 > job->window ? position + 1 - job->window : 0;
}

/* Doubles when a query would see more than MAX_SEGMENTS segments. */
static size_t segment_blocks(size_t window, size_t end) {
    size_t span = window && (window - 1) / KEYS + 2 < end ? (window - 1) / KEYS + 2 : end;
    size_t n = MIN_SEGMENT;
    while (n * MAX_SEGMENTS < span)
        n *= 2;
    return n;
}

static size_t n_tiles(const pn_attention_job *job, size_t tokens) {
    return (job->position % tokens + job->n_tok + tokens - 1) / tokens;
}

/* Tile i of the batch; tiles begin at positions that are multiples of `tokens`. */
static struct tile tile_at(const pn_attention_job *job, size_t tokens, size_t i) {
    size_t from = (job->position / tokens + i) * tokens, to = from + tokens;
    if (from < job->position) from = job->position;
    if (to > job->position + job->n_tok) to = job->position + job->n_tok;
    struct tile t = {.job = job,
                     .first = from - job->position,
                     .n_tok = to - from,
                     .group = (size_t)job->n_head / (size_t)job->kv->store->shape.n_head_kv,
                     .dim = (size_t)job->kv->store->shape.head_dim,
                     .begin = first_visible(job, from) / KEYS,
                     .end = (to - 1) / KEYS + 1};
    t.n_row = t.n_tok * t.group;
    t.segment = segment_blocks(job->window, t.end);
    return t;
}

static size_t n_segments(const struct tile *t) {
    return (t->end - 1) / t->segment - t->begin / t->segment + 1;
}

/* The blocks of the i-th segment that the tile touches. */
static void segment_range(const struct tile *t, size_t i, size_t *from, size_t *to) {
    size_t begin = (t->begin / t->segment + i) * t->segment, end = begin + t->segment;
    *from = begin > t->begin ? begin : t->begin;
    *to = end < t->end ? end : t->end;
}

/* The keys of a block that a token sees: none where begin == end. */
struct range {
    size_t begin, end;
};

static struct range visible_keys(const struct tile *t, size_t token, size_t block) {
    size_t position = t->job->position + t->first + token, from = block * KEYS;
    size_t begin = first_visible(t->job, position), end = position + 1;
    begin = begin > from ? begin - from : 0;
    end = end - from < KEYS ? end - from : KEYS;
    return (struct range){begin < end ? begin : end, end};
}

/* ---- one segment ---- */

/* What softmax has seen so far, per row: exponents are of 2, relative to the greatest score. */
struct state {
    float *acc; /* [n_row, dim], of meaning once max is above -infinity */
    float *max, *sum;
};

struct work {
    const pn_kernels *kernels;
    float *q;               /* [n_row, dim], scaled */
    float *scores;          /* [n_row, KEYS] */
    float *shrink, *unused; /* [n_row] */
    struct state part;
    struct state total; /* its acc is the output */
};

static struct work work_of(const pn_ops *ops, int worker, size_t group, size_t dim) {
    size_t n = max_rows(group);
    float *at = ops->scratch + (size_t)worker * ops->scratch_stride;
    struct work w = {.kernels = ops->kernels, .q = at, .scores = at + n * dim};
    w.part.acc = w.scores + n * KEYS;
    w.part.max = w.part.acc + n * dim;
    w.part.sum = w.part.max + n;
    w.total.max = w.part.sum + n;
    w.total.sum = w.total.max + n;
    w.shrink = w.total.sum + n;
    w.unused = w.shrink + n;
    return w;
}

size_t pn_ops_scratch_floats(size_t max_col, size_t group, size_t head_dim) {
    size_t panel = pn_matmul_scratch_floats(max_col), tile = max_rows(group) * (2 * head_dim + KEYS + 6);
    return panel > tile ? panel : tile;
}

static float *row_of(const struct tile *t, float *rows, int kv_head, size_t r) {
    size_t head = (size_t)kv_head * t->group + r % t->group;
    return rows + ((t->first + r / t->group) * (size_t)t->job->n_head + head) * t->dim;
}

/* Scores become exponents of 2. */
static void scale_queries(const struct tile *t, const struct work *w, int kv_head) {
    const float log2_e = 1.44269504f, scale = t->job->scale * log2_e;
    size_t run = t->group * t->dim;
    for (size_t token = 0; token < t->n_tok; token++) {
        const float *q =
            t->job->q + ((t->first + token) * (size_t)t->job->n_head * t->dim) + (size_t)kv_head * run;
        for (size_t i = 0; i < run; i++)
            w->q[token * run + i] = q[i] * scale;
    }
}

/* A factor of 0 also forgets what memory held before. */
static void scale_row(const pn_kernels *kernels, float *row, size_t dim, float factor) {
    if (factor == 0.0f)
        memset(row, 0, dim * sizeof *row);
    else if (factor != 1.0f)
        kernels->scale_f32(row, factor, dim);
}

/* n rows from r on, which see the same keys of a block. `next` is read after the values. */
static void add_rows(const struct tile *t, const struct work *w, const struct state *s, size_t r, size_t n,
                     struct range keys, const pn_kv_runs *runs, const void *next) {
    float *scores = w->scores + r * KEYS, *acc = s->acc + r * t->dim;
    w->kernels->attn_softmax(scores, n, keys.begin, keys.end, s->max + r, s->sum + r, w->shrink);
    for (size_t i = 0; i < n; i++)
        scale_row(w->kernels, acc + i * t->dim, t->dim, w->shrink[i]);
    size_t n_key = keys.end - keys.begin;
    if (runs->value_type == PN_KV_F16)
        w->kernels->attn_mix_f16(scores + keys.begin, n, (const uint16_t *)runs->values + keys.begin * t->dim,
                                 n_key, t->dim, acc, next);
    else if (runs->value_type == PN_KV_F32)
        w->kernels->attn_mix_f32(scores + keys.begin, n, (const float *)runs->values + keys.begin * t->dim,
                                 n_key, t->dim, acc, next);
    else
        w->kernels->attn_mix_coded(scores, n, runs->values, pn_kv_code_bits(runs->value_type), keys.begin,
                                   n_key, t->dim, acc, next);
}

/* As the queries of the tile, which are all of one block, see them. */
static pn_kv_runs runs_of(const struct tile *t, int kv_head, size_t block) {
    const pn_attention_job *job = t->job;
    return pn_kv_runs_of(job->kv, job->layer, kv_head, block, (job->position + t->first) / KEYS);
}

/* The keys that are read after a block: of the next one, or of the next head's first. */
static const void *keys_after(const struct tile *t, int kv_head, size_t block) {
    if (block + 1 < t->end) return runs_of(t, kv_head, block + 1).keys;
    return kv_head + 1 < t->job->kv->store->shape.n_head_kv ? runs_of(t, kv_head + 1, t->begin).keys : NULL;
}

static void add_block(const struct tile *t, const struct work *w, const struct state *s, int kv_head,
                      size_t block) {
    const pn_kv_runs runs = runs_of(t, kv_head, block);
    const void *next = keys_after(t, kv_head, block);
    if (runs.key_type == PN_KV_F16)
        w->kernels->attn_scores_f16(w->q, t->n_row, runs.keys, t->dim, w->scores, runs.values);
    else if (runs.key_type == PN_KV_F32)
        w->kernels->attn_scores_f32(w->q, t->n_row, runs.keys, t->dim, w->scores, runs.values);
    else
        w->kernels->attn_scores_coded(w->q, t->n_row, runs.keys, pn_kv_code_bits(runs.key_type), t->dim,
                                      w->scores, runs.values);
    struct range first = visible_keys(t, 0, block), last = visible_keys(t, t->n_tok - 1, block);
    if (first.begin == last.begin && first.end == last.end) {
        add_rows(t, w, s, 0, t->n_row, first, &runs, next);
        return;
    }
    for (size_t token = 0; token < t->n_tok; token++) {
        struct range own = visible_keys(t, token, block);
        if (own.begin < own.end) add_rows(t, w, s, token * t->group, t->group, own, &runs, next);
    }
}

static void add_segment(const struct tile *t, const struct work *w, const struct state *s, int kv_head,
                        size_t segment) {
    size_t from, to;
    segment_range(t, segment, &from, &to);
    for (size_t r = 0; r < t->n_row; r++) {
        s->max[r] = -INFINITY;
        s->sum[r] = 0.0f;
    }
    for (size_t block = from; block < to; block++)
        add_block(t, w, s, kv_head, block);
}

/* ---- merging ---- */

static void begin_total(const struct tile *t, const struct work *w) {
    for (size_t r = 0; r < t->n_row; r++) {
        w->total.max[r] = -FLT_MAX; /* finite: a row may see nothing of a tile's first segments */
        w->total.sum[r] = w->unused[r] = 0.0f;
    }
}

/* The part's weight beside the total is what a softmax over its maximum alone makes of it. */
static void merge(const struct tile *t, const struct work *w, const struct state *part, int kv_head) {
    float *weight = w->scores;
    for (size_t r = 0; r < t->n_row; r++)
        weight[r * KEYS] = part->max[r];
    w->kernels->attn_softmax(weight, t->n_row, 0, 1, w->total.max, w->unused, w->shrink);
    for (size_t r = 0; r < t->n_row; r++, weight += KEYS) {
        if (*weight == 0.0f) continue;
        float *total = row_of(t, t->job->out, kv_head, r);
        scale_row(w->kernels, total, t->dim, w->shrink[r]);
        w->total.sum[r] = w->total.sum[r] * w->shrink[r] + *weight * part->sum[r];
        w->kernels->attn_mix_f32(weight, 1, part->acc + r * t->dim, 1, t->dim, total, NULL);
    }
}

static void end_total(const struct tile *t, const struct work *w, int kv_head) {
    for (size_t r = 0; r < t->n_row; r++)
        w->kernels->scale_f32(row_of(t, t->job->out, kv_head, r), 1.0f / w->total.sum[r], t->dim);
}

/* ---- a few tokens: the segments of all KV heads are spread over the workers ---- */

struct spread {
    const pn_ops *ops;
    struct tile tile;
};

size_t pn_ops_partial_floats(size_t n_head, size_t head_dim) {
    return PN_FEW_TOKENS * n_head * MAX_TOUCHED * (head_dim + 2);
}

static struct state partial(const struct spread *s, size_t kv_head, size_t segment) {
    size_t n_row = s->tile.n_row;
    float *at = s->ops->partials + (kv_head * MAX_TOUCHED + segment) * n_row * (s->tile.dim + 2);
    return (struct state){.acc = at + 2 * n_row, .max = at, .sum = at + n_row};
}

/* The unit of dealing is a block of one KV head; a segment belongs to whom its middle block is dealt. */
static void do_blocks(void *arg, size_t begin, size_t end, int worker) {
    const struct spread *s = arg;
    const struct tile *t = &s->tile;
    size_t n_block = t->end - t->begin;
    struct work w = work_of(s->ops, worker, t->group, t->dim);
    for (size_t kv_head = begin / n_block; kv_head * n_block < end; kv_head++) {
        scale_queries(t, &w, (int)kv_head);
        for (size_t i = 0; i < n_segments(t); i++) {
            size_t from, to;
            segment_range(t, i, &from, &to);
            size_t middle = kv_head * n_block + (from + to) / 2 - t->begin;
            struct state part = partial(s, kv_head, i);
            if (begin <= middle && middle < end) add_segment(t, &w, &part, (int)kv_head, i);
        }
    }
}

/* On the calling thread: waking the others would cost more. */
static void merge_segments(const struct spread *s, size_t n_head_kv) {
    struct work w = work_of(s->ops, 0, s->tile.group, s->tile.dim);
    for (size_t kv_head = 0; kv_head < n_head_kv; kv_head++) {
        begin_total(&s->tile, &w);
        for (size_t i = 0; i < n_segments(&s->tile); i++) {
            struct state part = partial(s, kv_head, i);
            merge(&s->tile, &w, &part, (int)kv_head);
        }
        end_total(&s->tile, &w, (int)kv_head);
    }
}

static void few_tokens(const pn_ops *ops, const pn_attention_job *job, size_t tokens) {
    size_t n_head_kv = (size_t)job->kv->store->shape.n_head_kv;
    for (size_t i = 0; i < n_tiles(job, tokens); i++) {
        struct spread s = {.ops = ops, .tile = tile_at(job, tokens, i)};
        pn_ops_run(ops, do_blocks, &s, n_head_kv * (s.tile.end - s.tile.begin), 1);
        merge_segments(&s, n_head_kv);
    }
}

/* ---- many tokens: each worker takes whole tiles ---- */

struct tiles {
    const pn_ops *ops;
    const pn_attention_job *job;
    size_t tokens, n;
};

/* Later tokens see more keys. Taking tiles alternately from the front and the back gives every contiguous
   share of them about the same work. */
static size_t balanced(size_t i, size_t n) {
    return i % 2 == 0 ? i / 2 : n - 1 - i / 2;
}

/* A unit is a tile of one KV head; all tiles of a head one after the other, while its keys are in cache. */
static void do_tiles(void *arg, size_t begin, size_t end, int worker) {
    const struct tiles *a = arg;
    for (size_t unit = begin; unit < end; unit++) {
        struct tile t = tile_at(a->job, a->tokens, balanced(unit % a->n, a->n));
        struct work w = work_of(a->ops, worker, t.group, t.dim);
        int kv_head = (int)(unit / a->n);
        scale_queries(&t, &w, kv_head);
        begin_total(&t, &w);
        for (size_t i = 0; i < n_segments(&t); i++) {
            add_segment(&t, &w, &w.part, kv_head, i);
            merge(&t, &w, &w.part, kv_head);
        }
        end_total(&t, &w, kv_head);
    }
}

/* Smaller tiles where there would be too few to share out; the bits are the same. */
static size_t shared_tile_tokens(const pn_ops *ops, const pn_attention_job *job, size_t tokens) {
    size_t wanted = 2 * (size_t)(ops->n_threads ? ops->n_threads : pn_pool_threads(ops->pool));
    while (tokens > 1 && n_tiles(job, tokens) * (size_t)job->kv->store->shape.n_head_kv < wanted)
        tokens /= 2;
    return tokens;
}

void pn_ops_attention(const pn_ops *ops, const pn_attention_job *job) {
    size_t tokens = tile_tokens((size_t)job->n_head / (size_t)job->kv->store->shape.n_head_kv);
    if (job->n_tok <= PN_FEW_TOKENS) {
        few_tokens(ops, job, tokens);
        return;
    }
    tokens = shared_tile_tokens(ops, job, tokens);
    struct tiles a = {.ops = ops, .job = job, .tokens = tokens, .n = n_tiles(job, tokens)};
    pn_ops_run(ops, do_tiles, &a, a.n * (size_t)job->kv->store->shape.n_head_kv, 1);
}
