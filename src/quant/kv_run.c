/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/kv_run.h"

#include "quant/qtype.h"

#include <math.h>
#include <string.h>

size_t pn_kv_run_group(size_t head_dim) {
    size_t g = head_dim < PN_KV_RUN_GROUP ? head_dim : PN_KV_RUN_GROUP;
    while (g >= 8 && (head_dim % g != 0 || g % 2 != 0))
        g--;
    return g >= 8 && head_dim / g <= PN_KV_RUN_MAX_GROUPS ? g : 0;
}

/* Where code i of n of 4 bits is: pieces of 32, the last of which may be shorter. */
static size_t byte_of(size_t n, size_t i, bool *high) {
    const size_t from = i / PN_KV_RUN_PIECE * PN_KV_RUN_PIECE, at = i - from, left = n - from;
    const size_t half = (left < PN_KV_RUN_PIECE ? left : PN_KV_RUN_PIECE) / 2;
    *high = at >= half;
    return from / 2 + (*high ? at - half : at);
}

uint8_t pn_kv_run_code(const uint8_t *row, size_t n, int bits, size_t i) {
    bool high;
    if (bits == 8) return row[i];
    const uint8_t byte = row[byte_of(n, i, &high)];
    return high ? byte >> 4 : byte & 15;
}

static void put_code(uint8_t *row, size_t n, int bits, size_t i, uint8_t code) {
    bool high;
    if (bits == 8) {
        row[i] = code;
        return;
    }
    uint8_t *byte = &row[byte_of(n, i, &high)];
    *byte = (uint8_t)(high ? (*byte & 15) | code << 4 : (*byte & 240) | code);
}

uint16_t pn_kv_run_scale(float least, float greatest, int bits) {
    const uint16_t least_normal = 0x0400;
    const float step = (greatest - least) / (float)((1 << bits) - 1);
    const uint16_t nearest = pn_f32_to_f16(step);
    const bool low = nearest < least_normal && pn_f16_to_f32(nearest) < step;
    return (uint16_t)(nearest + low);
}

static void pack_row(const uint16_t *x, size_t n, int bits, uint8_t *codes, uint16_t *scale, uint16_t *min) {
    const float levels = (float)((1 << bits) - 1);
    float least = pn_f16_to_f32(x[0]), greatest = least;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        const float v = pn_f16_to_f32(x[i]);
        least = v < least ? v : least;
        greatest = v > greatest ? v : greatest;
        finite = finite && isfinite(v);
    }
    *scale = finite ? pn_kv_run_scale(least, greatest, bits) : 0;
    *min = pn_f32_to_f16(finite ? least : NAN);
    const float step = pn_f16_to_f32(*scale), inverse = step > 0 ? 1.0f / step : 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float code = finite ? rintf((pn_f16_to_f32(x[i]) - least) * inverse) : 0.0f;
        put_code(codes, n, bits, i, (uint8_t)(code < levels ? code : levels));
    }
}

void pn_kv_run_pack(const uint16_t *x, const pn_kv_run_shape *s, void *run) {
    uint8_t *codes = run;
    uint16_t *scales = (uint16_t *)(void *)(codes + pn_kv_run_code_bytes(s)), *mins = scales + s->n_row;
    for (size_t row = 0; row < s->n_row; row++)
        pack_row(x + row * s->n_col, s->n_col, s->bits, codes + row * pn_kv_run_row_bytes(s), scales + row,
                 mins + row);
}

float pn_kv_run_get(const void *run, const pn_kv_run_shape *s, size_t row, size_t col) {
    const uint8_t *codes = run;
    const uint16_t *scales = (const uint16_t *)(const void *)(codes + pn_kv_run_code_bytes(s));
    const uint8_t code = pn_kv_run_code(codes + row * pn_kv_run_row_bytes(s), s->n_col, s->bits, col);
    return pn_f16_to_f32(scales[s->n_row + row]) + pn_f16_to_f32(scales[row]) * (float)code;
}

static uint16_t half_of(float x) {
    const float greatest = 65504.0f;
    return pn_f32_to_f16(x > greatest ? greatest : x);
}

void pn_kv_run_unpack(const void *run, const pn_kv_run_shape *s, uint16_t *x) {
    for (size_t row = 0; row < s->n_row; row++)
        for (size_t col = 0; col < s->n_col; col++)
            *x++ = half_of(pn_kv_run_get(run, s, row, col));
}
