/* SPDX-License-Identifier: Apache-2.0 */
/* Quantises up to eight steps at once, which then share reductions and divisions. The steps of all tokens lie
   one after the other in x and in every array but the codes. Integers are at most 32639 in size, so 16 bits
   hold them once they are rounded. */
#include "kernels/x86_avx512/avx512.h"

#include <math.h>

enum { STEPS = 8, LANES = 16 };

/* Where the codes of a step go. */
typedef struct place {
    int8_t *low;
    size_t step, n_step; /* of the token */
} place;

PN_AVX512_INLINE void next_step(place *to, int n_plane) {
    to->low += PN_STEP;
    if (++to->step < to->n_step) return;
    to->step = 0;
    to->low += (size_t)(n_plane - 1) * to->n_step * PN_STEP;
}

PN_AVX512_INLINE __m512i merge(bool greater, __m512i a, __m512i b) {
    return greater ? _mm512_max_epi32(a, b) : _mm512_add_epi32(a, b);
}

/* Adds, or takes the greatest of, the quarters of each of eight vectors: out[i / 4] has in quarter i % 4 what
   v[i] gives. */
PN_AVX512_INLINE void merge_quarters(bool greater, const __m512i *v, __m512i *out) {
    for (size_t h = 0; h < 2; h++, v += 4) {
        __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
        a = merge(greater, a, _mm512_shuffle_i32x4(v[0], v[1], 0xee));
        b = merge(greater, b, _mm512_shuffle_i32x4(v[2], v[3], 0xee));
        out[h] = merge(greater, _mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    }
}

/* The greatest lane of each of eight vectors. */
PN_AVX512_INLINE __m256i greatest_lanes(const __m512i *v) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i q[2];
    merge_quarters(true, v, q);
    /* Four lanes of each become two, then one. */
    __m512i m = _mm512_max_epi32(_mm512_unpacklo_epi64(q[0], q[1]), _mm512_unpackhi_epi64(q[0], q[1]));
    m = _mm512_max_epi32(m, _mm512_shuffle_epi32(m, _MM_PERM_CDAB));
    return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, m));
}

/* Of each of eight vectors, which have those of columns 0 to 15 in lanes 0 and 1 of every quarter, the others
   in lanes 2 and 3: the sum of the former and of the latter. */
PN_AVX512_INLINE __m512i half_sums(const __m512i *v) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i q[2];
    merge_quarters(false, v, q);
    for (size_t h = 0; h < 2; h++)
        q[h] = _mm512_add_epi32(q[h], _mm512_shuffle_epi32(q[h], _MM_PERM_CDAB));
    return _mm512_permutex2var_epi32(q[0], even, q[1]);
}

/* The sum of two neighbours. */
PN_AVX512_INLINE __m256i step_sums(__m512i halves) {
    return _mm512_cvtepi64_epi32(_mm512_add_epi32(halves, _mm512_srli_epi64(halves, 32)));
}

PN_AVX512_INLINE __m512i size_bits(__m512 x) {
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

/* Stores the codes of 32 integers of 16 bits, of which every quarter has four of columns 0 to 15 and four of
   the others. */
PN_AVX512_INLINE void store_codes(__m512i q, int n_plane, const place *to) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = q, high = q;
    if (n_plane == 2) {
        high = _mm512_srai_epi16(_mm512_add_epi16(q, _mm512_set1_epi16(128)), 8);
        low = _mm512_sub_epi16(q, _mm512_slli_epi16(high, 8));
    }
    __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    _mm256_storeu_si256((__m256i *)to->low, _mm512_castsi512_si256(bytes));
    if (n_plane == 2)
        _mm256_storeu_si256((__m256i *)(to->low + to->n_step * PN_STEP), _mm512_extracti64x4_epi64(bytes, 1));
}

/* The n <= 8 steps from `at` on, whose floats are x. */
PN_AVX512_INLINE void quantise_steps(const float *x, int n_plane, size_t at, size_t n,
                                     const pn_inputs *inputs, place *to) {
    __m512 a[STEPS], b[STEPS]; /* columns 0 to 15 and 16 to 31 */
    __m512i sizes[STEPS], sums[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        a[i] = i < n ? _mm512_loadu_ps(x + i * PN_STEP) : _mm512_setzero_ps();
        b[i] = i < n ? _mm512_loadu_ps(x + i * PN_STEP + LANES) : _mm512_setzero_ps();
        sizes[i] = _mm512_max_epi32(size_bits(a[i]), size_bits(b[i])); /* as floats of one sign compare */
    }
    const __m256i bits = greatest_lanes(sizes);
    const __m256 greatest = _mm256_castsi256_ps(bits),
                 limit = _mm256_set1_ps(n_plane == 2 ? 32639.0f : 127.0f);
    const __mmask8 odd = _mm256_cmpgt_epi32_mask(bits, _mm256_set1_epi32(0x7f7fffff)); /* infinity or NaN */
    const __mmask8 used = _mm256_cmp_ps_mask(greatest, _mm256_set1_ps(1e-30f), _CMP_GE_OQ) & (__mmask8)~odd;
    __m256 scale = _mm256_maskz_div_ps(used, greatest, limit);
    scale = _mm256_mask_mov_ps(scale, odd, _mm256_set1_ps(NAN));
    float inverse[STEPS];
    _mm256_storeu_ps(inverse, _mm256_maskz_div_ps(used, limit, greatest));
    for (size_t i = 0; i < STEPS; i++) {
        const __m512 by = _mm512_set1_ps(inverse[i]);
        const __mmask16 keep = used >> i & 1 ? 0xffff : 0; /* infinity * 0 is no 0 */
        const __m512i first = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(a[i], by));
        const __m512i second = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(b[i], by));
        const __m512i q = _mm512_packs_epi32(first, second);
        sums[i] = _mm512_madd_epi16(q, _mm512_set1_epi16(1));
        if (i >= n) continue;
        store_codes(q, n_plane, to);
        next_step(to, n_plane);
    }
    const __mmask8 steps = (__mmask8)((1u << n) - 1u);
    const __mmask16 halves = (__mmask16)((1u << 2 * n) - 1u);
    const __m512i half = half_sums(sums);
    const __m256i sum = step_sums(half), zero = _mm256_setzero_si256();
    _mm256_mask_storeu_ps(inputs->scale + at, steps, scale);
    _mm256_mask_storeu_ps(inputs->sum + at, steps, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum)));
    _mm256_mask_storeu_epi32(inputs->bias + at, steps, _mm256_sub_epi32(zero, _mm256_slli_epi32(sum, 7)));
    _mm512_mask_storeu_epi32(inputs->half + 2 * at, halves,
                             _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(half, 7)));
}

PN_AVX512_INLINE void quantise(const float *x, int n_plane, size_t first, size_t n_tok,
                               const pn_inputs *inputs) {
    const size_t n_step = inputs->n_step, begin = first * n_step, n = n_tok * n_step;
    place to = {.low = inputs->codes + begin * (size_t)n_plane * PN_STEP, .n_step = n_step};
    size_t i = 0;
    for (; i + STEPS <= n; i += STEPS)
        quantise_steps(x + i * PN_STEP, n_plane, begin + i, STEPS, inputs, &to);
    if (i < n) quantise_steps(x + i * PN_STEP, n_plane, begin + i, n - i, inputs, &to);
}

void pn_quantise_avx512(const float *x, size_t first, size_t n_tok, const pn_inputs *inputs) {
    if (inputs->n_plane == 2)
        quantise(x, 2, first, n_tok, inputs);
    else
        quantise(x, 1, first, n_tok, inputs);
}
