/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/few.h"
#include "kernels/x86_avx2/wide.h"

/* How many vectors' products a lane of 16 bits holds: each is two codes times integers down to -128. */
PN_AVX2_INLINE size_t run_of(int bits) {
    return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}

/* Codes of up to 6 bits: products are added in 16 bits as long as they fit. */
PN_AVX2_INLINE void multiply_narrow(pn_panel_format f, const uint8_t *step, size_t from, size_t to,
                                    const int8_t *const *x, size_t n_plane, size_t n_tok,
                                    __m256i (*sums)[2]) {
    const size_t run = run_of(f.bits) < to - from ? run_of(f.bits) : to - from, n = n_tok * n_plane;
    __m256i part[4][2];
    PN_UNROLL
    for (size_t v = from; v < to; v++) {
        const __m256i w0 = pn_unsigned_codes(f, step, v, 0), w1 = pn_unsigned_codes(f, step, v, 1);
        const bool first = v % run == 0, last = (v + 1) % run == 0;
        for (size_t i = 0; i < n; i++) {
            const __m256i x4 = pn_broadcast_4(x[i] + 4 * v);
            const __m256i p0 = _mm256_maddubs_epi16(w0, x4), p1 = _mm256_maddubs_epi16(w1, x4);
            part[i][0] = first ? p0 : _mm256_add_epi16(part[i][0], p0);
            part[i][1] = first ? p1 : _mm256_add_epi16(part[i][1], p1);
            pn_pin(&part[i][0]);
            pn_pin(&part[i][1]);
        }
        for (size_t i = 0; i < n && last; i++) {
            const __m256i factor = _mm256_set1_epi16(i % n_plane == 0 ? 1 : 256);
            for (size_t half = 0; half < 2; half++)
                sums[i / n_plane][half] =
                    _mm256_add_epi32(sums[i / n_plane][half], _mm256_madd_epi16(part[i][half], factor));
        }
    }
}

/* Codes of 8 bits: products are of 16 bits with 16, even and odd columns apart. */
PN_AVX2_INLINE void multiply_wide(pn_panel_format f, const uint8_t *step, size_t from, size_t to,
                                  const int8_t *const *x, size_t n_plane, size_t n_tok, __m256i (*sums)[2]) {
    const __m256i even_bytes = _mm256_set1_epi16(255);
    int32_t pairs[2][16];
    for (size_t t = 0; t < n_tok; t++) {
        pn_widen_inputs(x[t * n_plane], n_plane == 2 ? x[t * n_plane + 1] : NULL, pairs[t]);
    }
    PN_UNROLL
    for (size_t v = from; v < to; v++) {
        for (size_t half = 0; half < 2; half++) {
            __m256i codes = pn_unsigned_codes(f, step, v, half);
            __m256i even = _mm256_and_si256(codes, even_bytes), odd = _mm256_srli_epi16(codes, 8);
            for (size_t t = 0; t < n_tok; t++) {
                __m256i e = _mm256_madd_epi16(even, _mm256_set1_epi32(pairs[t][v]));
                __m256i o = _mm256_madd_epi16(odd, _mm256_set1_epi32(pairs[t][8 + v]));
                sums[t][half] = _mm256_add_epi32(sums[t][half], e);
                sums[t][half] = _mm256_add_epi32(sums[t][half], o);
                pn_pin(&sums[t][half]);
            }
        }
    }
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_few_##name##_avx2(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,            \
                              const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {             \
        const pn_panel_format f = {__VA_ARGS__};                                                             \
        const pn_multiply_fn multiply = f.bits == 8 || f.codebook ? multiply_wide : multiply_narrow;         \
        if (inputs->n_plane == 2)                                                                            \
            pn_few(f, multiply, 2, panels, n_panel, shape, inputs, first, n_tok, out);                       \
        else                                                                                                 \
            pn_few(f, multiply, 1, panels, n_panel, shape, inputs, first, n_tok, out);                       \
    }
#include "quant/panels.inc"
#undef PN_PANEL
