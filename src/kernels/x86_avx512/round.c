/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

void pn_find_range_avx512(const float *x, size_t n, float range[2]) {
    const __m512 first = _mm512_set1_ps(x[0]);
    __m512 least = first, greatest = first, nothing = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 mask = n - i < 16 ? pn_tail_mask(n - i) : 0xffff;
        const __m512 v = _mm512_mask_loadu_ps(first, mask, x + i);
        nothing = _mm512_add_ps(nothing, _mm512_sub_ps(v, v));
        least = _mm512_min_ps(least, v);
        greatest = _mm512_max_ps(greatest, v);
    }
    const float none = _mm512_reduce_add_ps(nothing);
    range[0] = _mm512_reduce_min_ps(least) + none;
    range[1] = _mm512_reduce_max_ps(greatest) + none;
}

float pn_round_codes_avx512(pn_panel_kind kind, pn_integer_scale scale, const float *x, size_t n,
                            uint8_t *codes) {
    const pn_integer_grid g = pn_integer_grid_of(kind, scale);
    const __m512 d = _mm512_set1_ps(g.d), inside = _mm512_set1_ps(g.inside),
                 outside = _mm512_set1_ps(g.outside), first = _mm512_set1_ps(g.first),
                 last = _mm512_set1_ps(g.last);
    __m512 lost = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 mask = n - i < 16 ? pn_tail_mask(n - i) : 0xffff;
        const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 code = _mm512_add_ps(_mm512_div_ps(v, d), inside);
        code = _mm512_min_ps(_mm512_max_ps(code, first), last);
        code = _mm512_roundscale_ps(code, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __m512i whole = _mm512_cvtps_epi32(_mm512_add_ps(code, outside));
        _mm512_mask_cvtepi32_storeu_epi8(codes + i, mask, whole);
        const __m512 error = _mm512_sub_ps(v, _mm512_mul_ps(d, _mm512_sub_ps(code, inside)));
        lost = _mm512_mask3_fmadd_ps(error, error, lost, mask);
    }
    return _mm512_reduce_add_ps(lost);
}
