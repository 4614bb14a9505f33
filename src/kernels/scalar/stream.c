/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <string.h>

enum { UNIT = 256 };

/* Xor of the 8-byte words of one unit. */
static uint64_t read_unit(const uint8_t *data) {
    uint64_t words[UNIT / 8], x = 0;
    memcpy(words, data, sizeof words);
    for (size_t i = 0; i < UNIT / 8; i++)
        x ^= words[i];
    return x;
}

uint64_t pn_read_streams_scalar(const void *data, size_t bytes, int n_stream) {
    const uint8_t *base = data;
    size_t stream_bytes = bytes / (size_t)n_stream / UNIT * UNIT;
    uint64_t x = 0;
    for (size_t at = 0; at < stream_bytes; at += UNIT) {
        for (size_t s = 0; s < (size_t)n_stream; s++)
            x ^= read_unit(base + s * stream_bytes + at);
    }
    return x;
}
