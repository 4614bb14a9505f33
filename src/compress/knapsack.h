/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PN_COMPRESS_KNAPSACK_H
#define PN_COMPRESS_KNAPSACK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Chooses items of the greatest total value whose total size is at most `capacity`: chosen [n] is filled in.
   By dynamic programming over sizes (Bellman, 1957); where the sizes have no large common divisor they are
   rounded up to some ten thousandth of the capacity, so that the choice fits but may miss a little value.
   Values below 0 are never chosen; of equal choices the one with the earlier items. */
pn_status pn_knapsack(const uint64_t *sizes, const double *values, size_t n, uint64_t capacity, bool *chosen,
                      pn_error *err);

#endif
