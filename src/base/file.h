/* SPDX-License-Identifier: Apache-2.0 */
/* Files: read-only mapping. */
#ifndef PN_BASE_FILE_H
#define PN_BASE_FILE_H

#include "base/slice.h"

typedef struct pn_map {
    const uint8_t *data; /* NULL when the file is empty */
    uint64_t len;
} pn_map;

/* Maps a regular file read-only and shared. PN_ERR_IO names the path and the system's reason; a directory, a
   pipe or an empty file is refused with words of its own. */
pn_status pn_map_open(const char *path, pn_map *out, pn_error *err);
void pn_map_close(pn_map *map);
/* Gives back the memory of mapped bytes that will hardly be read again; reading them still works. */
void pn_map_forget(const void *data, size_t len);

#endif
