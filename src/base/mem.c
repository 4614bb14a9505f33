/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include "base/status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64

/* Stands in the 64 bytes before every block. */
typedef struct block_header {
    size_t bytes;
    pn_mem_kind kind;
} block_header;

_Static_assert(sizeof(block_header) <= ALIGNMENT, "the header must fit before an aligned block");

static atomic_uint_fast64_t held_bytes[PN_MEM_KIND_COUNT], peak_bytes[PN_MEM_KIND_COUNT];
static atomic_uint_fast64_t total_bytes, peak_total, budget; /* of all kinds; budget 0: none */
static _Thread_local bool over_budget;                       /* the last allocation was */
static atomic_uint_fast64_t n_allocations, fail_at; /* fail_at counts down to the allocation that fails */

bool pn_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool pn_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

uint64_t pn_mem_fail_at(uint64_t nth) {
    atomic_store(&fail_at, nth);
    return atomic_exchange(&n_allocations, 0);
}

static bool refused_by_hook(void) {
    atomic_fetch_add(&n_allocations, 1);
    if (atomic_load(&fail_at) == 0) return false;
    return atomic_fetch_sub(&fail_at, 1) == 1;
}

static block_header *header_of(void *block) {
    return (block_header *)((char *)block - ALIGNMENT);
}

/* Those of weights count when they are loaded. */
static bool is_loaded(pn_mem_kind kind) {
    return kind == PN_MEM_WEIGHTS || kind == PN_MEM_MAPPED;
}

static void raise_peak(atomic_uint_fast64_t *peak, uint64_t now) {
    uint64_t most = atomic_load(peak);
    while (now > most && !atomic_compare_exchange_weak(peak, &most, now)) {
    }
}

/* Bytes of the budget, before they are allocated; without overshoot, whatever other threads do. */
static bool claim(pn_mem_kind kind, size_t bytes) {
    if (is_loaded(kind)) return true;
    const uint64_t limit = atomic_load(&budget);
    uint64_t now = atomic_load(&total_bytes);
    do {
        over_budget = limit > 0 && (now > limit || bytes > limit - now);
        if (over_budget) return false;
    } while (!atomic_compare_exchange_weak(&total_bytes, &now, now + bytes));
    raise_peak(&peak_total, now + bytes);
    return true;
}

static void unclaim(pn_mem_kind kind, size_t bytes) {
    if (!is_loaded(kind)) atomic_fetch_sub(&total_bytes, bytes);
}

void pn_mem_set_budget(uint64_t bytes) {
    atomic_store(&budget, bytes);
}

uint64_t pn_mem_budget(void) {
    return atomic_load(&budget);
}

uint64_t pn_mem_total(void) {
    return atomic_load(&total_bytes);
}

uint64_t pn_mem_peak_total(void) {
    return atomic_load(&peak_total);
}

static double mib(pn_mem_kind kind) {
    return (double)pn_mem_bytes(kind) / (1 << 20);
}

const char *pn_mem_why(void) {
    static _Thread_local char text[256];
    if (!over_budget) return "";
    snprintf(text, sizeof text,
             "; the memory budget of %.1f MiB is used up: weights %.1f, keys and values %.1f, scratch %.1f, "
             "tables %.1f",
             (double)pn_mem_budget() / (1 << 20), mib(PN_MEM_WEIGHTS) + mib(PN_MEM_MAPPED), mib(PN_MEM_KV),
             mib(PN_MEM_SCRATCH), mib(PN_MEM_OTHER));
    return text;
}

static void count(pn_mem_kind kind, size_t added, size_t removed) {
    raise_peak(&peak_bytes[kind], atomic_fetch_add(&held_bytes[kind], added) + added);
    atomic_fetch_sub(&held_bytes[kind], removed);
}

/* Not zeroed. */
static void *alloc_block(pn_mem_kind kind, size_t n, size_t size) {
    size_t bytes, padded;
    over_budget = false;
    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(bytes, 2 * ALIGNMENT - 1, &padded))
        return NULL;
    if (refused_by_hook() || !claim(kind, bytes)) return NULL;
    char *base = aligned_alloc(ALIGNMENT, padded / ALIGNMENT * ALIGNMENT);
    if (!base) {
        unclaim(kind, bytes);
        return NULL;
    }
    block_header *header = (block_header *)base;
    header->bytes = bytes;
    header->kind = kind;
    count(kind, bytes, 0);
    return base + ALIGNMENT;
}

void *pn_alloc(pn_mem_kind kind, size_t n, size_t size) {
    void *block = alloc_block(kind, n, size);
    if (block) memset(block, 0, header_of(block)->bytes);
    return block;
}

