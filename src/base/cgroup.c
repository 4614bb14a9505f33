/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

#define MOUNT    "/sys/fs/cgroup"
#define MAX_PATH 1400

/* From base + group up to base. */
static void walk_up(const char *base, const char *group, bool v2, pn_cgroup_fn fn, void *user) {
    char dir[MAX_PATH];
    snprintf(dir, sizeof dir, "%s%s", base, strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        fn(user, dir, v2);
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= strlen(base) || !slash) return;
        *slash = '\0';
    }
}

/* Whether a comma-separated list holds the name. */
static bool lists(const char *list, const char *name) {
    size_t len = strlen(name);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strncmp(list, name, len) == 0 && (list[len] == ',' || list[len] == '\0')) return true;
    return false;
}

void pn_cgroup_walk(const char *controller, pn_cgroup_fn fn, void *user) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return;
    char line[1200];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        /* "0::/path" is v2; "4:cpu,cpuacct:/path" is v1, mounted under the list or under each name. */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        char base[256];
        if (*controllers == '\0') {
            walk_up(MOUNT, group, true, fn, user);
        } else if (lists(controllers, controller)) {
            snprintf(base, sizeof base, MOUNT "/%s", controllers);
            walk_up(base, group, false, fn, user);
            if (strcmp(controllers, controller) == 0) continue;
            snprintf(base, sizeof base, MOUNT "/%s", controller);
            walk_up(base, group, false, fn, user);
        }
    }
    fclose(file);
}

static FILE *open_in(const char *dir, const char *name) {
    char path[MAX_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, "re");
}

bool pn_control_line(const char *dir, const char *name, char *line, int size) {
    FILE *file = open_in(dir, name);
    if (!file) return false;
    bool ok = fgets(line, size, file) != NULL;
    fclose(file);
    return ok;
}

uint64_t pn_control_number(const char *dir, const char *name, const char *key) {
    FILE *file = open_in(dir, name);
    if (!file) return 0;
    char line[256], found[64];
    unsigned long long value = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %llu", found, &value) == 2 && strcmp(found, key) == 0) break;
        value = 0;
    }
    fclose(file);
    return value;
}
