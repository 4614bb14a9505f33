/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/few.h"

/* Products of unsigned codes and one plane are added four at a time in 32 bits: there is nothing to overflow.
 */
PN_AVX2_INLINE void multiply(pn_panel_format f, const uint8_t *step, size_t from, size_t to,
                             const int8_t *const *x, size_t n_plane, size_t n_tok, __m256i (*sums)[2]) {
    __m256i high[2][2];
    for (size_t t = 0; t < n_tok; t++)
        high[t][0] = high[t][1] = _mm256_setzero_si256();
    PN_UNROLL
    for (size_t v = from; v < to; v++) {
        const __m256i w0 = pn_unsigned_codes(f, step, v, 0), w1 = pn_unsigned_codes(f, step, v, 1);
        for (size_t t = 0; t < n_tok; t++) {
            const __m256i low4 = pn_broadcast_4(x[t * n_plane] + 4 * v);
            sums[t][0] = _mm256_dpbusd_avx_epi32(sums[t][0], w0, low4);
            sums[t][1] = _mm256_dpbusd_avx_epi32(sums[t][1], w1, low4);
            if (n_plane == 1) continue;
            const __m256i high4 = pn_broadcast_4(x[t * n_plane + 1] + 4 * v);
            high[t][0] = _mm256_dpbusd_avx_epi32(high[t][0], w0, high4);
            high[t][1] = _mm256_dpbusd_avx_epi32(high[t][1], w1, high4);
        }
    }
    for (size_t t = 0; t < n_tok && n_plane == 2; t++)
        for (size_t half = 0; half < 2; half++)
            sums[t][half] = _mm256_add_epi32(sums[t][half], _mm256_slli_epi32(high[t][half], 8));
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_few_##name##_avxvnni(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,         \
                                 const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {          \
        const pn_panel_format f = {__VA_ARGS__};                                                             \
        if (inputs->n_plane == 2)                                                                            \
            pn_few(f, multiply, 2, panels, n_panel, shape, inputs, first, n_tok, out);                       \
        else                                                                                                 \
            pn_few(f, multiply, 1, panels, n_panel, shape, inputs, first, n_tok, out);                       \
    }
#include "quant/panels.inc"
#undef PN_PANEL
