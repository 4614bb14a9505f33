/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64: small, fast, the same on every machine. */
#ifndef PN_BASE_RNG_H
#define PN_BASE_RNG_H

#include <stdint.h>

typedef struct pn_rng {
    uint64_t s[4];
} pn_rng;

void pn_rng_seed(pn_rng *rng, uint64_t seed);
uint64_t pn_rng_u64(pn_rng *rng);
/* Uniform in [0, 1), 53 bits. */
double pn_rng_unit(pn_rng *rng);
/* A seed from the operating system, for requests that bring none; below 2^53, so that JSON readers keep it
 * exact. */
uint64_t pn_rng_fresh_seed(void);

#endif
