/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups (v1 and v2): the folders whose files limit this process; and reading such small files of the
   kernel's, in /proc too. */
#ifndef PN_BASE_CGROUP_H
#define PN_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Calls fn for our own group and each of its ancestors, any of which may hold the tightest limit. controller
   is the v1 name
   ("cpu", "memory"); a folder or file that is not there is the caller's to notice. In a container the mount
   often shows our own group at its root, which is the last one called. */
typedef void (*pn_cgroup_fn)(void *user, const char *dir, bool v2);
void pn_cgroup_walk(const char *controller, pn_cgroup_fn fn, void *user);

/* The first line of dir/name; false when there is none. */
bool pn_control_line(const char *dir, const char *name, char *line, int size);
/* The number on the line "key NUMBER" of dir/name, 0 when there is none. */
uint64_t pn_control_number(const char *dir, const char *name, const char *key);

#endif
