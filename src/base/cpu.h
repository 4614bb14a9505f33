/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the CPU and about how much of it this process may use. Detected once. */
#ifndef PN_BASE_CPU_H
#define PN_BASE_CPU_H

#include "base/status.h"

typedef enum pn_cpu_feature {
    PN_CPU_AVX2 = 1u << 0,       /* AVX2 + FMA + F16C + BMI2, as every x86-64-v3 CPU has them */
    PN_CPU_AVXVNNI = 1u << 1,    /* and byte dot products on 256 bits */
    PN_CPU_AVX512 = 1u << 2,     /* AVX2 and F + BW + DQ + VL, as x86-64-v4; not all have AVXVNNI */
    PN_CPU_AVX512VNNI = 1u << 3, /* and byte dot products on 512 bits */
    PN_CPU_AMX = 1u << 4,        /* and tiles of int8 and bfloat16, which the system lets us use */
    PN_CPU_NEON = 1u << 5,       /* of every 64-bit ARM */
    PN_CPU_DOTPROD = 1u << 6,    /* and SDOT */
    PN_CPU_I8MM = 1u << 7,       /* and SMMLA */
} pn_cpu_feature;

/* Features of this CPU, less those that the environment variable PN_CPU masks off. A bit comes only with
   those that its description builds on. PN_CPU is a comma-separated list of feature names to keep, each with
   the steps below it ("avx512" keeps avx2 too), or "scalar" for none; unset or empty keeps all. Case does not
   matter. */
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
/* The same, counting siblings that share a core once. folder is where the system describes its CPUs, NULL for
   /sys/devices/system/cpu. */
int pn_cpu_usable_cores(const char *folder);

/* One line that tells this CPU, and our share of it, from another: model, CPUs of the affinity mask, usable
   threads. Cut to size. */
void pn_cpu_identify(char *line, size_t size);

#endif
