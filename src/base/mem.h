/* SPDX-License-Identifier: Apache-2.0 */
/* All allocation. Every block carries its category, so that the three walls can be printed, and its size. */
#ifndef PN_BASE_MEM_H
#define PN_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum pn_mem_kind {
    PN_MEM_OTHER,   /* tables, norms and biases, tokenizer, templates */
    PN_MEM_WEIGHTS, /* packed matrices */
    PN_MEM_MAPPED,  /* matrices that are read from a mapped file as they lie */
    PN_MEM_KV,
    PN_MEM_SCRATCH, /* activations, logits */
    PN_MEM_KIND_COUNT
} pn_mem_kind;

/* n * size bytes, zeroed, aligned to 64. NULL when the product overflows, the system refuses, or the test
   hook says so. n or size of 0 gives a valid block of no bytes. Freed with pn_free. */
void *pn_alloc(pn_mem_kind kind, size_t n, size_t size);

/* Grows or shrinks to n * size bytes, keeping the contents; new bytes are not zeroed. block may be NULL (kind
   is then PN_MEM_OTHER). On failure returns NULL and leaves block as it was. */
void *pn_realloc(void *block, size_t n, size_t size);

void pn_free(void *block); /* NULL is fine */

/* Pages for something large that lives long: zeroed, taken from the system only as they are touched, in huge
   pages where it gives them, aligned to 2 MiB. NULL as for pn_alloc. bytes > 0. Freed with pn_pages_free. */
void *pn_pages_alloc(pn_mem_kind kind, size_t bytes);
void pn_pages_free(pn_mem_kind kind, void *pages, size_t bytes); /* NULL is fine */

/* Bytes now held, and the most that were held at once, in one category. */
uint64_t pn_mem_bytes(pn_mem_kind kind);
uint64_t pn_mem_peak_bytes(pn_mem_kind kind);

/* Weights are read from now on, or no longer: their bytes, of which so many lie in a mapped file. */
void pn_mem_load(uint64_t bytes, uint64_t mapped);
void pn_mem_unload(uint64_t bytes, uint64_t mapped);

/* What all kinds together may come to, 0: no limit. An allocation beyond it fails. Weights count when they
   are loaded, and always can be: whether they fit is known, and to be checked, before. */
void pn_mem_set_budget(uint64_t bytes);
uint64_t pn_mem_budget(void);
uint64_t pn_mem_total(void);
uint64_t pn_mem_peak_total(void); /* the most at once, which is less than the peaks of all kinds together */
/* pn_mem_why, of base/status.h: where this thread's last allocation failed for the budget "; the memory
   budget of ... is used up", or else "". Valid until its next allocation. */
/* Test hook: the nth allocation from now (1 = the next) fails, once; 0 switches the hook off.
   Returns how many allocations were made since the last call. */
uint64_t pn_mem_fail_at(uint64_t nth);

/* a * b and a + b, false when the result does not fit. */
bool pn_mul_u64(uint64_t a, uint64_t b, uint64_t *out);
bool pn_add_u64(uint64_t a, uint64_t b, uint64_t *out);

/* Arena: many small blocks with one lifetime. */
typedef struct pn_arena {
    struct pn_arena_chunk *chunk; /* newest first */
    size_t total_bytes, max_bytes;
} pn_arena;

/* max_bytes bounds what the arena may hand out in total; 0 means no bound. */
void pn_arena_init(pn_arena *arena, size_t max_bytes);
void pn_arena_done(pn_arena *arena);

/* size bytes, zeroed, aligned to 16; NULL when memory or the bound is exhausted. */
void *pn_arena_alloc(pn_arena *arena, size_t size);
/* Copy of len bytes with a terminating NUL; NULL like pn_arena_alloc. */
char *pn_arena_copy(pn_arena *arena, const char *data, size_t len);

#endif