void *pn_realloc(void *block, size_t n, size_t size) {
    if (!block) return alloc_block(PN_MEM_OTHER, n, size);
    size_t old_bytes = header_of(block)->bytes;
    void *grown = alloc_block(header_of(block)->kind, n, size);
    if (!grown) return NULL;
    size_t new_bytes = header_of(grown)->bytes;
    memcpy(grown, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    pn_free(block);
    return grown;
}

void pn_free(void *block) {
    if (!block) return;
    block_header *header = header_of(block);
    count(header->kind, 0, header->bytes);
    unclaim(header->kind, header->bytes);
    free(header);
}

/* ---- pages ---- */

#define HUGE_PAGE ((size_t)2 << 20)

void *pn_pages_alloc(pn_mem_kind kind, size_t bytes) {
    size_t padded;
    over_budget = false;
    if (__builtin_add_overflow(bytes, 2 * HUGE_PAGE - 1, &padded) || refused_by_hook() || !claim(kind, bytes))
        return NULL;
    size_t whole = padded / HUGE_PAGE * HUGE_PAGE; /* room to begin on a huge page */
    char *map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        unclaim(kind, bytes);
        return NULL;
    }
    size_t before = (size_t)(-(uintptr_t)map % HUGE_PAGE), kept = whole - HUGE_PAGE;
    if (before > 0) munmap(map, before);
    munmap(map + before + kept, HUGE_PAGE - before);
    madvise(map + before, kept, MADV_HUGEPAGE); /* small pages work as well */
    count(kind, bytes, 0);
    return map + before;
}

void pn_pages_free(pn_mem_kind kind, void *pages, size_t bytes) {
    if (!pages) return;
    munmap(pages, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    count(kind, 0, bytes);
    unclaim(kind, bytes);
}

void pn_mem_load(uint64_t bytes, uint64_t mapped) {
    count(PN_MEM_MAPPED, (size_t)mapped, 0);
    raise_peak(&peak_total, atomic_fetch_add(&total_bytes, bytes) + bytes);
}

void pn_mem_unload(uint64_t bytes, uint64_t mapped) {
    count(PN_MEM_MAPPED, 0, (size_t)mapped);
    atomic_fetch_sub(&total_bytes, bytes);
}

uint64_t pn_mem_bytes(pn_mem_kind kind) {
    return atomic_load(&held_bytes[kind]);
}

uint64_t pn_mem_peak_bytes(pn_mem_kind kind) {
    return atomic_load(&peak_bytes[kind]);
}

/* ---- arena ---- */

#define ARENA_ALIGNMENT   16
#define ARENA_FIRST_CHUNK 1024u
#define ARENA_MAX_CHUNK   (256u * 1024u)

struct pn_arena_chunk {
    struct pn_arena_chunk *next;
    size_t cap, used;
    _Alignas(ARENA_ALIGNMENT) char data[];
};

void pn_arena_init(pn_arena *arena, size_t max_bytes) {
    *arena = (pn_arena){.max_bytes = max_bytes};
}

void pn_arena_done(pn_arena *arena) {
    struct pn_arena_chunk *chunk = arena->chunk;
    while (chunk) {
        struct pn_arena_chunk *next = chunk->next;
        pn_free(chunk);
        chunk = next;
    }
    *arena = (pn_arena){0};
}

static struct pn_arena_chunk *arena_grow(pn_arena *arena, size_t size) {
    size_t cap = arena->chunk ? arena->chunk->cap * 2 : ARENA_FIRST_CHUNK;
    if (cap > ARENA_MAX_CHUNK) cap = ARENA_MAX_CHUNK;
    if (cap < size) cap = size;
    size_t bytes;
    if (__builtin_add_overflow(cap, sizeof(struct pn_arena_chunk), &bytes)) return NULL;
    struct pn_arena_chunk *chunk = pn_alloc(PN_MEM_OTHER, 1, bytes);
    if (!chunk) return NULL;
    chunk->cap = cap;
    chunk->next = arena->chunk;
    arena->chunk = chunk;
    return chunk;
}

void *pn_arena_alloc(pn_arena *arena, size_t size) {
    size_t padded;
    if (__builtin_add_overflow(size, ARENA_ALIGNMENT - 1, &padded)) return NULL;
    padded = padded / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (padded == 0) padded = ARENA_ALIGNMENT;
    if (arena->max_bytes && (padded > arena->max_bytes || arena->total_bytes > arena->max_bytes - padded))
        return NULL;
    struct pn_arena_chunk *chunk = arena->chunk;
    if (!chunk || chunk->cap - chunk->used < padded) chunk = arena_grow(arena, padded);
    if (!chunk) return NULL;
    void *block = chunk->data + chunk->used;
    chunk->used += padded;
    arena->total_bytes += padded;
    return block;
}

char *pn_arena_copy(pn_arena *arena, const char *data, size_t len) {
    if (len == SIZE_MAX) return NULL;
    char *copy = pn_arena_alloc(arena, len + 1);
    if (copy && len) memcpy(copy, data, len);
    return copy;
}
