/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when a text does not fit the context. Sliding keeps its beginning and its end: what lies
   between is cut out, and the end is computed again where it then stands, so that positions, and the bits,
   are those of the shorter text. How much is cut depends on lengths alone, and goes in large steps: the next
   turns of a chat find the same cut, and what they share with this one in the cache. */
#include "engine/engine.h"

#include <string.h>

/* Some tokens of the beginning are always kept: models rest much attention on them (Xiao et al., 2023). */
#define MIN_KEEP 4

size_t pn_overflow_cut(size_t n, size_t n_keep, size_t n_ctx) {
    if (n < n_ctx) return 0;
    const size_t step = (n_ctx - n_keep) / 2, too_many = n - n_ctx + 1;
    return (too_many + step - 1) / step * step;
}

pn_status pn_overflow_keep(size_t asked, size_t n_ctx, size_t *out, pn_error *err) {
    const size_t keep = asked < MIN_KEEP ? MIN_KEEP : asked;
    if (keep > n_ctx / 2)
        return pn_fail(
            err, PN_ERR_LIMIT,
            "the %zu tokens that are to be kept take more than half of the context of %zu: shorten the "
            "system message or ask for a larger context",
            keep, n_ctx);
    *out = keep;
    return PN_OK;
}

pn_status pn_overflow_sync(pn_session *s, const int32_t *tokens, size_t n, size_t n_keep, size_t cut,
                           pn_progress_fn progress, void *user, pn_error *err) {
    if (cut == 0) return pn_session_sync(s, tokens, n, progress, user, err);
    int32_t *rest = pn_alloc(PN_MEM_SCRATCH, n - cut, sizeof *rest);
    if (!rest) return pn_fail_memory(err, "shortened text", (n - cut) * sizeof *rest);
    memcpy(rest, tokens, n_keep * sizeof *rest);
    memcpy(rest + n_keep, tokens + n_keep + cut, (n - n_keep - cut) * sizeof *rest);
    const pn_status status = pn_session_sync(s, rest, n - cut, progress, user, err);
    pn_free(rest);
    s->cut_at = n_keep;
    if (s->cause == PN_CACHE_CHANGED) s->cause = PN_CACHE_SLID;
    return status;
}
