/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the CPU and about how much of it this process may use. Detected once. */
#ifndef PN_BASE_CPU_H
#define PN_BASE_CPU_H

#include <stdint.h>

typedef enum pn_cpu_feature {
    PN_CPU_AVX2 = 1u << 0, /* AVX2 + FMA + F16C + BMI2, as every x86-64-v3 CPU has them */
} pn_cpu_feature;

/* Features of this CPU, less those that the environment variable PN_CPU masks off. PN_CPU is a
   comma-separated list of feature names to keep ("avx2"), or "scalar" for none; unset keeps all. */
uint32_t pn_cpu_features(void);
/* Name of one feature bit as PN_CPU spells it, or NULL. */
const char *pn_cpu_feature_name(uint32_t bit);

/* Tells the core that this is a spin loop. */
void pn_cpu_pause(void);

/* Threads worth starting: the least of the affinity mask, the cgroup (v1 or v2) CPU quota rounded down, and
   the online cores; at least 1. */
int pn_cpu_usable_threads(void);

#endif
