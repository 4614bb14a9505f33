/* SPDX-License-Identifier: Apache-2.0 */
/* A few tokens times packed panels, whatever instruction multiplies: what `few` of x86_avx2 and x86_avxvnni
   have in common. Two tokens at a time meet a step while its codes are in registers. */
#ifndef PN_KERNELS_AVX2_FEW_H
#define PN_KERNELS_AVX2_FEW_H

#include "kernels/x86_avx2/panel.h"

/* How far ahead each panel's bytes are asked for: more than a unit, since its scales come last. */
enum { PN_FEW_AHEAD = 3072 };

/* Adds to sums [n_tok][half] the products of vectors [from, to) of a step, with unsigned codes. x has the
   tokens' planes [n_tok][n_plane] from the step's first column on. */
typedef void (*pn_multiply_fn)(pn_panel_format f, const uint8_t *step, size_t from, size_t to,
                               const int8_t *const *x, size_t n_plane, size_t n_tok, __m256i (*sums)[2]);

/* The inputs that a step of one panel meets, and its place among them. */
typedef struct pn_few_inputs {
    const pn_inputs *inputs;
    size_t n_plane, n_tok, token, step;
} pn_few_inputs;

/* -zero times the sum of a group's integers: what makes up for unsigned codes. zero is a power of two. */
PN_AVX2_INLINE __m256i pn_few_bias(pn_panel_format f, const pn_inputs *inputs, size_t at, size_t group) {
    const int zero = pn_unsigned_zero(f);
    if (zero == 0) return _mm256_setzero_si256();
    __m256i bias = pn_broadcast_4(f.group == PN_STEP ? inputs->bias + at : inputs->half + 2 * at + group);
    return _mm256_srai_epi32(bias, 7 - __builtin_ctz((unsigned)zero));
}

PN_AVX2_INLINE float pn_few_sum(pn_panel_format f, const pn_inputs *inputs, size_t at, size_t group) {
    if (f.group == PN_STEP) return inputs->sum[at];
    return inputs->scale[at] * (float)(inputs->half[2 * at + group] / -128);
}

/* One group of a step: acc [n_tok][16]. */
PN_AVX2_INLINE void pn_few_group(pn_panel_format f, pn_multiply_fn multiply, const uint8_t *step,
                                 size_t group, const float *scale, const float *offset,
                                 const pn_few_inputs *x, float *acc) {
    const pn_inputs *inputs = x->inputs;
    const int8_t *planes[4];
    __m256i sums[2][2];
    for (size_t t = 0; t < x->n_tok; t++) {
        for (size_t p = 0; p < x->n_plane; p++)
            planes[t * x->n_plane + p] =
                inputs->codes + (((x->token + t) * x->n_plane + p) * inputs->n_step + x->step) * PN_STEP;
        sums[t][0] = sums[t][1] = pn_few_bias(f, inputs, (x->token + t) * inputs->n_step + x->step, group);
    }
    multiply(f, step, group * f.group / 4, (group + 1) * f.group / 4, planes, x->n_plane, x->n_tok, sums);
    for (size_t t = 0; t < x->n_tok; t++) {
        const size_t at = (x->token + t) * inputs->n_step + x->step;
        const __m256 scale_x = _mm256_set1_ps(inputs->scale[at]);
        for (size_t half = 0; half < 2; half++) {
            float *a = acc + t * PN_PANEL_ROWS + 8 * half;
            __m256 s = _mm256_mul_ps(_mm256_loadu_ps(scale + 8 * half), scale_x);
            __m256 r = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[t][half]), s, _mm256_loadu_ps(a));
            if (f.min)
                r = _mm256_fmadd_ps(_mm256_loadu_ps(offset + 8 * half),
                                    _mm256_set1_ps(pn_few_sum(f, inputs, at, group)), r);
            _mm256_storeu_ps(a, r);
        }
    }
}

/* One unit of a panel and n_tok tokens, one or two. */
PN_AVX2_INLINE void pn_few_unit(pn_panel_format f, pn_multiply_fn multiply, const uint8_t *unit,
                                const float *scale, const float *offset, pn_few_inputs x, float *acc) {
    const size_t n_step = pn_panel_unit_columns(f) / PN_STEP;
    for (size_t s = 0; s < n_step; s++, x.step++, unit += pn_panel_step_bytes(f)) {
        for (size_t i = 0; i < pn_panel_unit_bytes(f) / n_step; i += 64)
            _mm_prefetch((const char *)unit + PN_FEW_AHEAD + i, _MM_HINT_T0);
        pn_few_group(f, multiply, unit, 0, scale, offset, &x, acc);
        scale += PN_PANEL_ROWS;
        offset += PN_PANEL_ROWS;
        if (f.group == PN_STEP) continue;
        pn_few_group(f, multiply, unit, 1, scale, offset, &x, acc);
        scale += PN_PANEL_ROWS;
        offset += PN_PANEL_ROWS;
    }
}

PN_AVX2_INLINE void pn_few(pn_panel_format f, pn_multiply_fn multiply, size_t n_plane,
                           const uint8_t *const *panels, size_t n_panel, pn_panel_shape shape,
                           const pn_inputs *inputs, size_t first, size_t n_tok, float *out) {
    const size_t unit_steps = pn_panel_unit_columns(f) / PN_STEP;
    memset(out, 0, n_panel * n_tok * PN_PANEL_ROWS * sizeof *out);
    for (size_t step = 0; step < shape.n_col / PN_STEP; step += unit_steps) {
        const size_t scales_at = pn_panel_scales_at(f, shape, step / unit_steps);
        for (size_t p = 0; p < n_panel; p++) {
            float scale[PN_GROUPS_MAX * PN_PANEL_ROWS], offset[PN_GROUPS_MAX * PN_PANEL_ROWS];
            const uint8_t *unit = panels[p] + step / unit_steps * pn_panel_unit_bytes(f);
            float *acc = out + p * n_tok * PN_PANEL_ROWS;
            __asm__("" : "+r"(unit)); /* one address, not one for every vector */
            pn_unpack_scales(f, f.apart ? panels[p] + scales_at : unit + pn_panel_scale_offset(f), scale,
                             offset);
            if (f.apart) /* the next panel's: these are few, and far from the codes */
                _mm_prefetch((const char *)panels[p] + scales_at + pn_panel_coded_bytes(f, shape),
                             _MM_HINT_T0);
            size_t t = 0;
            for (; t + 2 <= n_tok; t += 2)
                pn_few_unit(f, multiply, unit, scale, offset,
                            (pn_few_inputs){inputs, n_plane, 2, first + t, step}, acc + t * PN_PANEL_ROWS);
            if (t < n_tok)
                pn_few_unit(f, multiply, unit, scale, offset,
                            (pn_few_inputs){inputs, n_plane, 1, first + t, step}, acc + t * PN_PANEL_ROWS);
        }
    }
}

#endif
