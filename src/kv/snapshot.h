/* SPDX-License-Identifier: Apache-2.0 */
/* What a timeline's text has in the tree of prefixes, held for longer than the timeline: while it is written
   to a file, or because it is pinned. */
#ifndef PN_KV_SNAPSHOT_H
#define PN_KV_SNAPSHOT_H

#include "kv/kv.h"

/* The first block that a token after n blocks sees in a lane. */
size_t pn_kv_first_seen(const pn_kv_shape *shape, pn_kv_lane lane, size_t n_blocks);
/* Whether the model has layers in a lane. */
bool pn_kv_has_lane(const pn_kv_shape *shape, pn_kv_lane lane);

/* The blocks that the tree has of a timeline's text, held so that they stay there and are not written. */
typedef struct pn_kv_snapshot {
    pn_kv_store *store;
    size_t n_blocks;
    pn_prefix_node *end;  /* of the last of them; NULL where there is none */
    pn_kv_block **blocks; /* [n_blocks * PN_KV_LANES] NULL where there is none, or it was let go of */
    bool *parted;         /* [n_blocks] other texts went on from here */
} pn_kv_snapshot;

/* Of a text that is published (kv.h); of no blocks where there are none in the tree. PN_ERR_MEMORY. */
pn_status pn_kv_snapshot_take(pn_kv *kv, pn_kv_snapshot *out, pn_error *err);
void pn_kv_snapshot_done(pn_kv_snapshot *snapshot); /* all zero is fine */
/* Lets go of one of them. */
void pn_kv_snapshot_drop(pn_kv_snapshot *snapshot, size_t block, pn_kv_lane lane);
/* Lets go of the blocks of windowed layers but those that a text sees which goes on from the end. */
void pn_kv_snapshot_trim(pn_kv_snapshot *snapshot);
/* How many blocks it holds, by lane and type, and their bytes. */
pn_kv_need pn_kv_snapshot_need(const pn_kv_snapshot *snapshot);
uint64_t pn_kv_snapshot_bytes(const pn_kv_snapshot *snapshot);

#endif
