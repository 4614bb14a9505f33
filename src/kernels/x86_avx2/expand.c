/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/panel.h"

PN_AVX2_INLINE void expand(pn_panel_format f, const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {
    const size_t steps = pn_panel_unit_columns(f) / PN_STEP;
    const size_t scales = pn_panel_unit_columns(f) / f.group * PN_PANEL_ROWS;
    int8_t *codes = w->codes;
    float *scale = w->scale, *offset = w->offset;
    for (size_t u = 0; u < shape.n_col / pn_panel_unit_columns(f); u++) {
        const uint8_t *unit = panel + u * pn_panel_unit_bytes(f);
        for (const uint8_t *step = unit; step < unit + steps * pn_panel_step_bytes(f);
             step += pn_panel_step_bytes(f)) {
            PN_UNROLL
            for (size_t i = 0; i < 16; i++, codes += 32)
                _mm256_storeu_si256((__m256i *)codes, pn_signed_codes(f, step, i / 2, i % 2));
        }
        pn_unpack_scales(f, panel + pn_panel_scales_at(f, shape, u), scale, offset);
        scale += scales;
        if (f.min) offset += scales;
    }
    w->n_step = shape.n_col / PN_STEP;
    w->group = f.group;
    w->least = f.codebook ? 127 : f.zero;
    w->bits = f.codebook ? 8 : f.bits;
    if (!f.min) w->offset = NULL;
}

#define PN_PANEL(name, ...)                                                                                  \
    void pn_expand_##name##_avx2(const uint8_t *panel, pn_panel_shape shape, pn_codes *w) {                  \
        expand((const pn_panel_format){__VA_ARGS__}, panel, shape, w);                                       \
    }
#include "quant/panels.inc"
#undef PN_PANEL

/* Eight rows of four columns. */
PN_AVX2_INLINE void floats_of_vector(__m256i codes, __m256 scale, const float *offset, float *out) {
    for (int column = 0; column < 4; column++, out += PN_PANEL_ROWS) {
        __m256i code = _mm256_srai_epi32(_mm256_slli_epi32(codes, 24 - 8 * column), 24);
        __m256 value = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(code));
        _mm256_storeu_ps(out, offset ? _mm256_add_ps(value, _mm256_loadu_ps(offset)) : value);
    }
}

void pn_codes_to_f32_avx2(const pn_codes *w, size_t step, size_t n_step, float *out) {
    const size_t group_vectors = (size_t)w->group / 4;
    for (size_t v = step * 8; v < (step + n_step) * 8; v++, out += 4 * PN_PANEL_ROWS) {
        const size_t at = v / group_vectors * PN_PANEL_ROWS;
        for (size_t half = 0; half < PN_PANEL_ROWS; half += 8)
            floats_of_vector(pn_load_32(w->codes + 64 * v + 4 * half), _mm256_loadu_ps(w->scale + at + half),
                             w->offset ? w->offset + at + half : NULL, out + half);
    }
}

void pn_f16_to_f32_avx2(const uint16_t *x, float *out, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, pn_load_half(x + i));
    for (; i < n; i++)
        out[i] = pn_f16_to_f32(x[i]);
}

void pn_bf16_to_f32_avx2(const uint16_t *x, float *out, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(x + i)));
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
    }
    for (; i < n; i++)
        out[i] = pn_bf16_to_f32(x[i]);
}
