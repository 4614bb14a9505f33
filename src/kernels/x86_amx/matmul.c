/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacked panels times many tokens. One group of columns of 16 rows and 16 tokens is one product of tiles;
   its 256 sums go through memory to be scaled and added to 16 vectors of results, one per token.

   The products are the small part of the time. While tiles are in use only one port of the core multiplies
   and converts vectors of 512 bits, and storing a tile takes the other one for 16 cycles. So a conversion
   gives way to a subtraction and a shift to a shuffle, which that other port does; and products run ahead of
   the scaling, by some groups and on to the next tokens, so that neither ever waits for the other. */
#include "kernels/x86_amx/tiles.h"
#include "kernels/x86_avx512/avx512.h"

enum {
    TOKENS = PN_TILE_ROWS,
    LANES = PN_PANEL_ROWS,
    SUMS = TOKENS * LANES, /* of a product */
    RING = 4,              /* products under way */
    BLOCK = 32,            /* groups whose codes stay in the first-level cache for all tokens */
    APART = BLOCK + 1,     /* odd: the tokens' numbers shall not compete for few lines of the cache */
    LEAST_TOKENS = 4       /* that are worth a tile */
};

/* A block of columns times n_tile tiles of `tokens` tokens each. */
typedef struct job {
    const pn_inputs *x;
    const int8_t *inputs, *last_inputs; /* of the first tile and of the last one */
    const int8_t *codes, *codes_end;
    const float *scale, *offset; /* [n_group][16] */
    size_t group, n_group;       /* columns of a group; groups of the block */
    size_t plane, stride;        /* bytes from plane to plane and from token to token of inputs */
    size_t first, step;          /* the inputs' token and step that the block begins with */
    size_t tokens, n_tile;
    float *out;
    size_t out_stride;
    __mmask16 rows, started; /* those of out to write, and those of them that hold a result to go on from */
} job;

/* Constants wherever they are used. */
typedef struct shape {
    int n_plane;
    bool offset;
} shape;

/* What goes with the sums of a tile's tokens, by group. */
typedef struct numbers {
    _Alignas(64) float scale[TOKENS][APART], sum[TOKENS][APART];
} numbers;

/* ---- numbers ---- */

PN_AVX512_INLINE __mmask16 first_lanes(size_t n) {
    return n < LANES ? pn_tail_mask(n) : 0xffff;
}

/* Of the groups of one token; `at` is the first step's place in the arrays of x. */
static void gather_steps(const pn_inputs *x, size_t at, size_t n, bool offset, float *scale, float *sum) {
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = first_lanes(n - i);
        _mm512_mask_storeu_ps(scale + i, mask, _mm512_maskz_loadu_ps(mask, x->scale + at + i));
        if (offset) _mm512_mask_storeu_ps(sum + i, mask, _mm512_maskz_loadu_ps(mask, x->sum + at + i));
    }
}

static void gather_halves(const pn_inputs *x, size_t at, size_t n, bool offset, float *scale, float *sum) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = first_lanes(n - i);
        const __m512 steps = _mm512_maskz_loadu_ps(first_lanes((n - i) / 2) & 0xff, x->scale + at + i / 2);
        const __m512 scales = _mm512_permutexvar_ps(twice, steps);
        _mm512_mask_storeu_ps(scale + i, mask, scales);
        if (!offset) continue;
        const __m512i times = _mm512_maskz_loadu_epi32(mask, x->half + 2 * at + i); /* the sum times -128 */
        const __m512i sums = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_srai_epi32(times, 7));
        _mm512_mask_storeu_ps(sum + i, mask, _mm512_mul_ps(scales, _mm512_cvtepi32_ps(sums)));
    }
}

static void gather(const job *j, size_t tile, bool offset, numbers *to) {
    for (size_t t = 0; t < j->tokens; t++) {
        const size_t at = (j->first + tile * TOKENS + t) * j->x->n_step + j->step;
        if (j->group == PN_STEP)
            gather_steps(j->x, at, j->n_group, offset, to->scale[t], to->sum[t]);
        else
            gather_halves(j->x, at, j->n_group, offset, to->scale[t], to->sum[t]);
    }
}

/* ---- scaling ---- */

/* All loops over tokens are unrolled, lest the results leave the registers. */
#define EACH_TOKEN _Pragma("GCC unroll 16") for (size_t t = 0; t < TOKENS; t++)

PN_AVX512_INLINE void read_results(const job *j, size_t tile, __m512 *results) {
    const float *out = j->out + tile * TOKENS * j->out_stride;
    EACH_TOKEN
    results[t] =
        t < j->tokens ? _mm512_maskz_loadu_ps(j->started, out + t * j->out_stride) : _mm512_setzero_ps();
}

