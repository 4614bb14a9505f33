/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include "base/cgroup.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Lowest step first. */
static const struct {
    uint32_t bit, with_lower;
    const char *name;
} features[] = {
    {0, 0, "scalar"},
    {PN_CPU_AVX2, PN_CPU_AVX2, "avx2"},
    {PN_CPU_AVX512, PN_CPU_AVX512 | PN_CPU_AVX2, "avx512"},
};

#define N_FEATURES (sizeof features / sizeof features[0])

const char *pn_cpu_feature_name(uint32_t mask) {
    size_t i = N_FEATURES - 1;
    while (i > 0 && !(mask & features[i].bit))
        i--;
    return features[i].name;
}

#if defined(__x86_64__)
/* Asked of the CPU itself: not every compiler knows this feature by name. */
static int has_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static uint32_t detect(void) {
    uint32_t found = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
        has_f16c())
        found |= PN_CPU_AVX2;
    /* The compiler's run-time also asks whether the system saves the wide registers. */
    if (found && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        found |= PN_CPU_AVX512;
#endif
    return found;
}

/* Index of the feature spelled so, N_FEATURES for none. */
static size_t find_feature(const char *name, size_t len) {
    size_t i = 0;
    while (i < N_FEATURES &&
           !(strlen(features[i].name) == len && strncasecmp(features[i].name, name, len) == 0))
        i++;
    return i;
}

/* Features that a comma-separated list keeps; *unknown is the first word that is no name, or NULL. */
static uint32_t listed(const char *list, const char **unknown) {
    uint32_t mask = 0;
    *unknown = NULL;
    while (*list) {
        size_t len = strcspn(list, ","), i = find_feature(list, len);
        if (i < N_FEATURES)
            mask |= features[i].with_lower;
        else if (!*unknown)
            *unknown = list;
        list += len + (list[len] == ',');
    }
    return mask;
}

pn_status pn_cpu_check(pn_error *err) {
    const char *list = getenv("PN_CPU"), *unknown = NULL;
    if (list) listed(list, &unknown);
    if (!unknown) return PN_OK;
    return pn_fail(err, PN_ERR_ARGUMENT, "PN_CPU names \"%.*s\": known are scalar, avx2 and avx512",
                   (int)strcspn(unknown, ","), unknown);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t host_features;

static void init_host_features(void) {
    const char *list = getenv("PN_CPU"), *unknown;
    host_features = detect() & (list && *list ? listed(list, &unknown) : UINT32_MAX);
}

uint32_t pn_cpu_features(void) {
    pthread_once(&once, init_host_features);
    return host_features;
}

void pn_cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* ---- how much of the machine is ours ---- */

static int affinity_threads(void) {
    /* A machine with more CPUs than the usual set holds makes sched_getaffinity fail: ask with more room. */
    for (int n_cpus = CPU_SETSIZE; n_cpus <= CPU_SETSIZE * 64; n_cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)n_cpus);
        if (!set) break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)n_cpus);
        int n = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (n > 0) return n;
    }
    return 1;
}

/* cpu.max holds "QUOTA PERIOD" or "max PERIOD"; v1 has a file for each and -1 for none. */
static void tighten(void *user, const char *dir, bool v2) {
    int *best = user;
    char line[128], period_line[64];
    long long quota = 0, period = 0;
    if (v2 && pn_control_line(dir, "cpu.max", line, sizeof line)) {
        if (sscanf(line, "%lld %lld", &quota, &period) != 2) return;
    } else if (!v2 && pn_control_line(dir, "cpu.cfs_quota_us", line, sizeof line) &&
               pn_control_line(dir, "cpu.cfs_period_us", period_line, sizeof period_line)) {
        quota = atoll(line);
        period = atoll(period_line);
    }
    if (quota <= 0 || period <= 0) return;
    long long n = quota / period;
    if (n < *best) *best = n < 1 ? 1 : (int)n;
}

int pn_cpu_usable_threads(void) {
    int n = affinity_threads();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0 && online < n) n = (int)online;
    pn_cgroup_walk("cpu", tighten, &n);
    return n < 1 ? 1 : n;
}
