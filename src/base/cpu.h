/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the CPU and about how much of it this process may use. Detected once. */
#ifndef PN_BASE_CPU_H
#define PN_BASE_CPU_H

#include "base/status.h"

typedef enum pn_cpu_feature {
    PN_CPU_AVX2 = 1u << 0,   /* AVX2 + FMA + F16C + BMI2, as every x86-64-v3 CPU has them */
    PN_CPU_AVX512 = 1u << 1, /* and F + BW + DQ + VL, as x86-64-v4; only ever together with PN_CPU_AVX2 */
} pn_cpu_feature;

/* Features of this CPU, less those that the environment variable PN_CPU masks off. PN_CPU is a
   comma-separated list of feature names to keep, each with the steps below it ("avx512" keeps avx2 too), or
   "scalar" for none; unset or empty keeps all. Case does not matter. */
uint32_t pn_cpu_features(void);
/* PN_ERR_ARGUMENT when PN_CPU holds a word that is no name; it keeps nothing. */
pn_status pn_cpu_check(pn_error *err);
/* Name of the highest of these features, "scalar" for none: as PN_CPU spells it. */
const char *pn_cpu_feature_name(uint32_t features);

/* Tells the core that this is a spin loop. */
void pn_cpu_pause(void);

/* Threads worth starting: the least of the affinity mask, the cgroup (v1 or v2) CPU quota rounded down, and
   the online cores; at least 1. */
int pn_cpu_usable_threads(void);

#endif
