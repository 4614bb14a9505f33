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

/* n tokens; the products of `run` vectors fit a lane of 16 bits. */
PN_AVX2_INLINE void bytes_tile(const pn_chunk *c, size_t group, size_t run, size_t n_plane,
                               const pn_tile_inputs *x, size_t n, float (*acc)[PN_PANEL_ROWS]) {
    const size_t groups = PN_STEP / group, n_stream = n * n_plane;
    const int8_t *codes[4];
    for (size_t i = 0; i < n_stream; i++)
        codes[i] = x->codes + i / n_plane * x->token_stride + i % n_plane * x->plane_stride;
    for (size_t g = 0; g < c->n_step * groups; g++) {
        const size_t s = g / groups, from = g % groups * (group / 4);
        __m256i part[4][2], sums[PN_TILE][2];
        PN_UNROLL
        for (size_t v = 0; v < group / 4; v++) {
            const __m256i w0 = c->codes[s * 16 + 2 * (from + v)], w1 = c->codes[s * 16 + 2 * (from + v) + 1];
            const bool first = v % run == 0, last = (v + 1) % run == 0;
            for (size_t i = 0; i < n_stream; i++) {
                const __m256i x4 = pn_broadcast_4(codes[i] + s * PN_STEP + 4 * (from + v));
                const __m256i p0 = _mm256_maddubs_epi16(w0, x4), p1 = _mm256_maddubs_epi16(w1, x4);
                part[i][0] = first ? p0 : _mm256_add_epi16(part[i][0], p0);
                part[i][1] = first ? p1 : _mm256_add_epi16(part[i][1], p1);
                pn_pin(&part[i][0]);
                pn_pin(&part[i][1]);
            }
            for (size_t i = 0; i < n_stream && last; i++) {
                const size_t t = i / n_plane, plane = i % n_plane;
                const __m256i factor = _mm256_set1_epi16(plane == 0 ? 1 : 256);
                for (size_t half = 0; half < 2; half++) {
                    const __m256i wide = _mm256_madd_epi16(part[i][half], factor);
                    const bool begin = v + 1 == run && plane == 0;
                    sums[t][half] =
                        _mm256_add_epi32(begin ? pn_broadcast_4(&x->bias[t][g]) : sums[t][half], wide);
                    pn_pin(&sums[t][half]);
                }
            }
        }
        pn_add_group(c, x, s, g, n, sums, acc);
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

PN_AVX2_INLINE void pairs_tile(const pn_chunk *c, size_t group, size_t n_plane, const pn_tile_inputs *x,
                               size_t n, float (*acc)[PN_PANEL_ROWS]) {
    const size_t groups = PN_STEP / group;
    int32_t pairs[PN_TILE][PN_CHUNK][16];
    for (size_t t = 0; t < n; t++) {
        const int8_t *low = x->codes + t * x->token_stride,
                     *high = n_plane == 2 ? low + x->plane_stride : NULL;
        for (size_t s = 0; s < c->n_step; s++)
            pn_widen_inputs(low + s * PN_STEP, high ? high + s * PN_STEP : NULL, pairs[t][s]);
    }
    for (size_t g = 0; g < c->n_step * groups; g++) {
        const size_t s = g / groups, from = g % groups * (group / 4);
        __m256i sums[PN_TILE][2];
        for (size_t t = 0; t < n; t++)
            sums[t][0] = sums[t][1] = _mm256_setzero_si256();
        PN_UNROLL
        for (size_t j = 0; j < group / 2; j++) { /* even and odd in turn */
            const size_t v = from + j / 2;
            const __m256i w0 = c->codes[s * 32 + from * 4 + 2 * j],
                          w1 = c->codes[s * 32 + from * 4 + 2 * j + 1];
            for (size_t t = 0; t < n; t++) {
                const __m256i x2 = pn_broadcast_4(&pairs[t][s][v + j % 2 * 8]);
                sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(w0, x2));
                sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(w1, x2));
                pn_pin(&sums[t][0]);
                pn_pin(&sums[t][1]);
            }
        }
        pn_add_group(c, x, s, g, n, sums, acc);
    }
}

