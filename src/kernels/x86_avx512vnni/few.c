/* SPDX-License-Identifier: Apache-2.0 */
/* A few tokens against packed panels. A step is unpacked in registers, sixteen rows to a vector, and met by
   every token: a lane of an accumulator is a row. Codes stay unsigned, as the instruction wants them, and the
   sums start with what that adds too much. */
#include "kernels/x86_avx512/unpack.h"
#include "kernels/x86_avx512vnni/dot.h"

/* A step's integers of one token, and what goes with them, by half where groups have 16 columns. */
typedef struct step_input {
    const int8_t *low, *high;
    int32_t start[2];
    float scale, sum[2];
} step_input;

/* From -128 times a sum of integers. */
PN_AVX512_INLINE int32_t start_of(pn_panel_format f, int32_t bias) {
    return bias / 128 * pn_unpacked_zero(f);
}

PN_AVX512_INLINE step_input input_of(pn_panel_format f, const pn_inputs *x, size_t token, size_t step) {
    const size_t at = token * x->n_step + step;
    step_input in = {.scale = x->scale[at]};
    in.low = x->codes + (token * (size_t)x->n_plane * x->n_step + step) * PN_STEP;
    in.high = in.low + x->n_step * PN_STEP;
    if (f.group == PN_STEP) {
        in.start[0] = start_of(f, x->bias[at]);
        in.sum[0] = x->sum[at];
        return in;
    }
    for (size_t h = 0; h < 2; h++) {
        in.start[h] = start_of(f, x->half[2 * at + h]);
        in.sum[h] = in.scale * (float)(x->half[2 * at + h] / -128);
    }
    return in;
}

PN_AVX512_INLINE __m512i add_products(__m512i sum, const __m512i *codes, size_t n, const int8_t *x) {
    __asm__("" : "+r"(x)); /* one address, not one for every four columns */
    for (size_t v = 0; v < n; v++)
        sum = pn_dot_four(sum, codes[v], x + 4 * v);
    return sum;
}

/* Continues acc with group g of a step. */
PN_AVX512_INLINE __m512 add_group(pn_panel_format f, int n_plane, const __m512i *codes, __m512 scale,
                                  __m512 offset, const step_input *in, size_t g, __m512 acc) {
    const size_t column = g * f.group, n = f.group / 4;
    __m512i sum = _mm512_set1_epi32(in->start[g]);
    sum = add_products(sum, codes + column / 4, n, in->low + column);
    if (n_plane == 2) {
        __m512i high = add_products(_mm512_setzero_si512(), codes + column / 4, n, in->high + column);
        sum = _mm512_add_epi32(sum, _mm512_slli_epi32(high, 8));
    }
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scale, _mm512_set1_ps(in->scale)), acc);
    if (!f.min) return acc;
    if (pn_offset_is_negative(f)) return _mm512_fnmadd_ps(offset, _mm512_set1_ps(in->sum[g]), acc);
    return _mm512_fmadd_ps(offset, _mm512_set1_ps(in->sum[g]), acc);
}

/* Step s of a unit for all tokens: acc [n_tok]. */
PN_AVX512_INLINE void add_step(pn_panel_format f, int n_plane, const uint8_t *unit, const uint8_t *scales,
                               pn_unit_scales both, size_t s, const step_input *in, size_t n_tok,
                               __m512 *acc) {
    const size_t groups = (size_t)PN_STEP / f.group;
    __m512i codes[PN_STEP_VECTORS];
    pn_unpack_codes(f, unit + s * pn_panel_step_bytes(f), codes);
    for (size_t g = 0; g < groups; g++) {
        const __m512 scale = pn_unpack_scale(f, scales, both.d, s * groups + g);
        const __m512 offset = f.min ? pn_unpack_offset(f, scales, both.m, s * groups + g) : scale;
        for (size_t t = 0; t < n_tok; t++)
            acc[t] = add_group(f, n_plane, codes, scale, offset, in + t, g, acc[t]);
    }
}

PN_AVX512_INLINE void few(pn_panel_format f, int n_plane, const uint8_t *const *panels, size_t n_panel,
                          pn_panel_shape shape, const pn_inputs *x, size_t first, size_t n_tok, float *out) {
    const size_t steps = pn_panel_unit_columns(f) / PN_STEP;
    size_t scales_at = SIZE_MAX; /* in each panel; units of a group of a format with `apart` share them */
    pn_unit_scales scales[PN_FEW_PANELS];
    step_input in[PN_FEW_TOKENS];
    __m512 acc[PN_FEW_PANELS * PN_FEW_TOKENS];
    for (size_t i = 0; i < n_panel * n_tok; i++)
        acc[i] = _mm512_setzero_ps();
    for (size_t u = 0; u < shape.n_col / pn_panel_unit_columns(f); u++) {
        const size_t before = scales_at;
        scales_at = pn_panel_scales_at(f, shape, u);
        for (size_t p = 0; p < n_panel && (!f.apart || scales_at != before); p++) {
            pn_fetch_scales(f, shape, panels[p] + scales_at);
            scales[p] = pn_unpack_unit_scales(f, panels[p] + scales_at);
        }
        for (size_t s = 0; s < steps; s++) {
            for (size_t t = 0; t < n_tok; t++)
                in[t] = input_of(f, x, first + t, u * steps + s);
            for (size_t p = 0; p < n_panel; p++) {
                const uint8_t *unit = panels[p] + u * pn_panel_unit_bytes(f);
                __asm__("" : "+r"(unit)); /* one address, not one for every vector */
                pn_fetch_step(f, shape, unit, u, s);
                add_step(f, n_plane, unit, panels[p] + scales_at, scales[p], s, in, n_tok, acc + p * n_tok);
            }
        }
    }
    for (size_t i = 0; i < n_panel * n_tok; i++)
        _mm512_storeu_ps(out + i * PN_PANEL_ROWS, acc[i]);
}

/* With the number of planes a constant, and the one token of decoding. */
PN_AVX512_INLINE void few_of(pn_panel_format f, const uint8_t *const *panels, size_t n_panel,
                             pn_panel_shape shape, const pn_inputs *x, size_t first, size_t n_tok,
                             float *out) {
    if (x->n_plane == 2 && n_tok == 1)
        few(f, 2, panels, n_panel, shape, x, first, 1, out);
    else if (x->n_plane == 2)
        few(f, 2, panels, n_panel, shape, x, first, n_tok, out);
    else if (n_tok == 1)
        few(f, 1, panels, n_panel, shape, x, first, 1, out);
    else
        few(f, 1, panels, n_panel, shape, x, first, n_tok, out);
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_few_##name##_avx512vnni(const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,      \
                                    const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {       \
        const pn_panel_format f = {__VA_ARGS__};                                                             \
        few_of(f, panels, n_panel, shape, inputs, first, n_tok, out);                                        \
    }
#include "quant/panels.inc"
#undef PN_PANEL