PN_AVX512_INLINE void write_results(const job *j, size_t tile, const __m512 *results) {
    float *out = j->out + tile * TOKENS * j->out_stride;
    EACH_TOKEN
    if (t < j->tokens) _mm512_mask_storeu_ps(out + t * j->out_stride, j->rows, results[t]);
}

/* With one plane the sums start as the bits of 1.5 * 2^23, the float whose last bit counts 1: below 2^22 they
   are that much too large as floats, and exact. */
#define FLOAT_START 0x1.8p23f
#define START       0x4b400000
static const _Alignas(64) int32_t starts[LANES] = {START, START, START, START, START, START, START, START,
                                                   START, START, START, START, START, START, START, START};

PN_AVX512_INLINE __m512 sum_of_token(int n_plane, const int32_t *sums) {
    const __m512i low = _mm512_load_si512(sums);
    if (n_plane == 1) return _mm512_sub_ps(_mm512_castsi512_ps(low), _mm512_set1_ps(FLOAT_START));
    const __m512i one_byte_up = _mm512_set4_epi32(0x0e0d0cff, 0x0a0908ff, 0x060504ff, 0x020100ff);
    const __m512i high = _mm512_shuffle_epi8(_mm512_load_si512(sums + SUMS), one_byte_up);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(high, low));
}

PN_AVX512_INLINE void add_group(const shape k, const job *j, size_t group, const int32_t *sums,
                                const numbers *x, __m512 *results) {
    const float *x_scale = x->scale[0] + group, *x_sum = x->sum[0] + group;
    __asm__("" : "+r"(x_scale), "+r"(x_sum)); /* two addresses: compilers would rather have two per token */
    const __m512 scale = _mm512_load_ps(j->scale + group * LANES);
    const __m512 offset = k.offset ? _mm512_load_ps(j->offset + group * LANES) : _mm512_setzero_ps();
    EACH_TOKEN {
        const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x_scale[t * APART]));
        results[t] = _mm512_fmadd_ps(sum_of_token(k.n_plane, sums + t * LANES), both, results[t]);
        if (k.offset) results[t] = _mm512_fmadd_ps(offset, _mm512_set1_ps(x_sum[t * APART]), results[t]);
    }
}

/* ---- products ---- */

/* Where the operands of the next one are. */
typedef struct product {
    const int8_t *tile, *inputs, *codes;
} product;

/* After the last one of a tile of tokens come the next tile's, and after all, the last tile's again. */
PN_AVX512_INLINE void advance(const job *j, product *next) {
    next->inputs += j->group;
    next->codes += j->group * LANES;
    if (next->codes != j->codes_end) return;
    next->codes = j->codes;
    if (next->tile != j->last_inputs) next->tile += TOKENS * j->stride;
    next->inputs = next->tile;
}

/* Tiles are named by literals: 0 to 3 are the ring of sums, 4 and 5 inputs, 6 and 7 codes. A step multiplies
   the next group, and stores sums whose products were begun two steps, or one of two planes, ago. */
#define STORE(tile) _tile_stored(tile, sums + (tile)*SUMS, PN_TILE_ROW_BYTES)
#define STEP_OF_ONE(tile, in, code, done)                                                                    \
    _tile_loadd(tile, starts, 0);                                                                            \
    _tile_loadd(in, next.inputs, j->stride);                                                                 \
    _tile_loadd(code, next.codes, PN_TILE_ROW_BYTES);                                                        \
    _tile_dpbssd(tile, in, code);                                                                            \
    STORE(done);                                                                                             \
    advance(j, &next)
#define STEP_OF_TWO(low, high, code, done_low, done_high)                                                    \
    _tile_loadd(code, next.codes, PN_TILE_ROW_BYTES);                                                        \
    _tile_zero(low);                                                                                         \
    _tile_loadd(4, next.inputs, j->stride);                                                                  \
    _tile_dpbssd(low, 4, code);                                                                              \
    STORE(done_low);                                                                                         \
    _tile_zero(high);                                                                                        \
    _tile_loadd(5, next.inputs + j->plane, j->stride);                                                       \
    _tile_dpbssd(high, 5, code);                                                                             \
    STORE(done_high);                                                                                        \
    advance(j, &next)
/* Scales the sums that began in `tile`. */
#define ADD(tile)                                                                                            \
    add_group(k, j, group, sums + (tile)*SUMS, &x, results);                                                 \
    if (++group == j->n_group) {                                                                             \
        write_results(j, n_done, results);                                                                   \
        if (++n_done == j->n_tile) return;                                                                   \
        gather(j, n_done, k.offset, &x);                                                                     \
        read_results(j, n_done, results);                                                                    \
        group = 0;                                                                                           \
    }

