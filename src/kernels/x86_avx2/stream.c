/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx2/avx2.h"

enum { UNIT = 256 };

/* Continues four accumulators with the xor of one unit. */
PN_AVX2_INLINE void read_unit(const uint8_t *data, __m256i x[4]) {
    const __m256i *v = (const __m256i *)data;
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_xor_si256(x[i], _mm256_loadu_si256(v + i));
        x[i] = _mm256_xor_si256(x[i], _mm256_loadu_si256(v + 4 + i));
    }
}

uint64_t pn_read_streams_avx2(const void *data, size_t bytes, int n_stream) {
    const uint8_t *base = data;
    const size_t stream_bytes = bytes / (size_t)n_stream / UNIT * UNIT;
    __m256i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_setzero_si256();
    for (size_t at = 0; at < stream_bytes; at += UNIT) {
        for (size_t s = 0; s < (size_t)n_stream; s++)
            read_unit(base + s * stream_bytes + at, x);
    }
    uint64_t words[16], result = 0;
    memcpy(words, x, sizeof words);
    for (int i = 0; i < 16; i++)
        result ^= words[i];
    return result;
}
