/* SPDX-License-Identifier: Apache-2.0 */
/* Two kinds of tiles:
     bytes: unsigned codes times inputs of 8 bits (vpmaddubsw), added in 16 bits as long as they fit;
     pairs: 16 bits times 16 bits (vpmaddwd), for inputs of 16 bits and for codes that need all 8. */
#include "kernels/x86_avx2/tile.h"
#include "kernels/x86_avx2/wide.h"

/* ---- bytes: codes [step][vector][half]; inputs of a step are its 8 times 4 bytes ---- */

static void load_unsigned(const pn_codes *w, size_t step, size_t n_step, __m256i *codes) {
    const int8_t *src = w->codes + step * PN_STEP * PN_PANEL_ROWS;
    const __m256i least = _mm256_set1_epi8((char)w->least);
    for (size_t i = 0; i < n_step * 16; i++)
        codes[i] = _mm256_add_epi8(pn_load_32(src + 32 * i), least);
}

static void load_bytes(const pn_inputs *inputs, size_t token, size_t step, size_t n_step,
                       int32_t (*codes)[16]) {
    const int8_t *src = pn_plane(inputs, token, 0, step);
    for (size_t s = 0; s < n_step; s++)
        memcpy(codes[s], src + s * PN_STEP, PN_STEP);
}

/* The products of `run` vectors fit a lane of 16 bits. */
PN_AVX2_INLINE void bytes_tile(const pn_chunk *c, size_t group, size_t run, const pn_tile_inputs *x, size_t n,
                               float (*acc)[PN_PANEL_ROWS]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const size_t groups = PN_STEP / group;
    for (size_t i = 0; i < c->n_step * groups; i++) {
        const size_t s = i / groups, from = i % groups * (group / 4);
        __m256i sums[PN_TILE][2];
        for (size_t t = 0; t < n; t++)
            sums[t][0] = sums[t][1] = pn_broadcast_4(&x->bias[t][i]);
        for (size_t begin = from; begin < from + group / 4; begin += run) {
            __m256i part[PN_TILE][2];
            for (size_t t = 0; t < n; t++)
                part[t][0] = part[t][1] = _mm256_setzero_si256();
            PN_UNROLL
            for (size_t v = begin; v < begin + run; v++) {
                const __m256i w0 = c->codes[s * 16 + 2 * v], w1 = c->codes[s * 16 + 2 * v + 1];
                for (size_t t = 0; t < n; t++) {
                    const __m256i x4 = pn_broadcast_4(&x->codes[t][s][v]);
                    part[t][0] = _mm256_add_epi16(part[t][0], _mm256_maddubs_epi16(w0, x4));
                    part[t][1] = _mm256_add_epi16(part[t][1], _mm256_maddubs_epi16(w1, x4));
                    pn_pin(&part[t][0]);
                    pn_pin(&part[t][1]);
                }
            }
            for (size_t t = 0; t < n; t++)
                for (size_t half = 0; half < 2; half++)
                    sums[t][half] = _mm256_add_epi32(sums[t][half], _mm256_madd_epi16(part[t][half], ones));
        }
        pn_add_group(c, x, s, i, n, sums, acc);
    }
}

/* ---- pairs: codes [step][vector][even, odd][half]; inputs of a step are as pn_widen_inputs says ---- */

static void load_pairs(const pn_codes *w, size_t step, size_t n_step, __m256i *codes) {
    const int8_t *src = w->codes + step * PN_STEP * PN_PANEL_ROWS;
    for (size_t i = 0; i < n_step * 16; i++) {
        __m256i bytes = pn_load_32(src + 32 * i), *dst = codes + i / 2 * 4 + i % 2;
        dst[0] = pn_even_bytes(bytes);
        dst[2] = pn_odd_bytes(bytes);
    }
}

static void load_wide(const pn_inputs *inputs, size_t token, size_t step, size_t n_step,
                      int32_t (*codes)[16]) {
    const int8_t *low = pn_plane(inputs, token, 0, step), *high = pn_plane(inputs, token, 1, step);
    for (size_t s = 0; s < n_step; s++)
        pn_widen_inputs(low + s * PN_STEP, inputs->n_plane == 2 ? high + s * PN_STEP : NULL, codes[s]);
}

