/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of keys or values in codes of 8 or 4 bits. A run is a matrix whose rows share a scale and a minimum:
   what a code c stands for is minimum + scale * c. Of keys a row is an element of the head over the tokens of
   a block, since some elements are large in all tokens; of values it is a group of elements of one token (Liu
   et al., "KIVI", 2024). The codes of all rows come first, then the scales, then the minima, as halves.

   A row of 8-bit codes is one byte each. Of 4 bits there are 32 codes in 16 bytes: byte i has code i in its
   low half and code i + 16 in its high one; what is left of a row is a shorter piece of the same kind. */
#ifndef PN_QUANT_KV_RUN_H
#define PN_QUANT_KV_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PN_KV_RUN_GROUP      64 /* the most elements of a value that share a scale */
#define PN_KV_RUN_PIECE      32
#define PN_KV_RUN_MAX_GROUPS 32 /* of a value */

typedef struct pn_kv_run_shape {
    size_t n_row, n_col; /* n_col even */
    int bits;            /* 8 or 4 */
} pn_kv_run_shape;

/* Elements of a value that share a scale: the greatest divisor of head_dim that is even and no more than
   PN_KV_RUN_GROUP. 0: there is none of 8 or more, or too many groups: such heads have no codes. */
size_t pn_kv_run_group(size_t head_dim);

static inline size_t pn_kv_run_row_bytes(const pn_kv_run_shape *s) {
    return s->n_col * (size_t)s->bits / 8;
}
static inline size_t pn_kv_run_code_bytes(const pn_kv_run_shape *s) {
    return s->n_row * pn_kv_run_row_bytes(s);
}
/* All of it: a multiple of 64. */
static inline size_t pn_kv_run_size(const pn_kv_run_shape *s) {
    return (pn_kv_run_code_bytes(s) + 2 * s->n_row * sizeof(uint16_t) + 63) / 64 * 64;
}

/* The scale of a row of finite halves: the half that is nearest to (greatest - least) / (2^bits - 1), or,
   among denormal ones, the next above where that is less: there they are so far apart that the codes would
   end well below the greatest element. */
uint16_t pn_kv_run_scale(float least, float greatest, int bits);
/* From halves [n_row, n_col]: a row's minimum is its least element, its scale pn_kv_run_scale, and a code the
   nearest there is; 0 where the scale is. A row with an infinity or a NaN has NaN for a minimum and a scale
   of 0: all of it is NaN. */
void pn_kv_run_pack(const uint16_t *x, const pn_kv_run_shape *shape, void *run);
/* Back to halves [n_row, n_col]; what a scale takes beyond the greatest half becomes that. */
void pn_kv_run_unpack(const void *run, const pn_kv_run_shape *shape, uint16_t *x);
/* One element. */
float pn_kv_run_get(const void *run, const pn_kv_run_shape *shape, size_t row, size_t col);
/* The code at a place of a row of n codes. */
uint8_t pn_kv_run_code(const uint8_t *row, size_t n, int bits, size_t i);

#endif
