/* SPDX-License-Identifier: Apache-2.0 */
#include "support/kernel_check.h"

#include "base/cpu.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- guarded memory ---- */

static struct {
    void *map;
    size_t bytes;
} maps[32];
static size_t n_map;

void *guarded(size_t n, size_t size, int place) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * size;
    size_t inner = (bytes + (place == ASKEW ? size : 0) + page - 1) / page * page;
    assert_true(n_map < COUNT(maps));
    uint8_t *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    if (inner > 0) assert_int_equal(mprotect(map + page, inner, PROT_READ | PROT_WRITE), 0);
    maps[n_map].map = map;
    maps[n_map++].bytes = inner + 2 * page;
    return map + page + (place == AT_END ? inner - bytes : place == ASKEW ? size : 0);
}

float *guarded_floats(size_t n, int place) {
    return guarded(n, sizeof(float), place);
}

size_t guarded_mark(void) {
    return n_map;
}

void free_guarded_to(size_t mark) {
    while (n_map > mark) {
        n_map--;
        munmap(maps[n_map].map, maps[n_map].bytes);
    }
}

void free_guarded(void) {
    free_guarded_to(0);
}

/* ---- data ---- */

pn_rng rng;

float random_float(void) {
    return (float)(2 * pn_rng_unit(&rng) - 1);
}

size_t random_below(size_t n) {
    return (size_t)(pn_rng_u64(&rng) % n);
}

void fill(float *x, size_t n, int kind) {
    for (size_t i = 0; i < n; i++) {
        float f = random_float();
        x[i] = kind == 0 ? f : kind == 1 ? f * powf(10, 12 * random_float()) : fabsf(f);
    }
}

/* ---- comparison ---- */

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

bool same(float a, float b) {
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

void check_same(const char *what, size_t at, float found, float expected) {
    if (!same(found, expected))
        fail_msg("%s [%zu]: %a, expected the same bits as %a", what, at, found, expected);
}

void check_near(const char *what, size_t at, float found, double expected, double c, double scale) {
    double bound = c * FLT_EPSILON * scale + 0x1p-149;
    if (!(fabs(found - expected) <= bound))
        fail_msg("%s [%zu]: %.9g, expected %.9g within %.3g", what, at, found, expected, bound);
}

/* ---- the table ---- */

static bool differs(const pn_kernels *a, const pn_kernels *b, size_t offset) {
    return memcmp((const char *)a + offset, (const char *)b + offset, sizeof(void (*)(void))) != 0;
}

size_t check_new_slots(const kernel_slot *slots, size_t n_slot, const pn_kernels *table,
                       const pn_kernels *before) {
    size_t n = 0;
    for (size_t i = 0; i < n_slot; i++) {
        if (!differs(table, before, slots[i].offset)) continue;
        slots[i].check(table);
        n++;
    }
    return n;
}

void for_each_feature_step(size_t (*check_new)(const pn_kernels *table, const pn_kernels *before)) {
    pn_kernels before;
    pn_kernels_init(&before, 0);
    uint32_t mask = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t bit = 1u << i;
        const char *name = pn_cpu_feature_name(bit);
        if (strcmp(name, "scalar") == 0) continue; /* no feature has this bit */
        if (!(pn_cpu_features() & bit)) {
            print_message("skipped: %s is not there or masked off by PN_CPU\n", name);
            continue;
        }
        mask |= bit;
        pn_kernels table;
        pn_kernels_init(&table, mask);
        print_message("%s: %zu new slots\n", name, check_new(&table, &before));
        before = table;
    }
}
