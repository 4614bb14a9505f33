/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is for a model and its context: the system's own estimate, and what the control
   groups leave. File pages are counted as free in both, since the kernel takes them back: mapped weights are
   such pages. */
#include "base/cgroup.h"
#include "base/mem.h"

#include <postern.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static uint64_t read_number(const char *dir, const char *name) {
    char line[64];
    if (!pn_control_line(dir, name, line, sizeof line) || strncmp(line, "max", 3) == 0) return UINT64_MAX;
    return strtoull(line, NULL, 10);
}

static void tighten(void *user, const char *dir, bool v2) {
    uint64_t *best = user;
    uint64_t limit = read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes");
    uint64_t used = read_number(dir, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (limit == UINT64_MAX || used == UINT64_MAX) return;
    uint64_t files = pn_control_number(dir, "memory.stat", v2 ? "inactive_file" : "total_inactive_file") +
                     pn_control_number(dir, "memory.stat", v2 ? "active_file" : "total_active_file");
    uint64_t held = used > files ? used - files : 0, left = limit > held ? limit - held : 0;
    if (left < *best) *best = left;
}

uint64_t pn_memory_available(void) {
    uint64_t kib = pn_control_number("/proc", "meminfo", "MemAvailable:");
    uint64_t best = kib ? kib * 1024 : UINT64_MAX;
    pn_cgroup_walk("memory", tighten, &best);
    return best == UINT64_MAX ? 0 : best;
}

/* A limit of the address space, or of private memory, leaves what the process does not have of it: program,
   libraries and stacks count in both. */
static uint64_t within_limit(int resource, const char *used_key, uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return bytes;
    const uint64_t used = pn_control_number("/proc/self", "status", used_key) * 1024,
                   left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
    return left < bytes ? left : bytes;
}

#define LEAST_RESERVE ((uint64_t)16 << 20)

uint64_t pn_memory_default_budget(void) {
    uint64_t bytes = pn_memory_available();
    if (bytes == 0) return 0;
    bytes = within_limit(RLIMIT_AS, "VmSize:", bytes);
    bytes = within_limit(RLIMIT_DATA, "VmData:", bytes) + pn_mem_total();
    const uint64_t reserve = bytes / 20 > LEAST_RESERVE ? bytes / 20 : LEAST_RESERVE;
    return bytes > reserve ? bytes - reserve : 0;
}

void pn_memory_set_budget(uint64_t bytes) {
    pn_mem_set_budget(bytes);
}

void pn_memory_get_use(pn_memory_use *now, pn_memory_use *peak) {
    pn_memory_use *const out[] = {now, peak};
    for (int i = 0; i < 2; i++) {
        uint64_t (*const bytes)(pn_mem_kind) = i == 0 ? pn_mem_bytes : pn_mem_peak_bytes;
        if (out[i])
            *out[i] = (pn_memory_use){.weights = bytes(PN_MEM_WEIGHTS) + bytes(PN_MEM_MAPPED),
                                      .kv = bytes(PN_MEM_KV),
                                      .scratch = bytes(PN_MEM_SCRATCH),
                                      .tables = bytes(PN_MEM_OTHER),
                                      .total = i == 0 ? pn_mem_total() : pn_mem_peak_total()};
    }
}
