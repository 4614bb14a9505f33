/* SPDX-License-Identifier: Apache-2.0 */
/* The tile registers' shapes. A function that uses tiles sets them at its start and releases them at its end,
   so that neither callers nor the system's switches between threads ever meet them. */
#ifndef PN_KERNELS_AMX_TILES_H
#define PN_KERNELS_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

enum { PN_TILE_ROWS = 16, PN_TILE_ROW_BYTES = 64 }; /* at most */

/* What LDTILECFG reads; tiles 8 to 15 do not exist. */
typedef struct pn_tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} pn_tile_shapes;

static inline void pn_tiles_set(const pn_tile_shapes *shapes) {
    /* The intrinsic of some compilers forgets to say that it reads all of it. */
    __asm__ volatile("" : : "r"(shapes) : "memory");
    _tile_loadconfig(shapes);
}

#endif
