/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/tile.h"

/* Codes plus 128: [step][vector][half]. */
static void load_unsigned(const pn_codes *w, size_t step, size_t n_step, __m256i *codes) {
    const int8_t *src = w->codes + step * PN_STEP * PN_PANEL_ROWS;
    for (size_t i = 0; i < n_step * 16; i++)
        codes[i] = _mm256_xor_si256(pn_load_32(src + 32 * i), _mm256_set1_epi8(-128));
}

/* Adds the products of vectors of one plane, x being the first token's codes that meet them. */
PN_AVX2_INLINE void multiply_plane(const __m256i *w, const int8_t *x, size_t token_stride, size_t n_vector,
                                   size_t n, __m256i (*sums)[2]) {
    PN_UNROLL
    for (size_t v = 0; v < n_vector; v++) {
        const __m256i w0 = w[2 * v], w1 = w[2 * v + 1];
        for (size_t t = 0; t < n; t++) {
            const __m256i x4 = pn_broadcast_4(x + t * token_stride + 4 * v);
            sums[t][0] = _mm256_dpbusd_avx_epi32(sums[t][0], w0, x4);
            sums[t][1] = _mm256_dpbusd_avx_epi32(sums[t][1], w1, x4);
            pn_pin(&sums[t][0]);
            pn_pin(&sums[t][1]);
        }
    }
}

PN_AVX2_INLINE void tile(const pn_chunk *c, size_t group, size_t n_plane, const pn_tile_inputs *x, size_t n,
                         float (*acc)[PN_PANEL_ROWS]) {
    const size_t groups = PN_STEP / group;
    for (size_t i = 0; i < c->n_step * groups; i++) {
        const __m256i *w = c->codes + i * group / 2;
        const int8_t *codes = x->codes + i * group;
        __m256i sums[PN_TILE][2];
        for (size_t t = 0; t < n; t++)
            sums[t][0] = sums[t][1] = n_plane == 2 ? _mm256_setzero_si256() : pn_broadcast_4(&x->bias[t][i]);
        if (n_plane == 2) {
            multiply_plane(w, codes + x->plane_stride, x->token_stride, group / 4, n, sums);
            for (size_t t = 0; t < n; t++)
                for (size_t half = 0; half < 2; half++)
                    sums[t][half] =
                        _mm256_add_epi32(_mm256_slli_epi32(sums[t][half], 8), pn_broadcast_4(&x->bias[t][i]));
        }
        multiply_plane(w, codes, x->token_stride, group / 4, n, sums);
        pn_add_group(c, x, i / groups, i, n, sums, acc);
    }
}

#define TILE(name, group, n_plane, n)                                                                        \
    static void name##_##n(const pn_chunk *c, const pn_tile_inputs *x, float(*acc)[PN_PANEL_ROWS]) {         \
        tile(c, group, n_plane, x, n, acc);                                                                  \
    }
#define TILES(name, group, n_plane)                                                                          \
    TILE(name, group, n_plane, 1)                                                                            \
    TILE(name, group, n_plane, 2)                                                                            \
    TILE(name, group, n_plane, 3)                                                                            \
    TILE(name, group, n_plane, 4)                                                                            \
    static const pn_tiles name = {load_unsigned, 128, PN_TILE, {name##_1, name##_2, name##_3, name##_4}};
TILES(tiles_16_1, 16, 1)
TILES(tiles_16_2, 16, 2)
TILES(tiles_32_1, 32, 1)
TILES(tiles_32_2, 32, 2)

void pn_matmul_codes_avxvnni(const pn_codes *w, size_t n_row, const pn_inputs *inputs, size_t first,
                             size_t n_tok, float *out, size_t out_stride) {
    const pn_tiles *one = w->group == PN_STEP ? &tiles_32_1 : &tiles_16_1;
    const pn_tiles *two = w->group == PN_STEP ? &tiles_32_2 : &tiles_16_2;
    pn_matmul_tiles_avx2(inputs->n_plane == 2 ? two : one, w, n_row, inputs, first, n_tok, out, out_stride);
}
