/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/arm_neon/neon.h"

enum { UNIT = 256 };

/* Continues four accumulators with the xor of one unit. */
PN_NEON_INLINE void read_unit(const uint8_t *data, uint8x16_t x[4]) {
    for (size_t v = 0; v < UNIT / 16; v += 4) {
        x[0] = veorq_u8(x[0], vld1q_u8(data + 16 * v));
        x[1] = veorq_u8(x[1], vld1q_u8(data + 16 * v + 16));
        x[2] = veorq_u8(x[2], vld1q_u8(data + 16 * v + 32));
        x[3] = veorq_u8(x[3], vld1q_u8(data + 16 * v + 48));
    }
}

uint64_t pn_read_streams_neon(const void *data, size_t bytes, int n_stream) {
    const uint8_t *base = data;
    const size_t stream_bytes = bytes / (size_t)n_stream / UNIT * UNIT;
    uint8x16_t x[4] = {vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)};
    for (size_t at = 0; at < stream_bytes; at += UNIT) {
        for (size_t s = 0; s < (size_t)n_stream; s++)
            read_unit(base + s * stream_bytes + at, x);
    }
    uint64x2_t words = vreinterpretq_u64_u8(veorq_u8(veorq_u8(x[0], x[1]), veorq_u8(x[2], x[3])));
    return vgetq_lane_u64(words, 0) ^ vgetq_lane_u64(words, 1);
}
