/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Lowest step first. */
static const struct {
    uint32_t bit, lower; /* itself, and what lies below it */
    const char *name;
} features[] = {
    {0, 0, "scalar"},
    {PN_CPU_AVX2, 0, "avx2"},
    {PN_CPU_AVXVNNI, PN_CPU_AVX2, "avxvnni"},
    {PN_CPU_AVX512, PN_CPU_AVX2 | PN_CPU_AVXVNNI, "avx512"},
    {PN_CPU_AVX512VNNI, PN_CPU_AVX512 | PN_CPU_AVX2 | PN_CPU_AVXVNNI, "avx512vnni"},
    {PN_CPU_AMX, PN_CPU_AVX512VNNI | PN_CPU_AVX512 | PN_CPU_AVX2 | PN_CPU_AVXVNNI, "amx"},
    {PN_CPU_NEON, 0, "neon"},
    {PN_CPU_DOTPROD, PN_CPU_NEON, "dotprod"},
    {PN_CPU_I8MM, PN_CPU_DOTPROD | PN_CPU_NEON, "i8mm"},
};

#define N_FEATURES (sizeof features / sizeof features[0])

const char *pn_cpu_feature_name(uint32_t mask) {
    size_t i = N_FEATURES - 1;
    while (i > 0 && !(mask & features[i].bit))
        i--;
    return features[i].name;
}

#if defined(__x86_64__)

/* Asked of the CPU itself: not every compiler knows these features by name. */
static unsigned cpuid_word(unsigned leaf, unsigned subleaf, int word) {
    unsigned words[4] = {0};
    if (!__get_cpuid_count(leaf, subleaf, &words[0], &words[1], &words[2], &words[3])) return 0;
    return words[word];
}

enum { EAX, EBX, ECX, EDX };

/* The state that the system saves and restores; only where AVX was found. */
static unsigned saved_state(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Tile registers are large, so a process has to ask for them; all its threads, and the children that it
   forks, then have them. The system refuses where a thread has an alternate signal stack too small for them,
   and afterwards refuses such stacks, so this is asked only when tiles are to be used. */
static bool may_use_tiles(void) {
    const unsigned tile = 1u << 24, tile_int8 = 1u << 25, tile_bf16 = 1u << 22,
                   all = tile | tile_int8 | tile_bf16, saved = 1u << 17 | 1u << 18;
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return (cpuid_word(7, 0, EDX) & all) == all && (saved_state() & saved) == saved &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* What there is; of tiles only if they are among those to keep. */
static uint32_t detect(uint32_t keep) {
    const unsigned f16c = 1u << 29, avx_vnni = 1u << 4;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2") || !(cpuid_word(1, 0, ECX) & f16c))
        return 0;
    uint32_t found = PN_CPU_AVX2;
    if (cpuid_word(7, 1, EAX) & avx_vnni) found |= PN_CPU_AVXVNNI;
    /* The compiler's run-time also asks whether the system saves the wide registers. */
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return found;
    found |= PN_CPU_AVX512;
    if (!__builtin_cpu_supports("avx512vnni")) return found;
    found |= PN_CPU_AVX512VNNI;
    return keep & PN_CPU_AMX && may_use_tiles() ? found | PN_CPU_AMX : found;
}

#elif defined(__aarch64__)

static uint32_t detect(uint32_t keep) {
    (void)keep;
    uint32_t found = PN_CPU_NEON;
    if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return found;
    found |= PN_CPU_DOTPROD;
    return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? found | PN_CPU_I8MM : found;
}

#else

static uint32_t detect(uint32_t keep) {
    (void)keep;
    return 0;
}

#endif

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
            mask |= features[i].bit | features[i].lower;
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
    return pn_fail(err, PN_ERR_ARGUMENT,
                   "PN_CPU names \"%.*s\": known are scalar, avx2, avxvnni, avx512, avx512vnni, amx, neon, "
                   "dotprod and i8mm",
                   (int)strcspn(unknown, ","), unknown);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t host_features;

static void init_host_features(void) {
    const char *list = getenv("PN_CPU"), *unknown;
    uint32_t keep = list && *list ? listed(list, &unknown) : UINT32_MAX;
    host_features = detect(keep) & keep;
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
