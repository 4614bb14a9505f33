/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of kernels share: operands against inaccessible pages, random data, comparison of floats,
   and the walk over the feature mask. */
#ifndef PN_TESTS_KERNEL_CHECK_H
#define PN_TESTS_KERNEL_CHECK_H

#include "kernels/kernels.h"

#include "base/rng.h"
#include "support/check.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- guarded memory ---- */

/* Against the page before or the page after; ASKEW is near the former, but one element off any alignment. */
enum { AT_START, AT_END, N_PLACE, ASKEW = N_PLACE };

/* n * size bytes between two inaccessible pages. */
void *guarded(size_t n, size_t size, int place);
float *guarded_floats(size_t n, int place);
/* Frees all of it, or what was made after guarded_mark gave `mark`. */
void free_guarded(void);
size_t guarded_mark(void);
void free_guarded_to(size_t mark);

/* ---- data ---- */

extern pn_rng rng;

/* In [-1, 1]. */
float random_float(void);
size_t random_below(size_t n);
/* kind 0: [-1, 1]; 1: magnitudes from 1e-12 to 1e12; 2: all positive. */
enum { N_KIND = 3 };
void fill(float *x, size_t n, int kind);

/* ---- comparison ---- */

/* The same bits, or both NaN. */
bool same(float a, float b);
void check_same(const char *what, size_t at, float found, float expected);
/* |found - expected| <= c * eps * scale, plus the least denormal. */
void check_near(const char *what, size_t at, float found, double expected, double c, double scale);

/* ---- the table ---- */

typedef struct kernel_slot {
    const char *name;
    size_t offset; /* of the pointer in pn_kernels */
    void (*check)(const pn_kernels *);
} kernel_slot;

/* Checks each slot that `table` has and `before` has not; returns how many. */
size_t check_new_slots(const kernel_slot *slots, size_t n_slot, const pn_kernels *table,
                       const pn_kernels *before);
/* Raises the feature mask step by step and has each table checked against the one before. */
void for_each_feature_step(size_t (*check_new)(const pn_kernels *table, const pn_kernels *before));

#endif