PN_AVX2_INLINE void pairs_tile(const pn_chunk *c, size_t group, const pn_tile_inputs *x, size_t n,
                               float (*acc)[PN_PANEL_ROWS]) {
    const size_t groups = PN_STEP / group;
    for (size_t i = 0; i < c->n_step * groups; i++) {
        const size_t s = i / groups, from = i % groups * (group / 4);
        __m256i sums[PN_TILE][2];
        for (size_t t = 0; t < n; t++)
            sums[t][0] = sums[t][1] = _mm256_setzero_si256();
        PN_UNROLL
        for (size_t j = 0; j < group / 2; j++) { /* even and odd in turn */
            const size_t v = from + j / 2;
            const __m256i w0 = c->codes[s * 32 + from * 4 + 2 * j],
                          w1 = c->codes[s * 32 + from * 4 + 2 * j + 1];
            for (size_t t = 0; t < n; t++) {
                const __m256i x2 = pn_broadcast_4(&x->codes[t][s][v + j % 2 * 8]);
                sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(w0, x2));
                sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(w1, x2));
                pn_pin(&sums[t][0]);
                pn_pin(&sums[t][1]);
            }
        }
        pn_add_group(c, x, s, i, n, sums, acc);
    }
}

/* ---- choice ---- */

#define PAIRS_TILE(name, group, n)                                                                           \
    static void name##_##n(const pn_chunk *c, const pn_tile_inputs *x, float(*acc)[PN_PANEL_ROWS]) {         \
        pairs_tile(c, group, x, n, acc);                                                                     \
    }
#define BYTES_TILE(name, group, run, n)                                                                      \
    static void name##_##n(const pn_chunk *c, const pn_tile_inputs *x, float(*acc)[PN_PANEL_ROWS]) {         \
        bytes_tile(c, group, run, x, n, acc);                                                                \
    }
#define TILES(kind, name, ...)                                                                               \
    kind(name, __VA_ARGS__, 1) kind(name, __VA_ARGS__, 2) kind(name, __VA_ARGS__, 3)                         \
        kind(name, __VA_ARGS__, 4) static const pn_tile_fn name[PN_TILE] = {name##_1, name##_2, name##_3,    \
                                                                            name##_4};
TILES(PAIRS_TILE, pairs_32, 32)
TILES(PAIRS_TILE, pairs_16, 16)
TILES(BYTES_TILE, bytes_32_of_4_bits, 32, 8)
TILES(BYTES_TILE, bytes_32_of_5_bits, 32, 4)
TILES(BYTES_TILE, bytes_16_of_5_bits, 16, 4)
TILES(BYTES_TILE, bytes_16_of_6_bits, 16, 2)

/* NULL where codes are not multiplied as bytes. */
static const pn_tile_fn *tiles_of_bytes(const pn_codes *w) {
    if (w->group == PN_STEP)
        return w->bits <= 4 ? bytes_32_of_4_bits : w->bits == 5 ? bytes_32_of_5_bits : NULL;
    return w->bits <= 5 ? bytes_16_of_5_bits : w->bits == 6 ? bytes_16_of_6_bits : NULL;
}

void pn_matmul_codes_avx2(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                          size_t n_tok, float *out, size_t out_stride) {
    pn_tiles tiles = {0, load_pairs, load_wide, {0}};
    const pn_tile_fn *of = inputs->n_plane == 1 ? tiles_of_bytes(w) : NULL;
    if (of)
        tiles = (pn_tiles){w->least, load_unsigned, load_bytes, {0}};
    else
        of = w->group == PN_STEP ? pairs_32 : pairs_16;
    memcpy(tiles.of, of, sizeof tiles.of);
    pn_matmul_tiles_avx2(&tiles, w, n_row, inputs, first, n_tok, out, out_stride);
}