/* ---- choice ---- */

#define TILE_OF(name, n, tile, ...)                                                                          \
    static void name##_##n(const pn_chunk *c, const pn_tile_inputs *x, float(*acc)[PN_PANEL_ROWS]) {         \
        tile(c, __VA_ARGS__, x, n, acc);                                                                     \
    }
#define BYTES(name, group, run)                                                                              \
    TILE_OF(name##_1, 1, bytes_tile, group, run, 1)                                                          \
    TILE_OF(name##_1, 2, bytes_tile, group, run, 1)                                                          \
    TILE_OF(name##_1, 3, bytes_tile, group, run, 1)                                                          \
    TILE_OF(name##_1, 4, bytes_tile, group, run, 1)                                                          \
    TILE_OF(name##_2, 1, bytes_tile, group, run, 2)                                                          \
    TILE_OF(name##_2, 2, bytes_tile, group, run, 2)                                                          \
    static const pn_tile_fn name[2][PN_TILE] = {{name##_1_1, name##_1_2, name##_1_3, name##_1_4},            \
                                                {name##_2_1, name##_2_2}};
#define PAIRS(name, group, n_plane)                                                                          \
    TILE_OF(name##_##n_plane, 1, pairs_tile, group, n_plane)                                                 \
    TILE_OF(name##_##n_plane, 2, pairs_tile, group, n_plane)                                                 \
    TILE_OF(name##_##n_plane, 3, pairs_tile, group, n_plane)                                                 \
    TILE_OF(name##_##n_plane, 4, pairs_tile, group, n_plane)
BYTES(bytes_32_of_4_bits, 32, 8)
BYTES(bytes_32_of_5_bits, 32, 4)
BYTES(bytes_16_of_5_bits, 16, 4)
BYTES(bytes_16_of_6_bits, 16, 2)
PAIRS(pairs_32, 32, 1)
PAIRS(pairs_32, 32, 2)
PAIRS(pairs_16, 16, 1)
PAIRS(pairs_16, 16, 2)
static const pn_tile_fn pairs_32[2][PN_TILE] = {{pairs_32_1_1, pairs_32_1_2, pairs_32_1_3, pairs_32_1_4},
                                                {pairs_32_2_1, pairs_32_2_2, pairs_32_2_3, pairs_32_2_4}};
static const pn_tile_fn pairs_16[2][PN_TILE] = {{pairs_16_1_1, pairs_16_1_2, pairs_16_1_3, pairs_16_1_4},
                                                {pairs_16_2_1, pairs_16_2_2, pairs_16_2_3, pairs_16_2_4}};

/* NULL where pairs are faster, or the only way. */
static const pn_tile_fn (*tiles_of_bytes(const pn_codes *w, int n_plane))[PN_TILE] {
    if (w->bits > (n_plane == 2 ? 4 : w->group == PN_STEP ? 5 : 6)) return NULL;
    if (w->group == PN_STEP) return w->bits <= 4 ? bytes_32_of_4_bits : bytes_32_of_5_bits;
    return w->bits <= 5 ? bytes_16_of_5_bits : bytes_16_of_6_bits;
}

void pn_matmul_codes_avx2(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                          size_t n_tok, float *out, size_t out_stride) {
    const size_t n_plane = (size_t)inputs->n_plane;
    const pn_tile_fn(*of)[PN_TILE] = tiles_of_bytes(w, inputs->n_plane);
    pn_tiles tiles = {load_unsigned, w->least, PN_TILE / n_plane, {0}};
    if (!of) {
        tiles = (pn_tiles){load_pairs, 0, PN_TILE, {0}};
        of = w->group == PN_STEP ? pairs_32 : pairs_16;
    }
    memcpy(tiles.of, of[n_plane - 1], sizeof tiles.of);
    pn_matmul_tiles_avx2(&tiles, w, n_row, inputs, first, n_tok, out, out_stride);
}
