/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the machine is ours: affinity, quota, cores. */
#include "base/cgroup.h"
#include "base/cpu.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU_FOLDER "/sys/devices/system/cpu"

/* A machine with more CPUs than the usual set holds makes sched_getaffinity fail: ask with more room. NULL
   when even that fails. For CPU_FREE. */
static cpu_set_t *affinity(int *n_cpus) {
    for (int n = CPU_SETSIZE; n <= CPU_SETSIZE * 64; n *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        if (!set) return NULL;
        size_t bytes = CPU_ALLOC_SIZE((size_t)n);
        if (sched_getaffinity(0, bytes, set) == 0 && CPU_COUNT_S(bytes, set) > 0) {
            *n_cpus = n;
            return set;
        }
        CPU_FREE(set);
    }
    return NULL;
}

static bool has_cpu(const cpu_set_t *set, int n_cpus, int cpu) {
    return cpu < n_cpus && CPU_ISSET_S((size_t)cpu, CPU_ALLOC_SIZE((size_t)n_cpus), set);
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
    int n_cpus, n = 1;
    cpu_set_t *set = affinity(&n_cpus);
    if (set) n = CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)n_cpus), set);
    CPU_FREE(set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0 && online < n) n = (int)online;
    pn_cgroup_walk("cpu", tighten, &n);
    return n < 1 ? 1 : n;
}

/* The lowest CPU of a list like "0-1,64-65" that is in the set; -1 for none. */
static int lowest_of(const char *list, const cpu_set_t *set, int n_cpus) {
    while (*list >= '0' && *list <= '9') {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < n_cpus; cpu++)
            if (has_cpu(set, n_cpus, (int)cpu)) return (int)cpu;
        list = end + (*end == ',');
    }
    return -1;
}

/* Whether the CPU stands for its core: siblings follow the lowest of them. Where nothing is known of
   siblings, each is a core. */
static bool stands_for_core(const char *folder, int cpu, const cpu_set_t *set, int n_cpus) {
    char dir[512], list[256];
    snprintf(dir, sizeof dir, "%s/cpu%d/topology", folder, cpu);
    if (!pn_control_line(dir, "thread_siblings_list", list, sizeof list)) return true;
    int lowest = lowest_of(list, set, n_cpus);
    return lowest < 0 || lowest == cpu;
}

int pn_cpu_usable_cores(const char *folder) {
    int n_cpus, n = 0, usable = pn_cpu_usable_threads();
    cpu_set_t *set = affinity(&n_cpus);
    for (int cpu = 0; set && cpu < n_cpus; cpu++)
        n += has_cpu(set, n_cpus, cpu) && stands_for_core(folder ? folder : CPU_FOLDER, cpu, set, n_cpus);
    CPU_FREE(set);
    return n < 1 ? 1 : n < usable ? n : usable;
}

/* ---- identity ---- */

/* A line that may be cut. */
struct text {
    char *data;
    size_t len, size;
};

PN_PRINTF(2, 3) static void add(struct text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->data + t->len, t->size - t->len, format, args);
    va_end(args);
    if (n > 0) t->len = t->len + (size_t)n < t->size ? t->len + (size_t)n : t->size - 1;
}

/* The model of the first CPU: a name, or the two numbers that stand for it on ARM. */
static void add_model(struct text *t) {
    static const char *const keys[] = {"model name", "CPU implementer", "CPU part"};
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    char line[1024];
    while (fgets(line, sizeof line, file) && line[0] != '\n') {
        const char *value = strchr(line, ':');
        if (value) value += 1 + strspn(value + 1, " ");
        for (size_t i = 0; value && i < sizeof keys / sizeof keys[0]; i++)
            if (strncmp(line, keys[i], strlen(keys[i])) == 0)
                add(t, "%.*s, ", (int)strcspn(value, "\n"), value);
    }
    fclose(file);
}

static void add_cpus(struct text *t) {
    int n_cpus;
    cpu_set_t *set = affinity(&n_cpus);
    for (int cpu = 0; set && cpu < n_cpus; cpu++) {
        if (!has_cpu(set, n_cpus, cpu)) continue;
        int last = cpu;
        while (has_cpu(set, n_cpus, last + 1))
            last++;
        add(t, " %d-%d", cpu, last);
        cpu = last;
    }
    CPU_FREE(set);
}

void pn_cpu_identify(char *line, size_t size) {
    struct text t = {.data = line, .size = size};
    add_model(&t);
    add(&t, "CPUs");
    add_cpus(&t);
    add(&t, ", %d usable", pn_cpu_usable_threads());
}
