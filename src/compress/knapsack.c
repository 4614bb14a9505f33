/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/knapsack.h"

#include "base/mem.h"

#define MAX_UNITS 20000 /* of capacity */

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The size that counts as 1. */
static uint64_t unit_of(const uint64_t *sizes, size_t n, uint64_t capacity) {
    uint64_t unit = 0;
    for (size_t i = 0; i < n; i++)
        unit = common_divisor(unit, sizes[i]);
    uint64_t least = capacity / MAX_UNITS + 1;
    return unit > least ? unit : least;
}

static size_t units(uint64_t size, uint64_t unit) {
    return (size_t)(size / unit + (size % unit != 0));
}

pn_status pn_knapsack(const uint64_t *sizes, const double *values, size_t n, uint64_t capacity, bool *chosen,
                      pn_error *err) {
    const uint64_t unit = unit_of(sizes, n, capacity);
    const size_t room = (size_t)(capacity / unit), width = room + 1;
    double *best = pn_alloc(PN_MEM_SCRATCH, width, sizeof *best); /* by room, over the items so far */
    bool *taken = pn_alloc(PN_MEM_SCRATCH, n * width, sizeof *taken);
    if (!best || !taken) {
        pn_free(best);
        pn_free(taken);
        return pn_fail_memory(err, "choice of layers", n * width);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t size = units(sizes[i], unit);
        for (size_t at = room + 1; at-- > size;) {
            if (!(values[i] > 0 && best[at - size] + values[i] > best[at])) continue;
            best[at] = best[at - size] + values[i];
            taken[i * width + at] = true;
        }
    }
    size_t left = room;
    for (size_t i = n; i-- > 0;) {
        chosen[i] = taken[i * width + left];
        if (chosen[i]) left -= units(sizes[i], unit);
    }
    pn_free(best);
    pn_free(taken);
    return PN_OK;
}
