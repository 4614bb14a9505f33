/* SPDX-License-Identifier: Apache-2.0 */
/* Where time goes: a lap clock of the thread that computes. Each lap charges the time since the last one to
   an operation, so that the operations add up to the whole. Where the profile is NULL, nothing is timed. */
#ifndef PN_OPS_PROFILE_H
#define PN_OPS_PROFILE_H

#include "base/pool.h"

#include <postern.h>

typedef enum pn_op {
#define PN_OP(id, name) PN_OP_##id,
#include "ops/profile.inc"
#undef PN_OP
    PN_OP_COUNT
} pn_op;

typedef struct pn_profile {
    pn_pool *pool;
    double last, waited; /* when the last lap ended, and the pool's waiting until then */
    pn_operation ops[PN_OP_COUNT];
} pn_profile;

/* All at zero, from now on, and the pool times its waiting; no longer after the end. */
void pn_profile_begin(pn_profile *profile, pn_pool *pool);
void pn_profile_end(pn_profile *profile);

void pn_profile_charge(pn_profile *profile, pn_op op);
static inline void pn_profile_lap(pn_profile *profile, pn_op op) {
    if (profile) pn_profile_charge(profile, op);
}

/* What the operation has done besides, for rates. */
static inline void pn_profile_work(pn_profile *profile, pn_op op, uint64_t macs, uint64_t bytes) {
    if (!profile) return;
    profile->ops[op].macs += macs;
    profile->ops[op].bytes += bytes;
}

#endif
