/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/x86_amx/tiles.h"

#include <string.h>

enum { N_TILE = 8, N_ACC = 6 };

/* Six accumulators and the two operands take all eight tiles; every one is full. A tile product is 16 * 16 *
   64 multiply-adds, six of them a round. */
uint64_t pn_peak_codes_amx(size_t n) {
    pn_tile_shapes shapes = {.palette = 1};
    int8_t ones[PN_TILE_ROWS * PN_TILE_ROW_BYTES];
    memset(ones, 1, sizeof ones);
    for (int i = 0; i < N_TILE; i++) {
        shapes.row_bytes[i] = PN_TILE_ROW_BYTES;
        shapes.rows[i] = PN_TILE_ROWS;
    }
    pn_tiles_set(&shapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(6, ones, PN_TILE_ROW_BYTES);
    _tile_loadd(7, ones, PN_TILE_ROW_BYTES);
    for (size_t round = 0; round < n; round++) {
        _tile_dpbssd(0, 6, 7);
        _tile_dpbssd(1, 6, 7);
        _tile_dpbssd(2, 6, 7);
        _tile_dpbssd(3, 6, 7);
        _tile_dpbssd(4, 6, 7);
        _tile_dpbssd(5, 6, 7);
    }
    int32_t sums[N_ACC][PN_TILE_ROWS * PN_TILE_ROW_BYTES / 4];
    _tile_stored(0, sums[0], PN_TILE_ROW_BYTES);
    _tile_stored(1, sums[1], PN_TILE_ROW_BYTES);
    _tile_stored(2, sums[2], PN_TILE_ROW_BYTES);
    _tile_stored(3, sums[3], PN_TILE_ROW_BYTES);
    _tile_stored(4, sums[4], PN_TILE_ROW_BYTES);
    _tile_stored(5, sums[5], PN_TILE_ROW_BYTES);
    _tile_release();
    uint64_t result = 0;
    for (int i = 0; i < N_ACC; i++)
        for (int j = 0; j < PN_TILE_ROWS * PN_TILE_ROW_BYTES / 4; j++)
            result += (uint64_t)sums[i][j];
    return result;
}
