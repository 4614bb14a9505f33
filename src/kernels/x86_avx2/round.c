/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

static float least_of(__m256 v) {
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m)));
}

static float sum_of(__m256 v) {
    __m128 m = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_add_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
}

void pn_find_range_avx2(const float *x, size_t n, float range[2]) {
    const size_t whole = n / 8 * 8;
    const __m256 none = _mm256_setzero_ps();
    __m256 least = _mm256_set1_ps(x[0]), most = _mm256_sub_ps(none, least), nothing = none;
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        nothing = _mm256_add_ps(nothing, _mm256_sub_ps(v, v));
        least = _mm256_min_ps(least, v);
        most = _mm256_min_ps(most, _mm256_sub_ps(none, v)); /* the greatest, negated */
    }
    range[0] = least_of(least) + sum_of(nothing);
    range[1] = sum_of(nothing) - least_of(most);
    if (whole < n) {
        float rest[2];
        pn_integer_find_range(x + whole, n - whole, rest);
        const float nan = rest[0] - rest[0];
        range[0] = (rest[0] < range[0] ? rest[0] : range[0]) + nan;
        range[1] = (rest[1] > range[1] ? rest[1] : range[1]) + nan;
    }
}

float pn_round_codes_avx2(pn_panel_kind kind, pn_integer_scale scale, const float *x, size_t n,
                          uint8_t *codes) {
    const pn_integer_grid g = pn_integer_grid_of(kind, scale);
    const __m256 d = _mm256_set1_ps(g.d), inside = _mm256_set1_ps(g.inside),
                 outside = _mm256_set1_ps(g.outside), first = _mm256_set1_ps(g.first),
                 last = _mm256_set1_ps(g.last);
    const size_t whole = n / 8 * 8;
    __m256 lost = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        __m256 code = _mm256_add_ps(_mm256_div_ps(v, d), inside);
        code = _mm256_min_ps(_mm256_max_ps(code, first), last);
        code = _mm256_round_ps(code, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __m256i wide = _mm256_cvtps_epi32(_mm256_add_ps(code, outside));
        const __m128i half =
            _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
        _mm_storel_epi64((__m128i *)(codes + i), _mm_packus_epi16(half, half));
        const __m256 error = _mm256_sub_ps(v, _mm256_mul_ps(d, _mm256_sub_ps(code, inside)));
        lost = _mm256_fmadd_ps(error, error, lost);
    }
    const float rest = whole < n ? pn_integer_round(kind, scale, x + whole, n - whole, codes + whole) : 0;
    return sum_of(lost) + rest;
}