PN_AVX512_INLINE void multiply(const shape k, const job *j) {
    _Alignas(64) int32_t sums[RING * SUMS];
    numbers x;
    __m512 results[TOKENS];
    product next = {j->inputs, j->inputs, j->codes};
    size_t n_done = 0, group = 0;
    if (j->tokens < TOKENS) { /* what the missing tokens have shall be harmless */
        memset(sums, 0, sizeof sums);
        memset(&x, 0, sizeof x);
    }
    gather(j, 0, k.offset, &x);
    read_results(j, 0, results);
    _tile_zero(2);
    _tile_zero(3);
    if (k.n_plane == 1) {
        STEP_OF_ONE(0, 4, 6, 2);
        STEP_OF_ONE(1, 5, 7, 3);
        STEP_OF_ONE(2, 4, 6, 0);
        STEP_OF_ONE(3, 5, 7, 1);
        for (;;) {
            STEP_OF_ONE(0, 4, 6, 2);
            ADD(0)
            STEP_OF_ONE(1, 5, 7, 3);
            ADD(1)
            STEP_OF_ONE(2, 4, 6, 0);
            ADD(2)
            STEP_OF_ONE(3, 5, 7, 1);
            ADD(3)
        }
    } else {
        STEP_OF_TWO(0, 1, 6, 2, 3);
        STEP_OF_TWO(2, 3, 7, 0, 1);
        for (;;) {
            STEP_OF_TWO(0, 1, 6, 2, 3);
            ADD(0)
            STEP_OF_TWO(2, 3, 7, 0, 1);
            ADD(2)
        }
    }
}

static void multiply_block(const job *j) {
    if (j->x->n_plane == 1 && !j->offset) multiply((shape){1, false}, j);
    if (j->x->n_plane == 1 && j->offset) multiply((shape){1, true}, j);
    if (j->x->n_plane == 2 && !j->offset) multiply((shape){2, false}, j);
    if (j->x->n_plane == 2 && j->offset) multiply((shape){2, true}, j);
}

/* ---- blocks ---- */

static void set_tiles(size_t tokens, size_t group) {
    pn_tile_shapes shapes = {.palette = 1};
    for (size_t tile = 0; tile < 8; tile++) {
        shapes.rows[tile] = (uint8_t)(tile < 6 ? tokens : group / 4);
        shapes.row_bytes[tile] = (uint16_t)(tile == 4 || tile == 5 ? group : PN_TILE_ROW_BYTES);
    }
    pn_tiles_set(&shapes);
}

/* Tiles of `tokens` tokens: `first` to `first` + tokens * n_tile. */
static void multiply_tiles(const pn_codes *w, size_t n_row, const pn_inputs *x, size_t first, size_t tokens,
                           size_t n_tile, float *out, size_t out_stride) {
    const size_t group = (size_t)w->group, n_group = w->n_step * PN_STEP / group;
    const size_t n_block = (n_group + BLOCK - 1) / BLOCK;
    const size_t even = ((n_group + n_block - 1) / n_block + 1) / 2 * 2; /* whole steps */
    const size_t plane = x->n_step * PN_STEP, stride = plane * (size_t)x->n_plane;
    set_tiles(tokens, group);
    for (size_t g = 0; g < n_group; g += even) {
        const size_t n = n_group - g < even ? n_group - g : even;
        const int8_t *inputs = x->codes + first * stride + g * group;
        const int8_t *codes = w->codes + g * group * LANES;
        const job j = {.x = x,
                       .inputs = inputs,
                       .last_inputs = inputs + (n_tile - 1) * TOKENS * stride,
                       .codes = codes,
                       .codes_end = codes + n * group * LANES,
                       .scale = w->scale + g * LANES,
                       .offset = w->offset ? w->offset + g * LANES : NULL,
                       .group = group,
                       .n_group = n,
                       .plane = plane,
                       .stride = stride,
                       .first = first,
                       .step = g * group / PN_STEP,
                       .tokens = tokens,
                       .n_tile = n_tile,
                       .out = out,
                       .out_stride = out_stride,
                       .rows = pn_tail_mask(n_row),
                       .started = g ? pn_tail_mask(n_row) : 0};
        multiply_block(&j);
    }
    _tile_release();
}

void pn_matmul_codes_amx(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first, size_t n_tok,
                         float *out, size_t out_stride) {
    size_t full = w->n_step ? n_tok / TOKENS : 0;
    if (full) multiply_tiles(w, n_row, inputs, first, TOKENS, full, out, out_stride);
    first += full * TOKENS;
    n_tok -= full * TOKENS;
    out += full * TOKENS * out_stride;
    if (n_tok >= LEAST_TOKENS && w->n_step)
        multiply_tiles(w, n_row, inputs, first, n_tok, 1, out, out_stride);
    else if (n_tok)
        pn_matmul_codes_avx512vnni(w, n_row, inputs, first, n_tok, out, out_stride);
}
