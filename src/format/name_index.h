/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a record by name: an open-addressed hash table of record numbers over an array that somebody else
   owns. The hash is keyed with a fresh secret, so that no file can be made whose names collide. */
#ifndef PN_FORMAT_NAME_INDEX_H
#define PN_FORMAT_NAME_INDEX_H

#include "base/slice.h"

typedef struct pn_name_index {
    uint32_t *slots; /* record number + 1, 0 for an empty slot */
    size_t mask;     /* slots less one; slots are a power of two and at least twice the records */
    uint64_t key[2];
    const char *records; /* each begins with a pn_str, its name */
    size_t record_bytes;
} pn_name_index;

enum { PN_NAME_INDEX_MAX = 1 << 30 }; /* records */

#define PN_NAME_NONE SIZE_MAX

/* Takes n records at `records`, which must stay where they are and keep their names until pn_name_index_done.
   When a name stands twice, *duplicate is the number of the later record, else PN_NAME_NONE, and the index
   holds the earlier one; n is at most PN_NAME_INDEX_MAX. PN_ERR_MEMORY leaves the index empty. */
pn_status pn_name_index_init(pn_name_index *index, const void *records, size_t n, size_t record_bytes,
                             size_t *duplicate, pn_error *err);
void pn_name_index_done(pn_name_index *index); /* also of an index that is all zero */

/* Number of the record of that name, or PN_NAME_NONE. */
size_t pn_name_index_find(const pn_name_index *index, pn_str name);

/* SipHash-2-4 (Aumasson and Bernstein, 2012). */
uint64_t pn_siphash(const uint64_t key[2], const void *data, size_t len);

#endif
