/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <immintrin.h>
#include <string.h>

enum { TILE_ROWS = 16, TILE_BYTES = 64, N_TILE = 8, N_ACC = 6 };

/* What LDTILECFG reads. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Six accumulators and the two operands take all eight tiles; every one is full. A tile product is 16 * 16 *
   64 multiply-adds, six of them a round. */
uint64_t pn_peak_codes_amx(size_t n) {
    struct tile_config config = {.palette = 1};
    int8_t ones[TILE_ROWS * TILE_BYTES];
    memset(ones, 1, sizeof ones);
    for (int i = 0; i < N_TILE; i++) {
        config.row_bytes[i] = TILE_BYTES;
        config.rows[i] = TILE_ROWS;
    }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(6, ones, TILE_BYTES);
    _tile_loadd(7, ones, TILE_BYTES);
    for (size_t round = 0; round < n; round++) {
        _tile_dpbssd(0, 6, 7);
        _tile_dpbssd(1, 6, 7);
        _tile_dpbssd(2, 6, 7);
        _tile_dpbssd(3, 6, 7);
        _tile_dpbssd(4, 6, 7);
        _tile_dpbssd(5, 6, 7);
    }
    int32_t sums[N_ACC][TILE_ROWS * TILE_BYTES / 4];
    _tile_stored(0, sums[0], TILE_BYTES);
    _tile_stored(1, sums[1], TILE_BYTES);
    _tile_stored(2, sums[2], TILE_BYTES);
    _tile_stored(3, sums[3], TILE_BYTES);
    _tile_stored(4, sums[4], TILE_BYTES);
    _tile_stored(5, sums[5], TILE_BYTES);
    _tile_release();
    uint64_t result = 0;
    for (int i = 0; i < N_ACC; i++)
        for (int j = 0; j < TILE_ROWS * TILE_BYTES / 4; j++)
            result += (uint64_t)sums[i][j];
    return result;
}
