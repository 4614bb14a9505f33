/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/unpack.h"

PN_AVX512_INLINE void expand_step(pn_panel_format f, const uint8_t *step, int8_t *out) {
    const __m512i zero = _mm512_set1_epi8((char)pn_unpacked_zero(f));
    __m512i codes[PN_STEP_VECTORS];
    pn_unpack_codes(f, step, codes);
    for (size_t v = 0; v < PN_STEP_VECTORS; v++)
        _mm512_store_si512(out + 64 * v, _mm512_sub_epi8(codes[v], zero));
}

PN_AVX512_INLINE void expand(pn_panel_format f, const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {
    const size_t n_unit = shape.n_col / pn_panel_unit_columns(f), steps = pn_panel_unit_columns(f) / PN_STEP;
    const size_t groups = pn_panel_unit_columns(f) / f.group;
    int8_t *codes = w->codes;
    float *scale = w->scale, *offset = w->offset;
    for (size_t u = 0; u < n_unit; u++) {
        const uint8_t *unit = panel + u * pn_panel_unit_bytes(f);
        const uint8_t *scales = panel + pn_panel_scales_at(f, shape, u);
        for (size_t s = 0; s < steps; s++, codes += 64 * PN_STEP_VECTORS) {
            pn_fetch_step(f, shape, unit, u, s);
            expand_step(f, unit + s * pn_panel_step_bytes(f), codes);
        }
        pn_fetch_scales(f, shape, scales);
        const pn_unit_scales both = pn_unpack_unit_scales(f, scales);
        for (size_t g = 0; g < groups; g++, scale += PN_PANEL_ROWS)
            _mm512_store_ps(scale, pn_unpack_scale(f, scales, both.d, g));
        for (size_t g = 0; f.min && g < groups; g++, offset += PN_PANEL_ROWS) {
            const __m512 o = pn_unpack_offset(f, scales, both.m, g), minus_zero = _mm512_set1_ps(-0.0f);
            _mm512_store_ps(offset, pn_offset_is_negative(f) ? _mm512_xor_ps(o, minus_zero) : o);
        }
    }
    w->n_step = shape.n_col / PN_STEP;
    w->group = f.group;
    w->least = f.codebook ? 127 : f.zero;
    w->bits = f.codebook ? 8 : f.bits;
    if (!f.min) w->offset = NULL;
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_expand_##name##_avx512(const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {                \
        expand((pn_panel_format){__VA_ARGS__}, panel, shape, w);                                             \
    }
#include "quant/panels.inc"
#undef PN_PANEL

/* Four columns of 16 rows. */
PN_AVX512_INLINE void codes_to_columns(const int8_t *codes, __m512 scale, const __m512 *offset, float *out) {
    const __m512i four = _mm512_load_si512(codes);
    const __m512i columns[4] = {_mm512_slli_epi32(four, 24), _mm512_slli_epi32(four, 16),
                                _mm512_slli_epi32(four, 8), four};
    for (size_t c = 0; c < 4; c++) {
        __m512 x = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_srai_epi32(columns[c], 24)));
        _mm512_storeu_ps(out + c * PN_PANEL_ROWS, offset ? _mm512_add_ps(x, *offset) : x);
    }
}

void pn_codes_to_f32_avx512(const pn_codes *w, size_t step, size_t n_step, float *out) {
    const size_t n = (size_t)w->group / 4; /* vectors of a group */
    const size_t groups = (size_t)(PN_STEP / w->group);
    const int8_t *codes = w->codes + step * PN_STEP_VECTORS * 64;
    for (size_t g = step * groups; g < (step + n_step) * groups; g++) {
        __m512 scale = _mm512_load_ps(w->scale + g * PN_PANEL_ROWS), offset = _mm512_setzero_ps();
        if (w->offset) offset = _mm512_load_ps(w->offset + g * PN_PANEL_ROWS);
        for (size_t v = 0; v < n; v++, codes += 64, out += 4 * PN_PANEL_ROWS)
            codes_to_columns(codes, scale, w->offset ? &offset : NULL, out);
    }
}

void pn_f16_to_f32_avx512(const uint16_t *x, float *out, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, pn_load_half(x + i));
    if (i < n) pn_store_tail(out + i, n - i, pn_load_half_tail(x + i, n - i));
}

PN_AVX512_INLINE __m512 upper_halves(__m256i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

void pn_bf16_to_f32_avx512(const uint16_t *x, float *out, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, upper_halves(_mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
    if (i < n)
        pn_store_tail(out + i, n - i, upper_halves(_mm256_maskz_loadu_epi16(pn_tail_mask(n - i), x + i)));
}
