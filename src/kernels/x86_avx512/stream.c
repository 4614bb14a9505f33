/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_avx512/avx512.h"

enum { UNIT = 256 };

/* Continues four accumulators with the xor of one unit. */
PN_AVX512_INLINE void read_unit(const uint8_t *data, __m512i x[4]) {
    for (int i = 0; i < 4; i++)
        x[i] = _mm512_xor_si512(x[i], _mm512_loadu_si512(data + 64 * i));
}

uint64_t pn_read_streams_avx512(const void *data, size_t bytes, int n_stream) {
    const uint8_t *base = data;
    const size_t stream_bytes = bytes / (size_t)n_stream / UNIT * UNIT;
    __m512i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm512_setzero_si512();
    for (size_t at = 0; at < stream_bytes; at += UNIT) {
        for (size_t s = 0; s < (size_t)n_stream; s++)
            read_unit(base + s * stream_bytes + at, x);
    }
    uint64_t words[32], result = 0;
    memcpy(words, x, sizeof words);
    for (int i = 0; i < 32; i++)
        result ^= words[i];
    return result;
}
