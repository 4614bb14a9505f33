/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile.h"

#include "base/clock.h"

void pn_profile_begin(pn_profile *profile, pn_pool *pool) {
    static const char *const names[PN_OP_COUNT] = {
#define PN_OP(id, name) [PN_OP_##id] = name,
#include "ops/profile.inc"
#undef PN_OP
    };
    pn_pool_time_waits(pool, true);
    *profile = (pn_profile){.pool = pool, .last = pn_clock_seconds(), .waited = pn_pool_waited(pool)};
    for (int op = 0; op < PN_OP_COUNT; op++)
        profile->ops[op].name = names[op];
}

void pn_profile_end(pn_profile *profile) {
    pn_pool_time_waits(profile->pool, false);
}

void pn_profile_charge(pn_profile *profile, pn_op op) {
    double now = pn_clock_seconds(), waited = pn_pool_waited(profile->pool);
    profile->ops[op].seconds += now - profile->last;
    profile->ops[op].waiting_seconds += waited - profile->waited;
    profile->ops[op].n_laps++;
    profile->last = now;
    profile->waited = waited;
}
