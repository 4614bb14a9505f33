/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/activations.h"

#include "base/mem.h"

#include <string.h>

#define DAMPING 0.01 /* of the mean second moment, as GPTQ has it */

uint64_t pn_activations_bytes(size_t max_n, size_t max_heldout) {
    return pn_gram_bytes(max_n) + (uint64_t)max_n * (max_heldout + 1) * sizeof(float);
}

pn_status pn_activations_create(size_t max_n, size_t max_heldout, pn_activations *out, pn_error *err) {
    pn_activations a = {.max_heldout = max_heldout};
    PN_TRY(pn_gram_create(max_n, &a.gram, err));
    a.mean_square = pn_alloc(PN_MEM_SCRATCH, max_n, sizeof *a.mean_square);
    a.heldout = pn_alloc(PN_MEM_SCRATCH, max_heldout * max_n, sizeof *a.heldout);
    if (!a.mean_square || !a.heldout) {
        pn_activations_free(&a);
        return pn_fail_memory(err, "inputs to judge by", max_heldout * max_n * sizeof *a.heldout);
    }
    *out = a;
    return PN_OK;
}

void pn_activations_free(pn_activations *a) {
    pn_gram_free(&a->gram);
    pn_free(a->mean_square);
    pn_free(a->heldout);
    *a = (pn_activations){0};
}

void pn_activations_begin(pn_activations *a, size_t n) {
    pn_gram_begin(&a->gram, n);
    a->n_tok = 0;
    a->n_heldout = 0;
}

void pn_activations_add(pn_activations *a, const pn_kernels *kernels, pn_pool *pool, const float *x,
                        size_t n_tok) {
    pn_gram_add(&a->gram, kernels, pool, x, n_tok);
    a->n_tok += n_tok;
}

void pn_activations_keep(pn_activations *a, const float *x, size_t n_tok) {
    const size_t n = a->gram.n, room = a->max_heldout - a->n_heldout, some = n_tok < room ? n_tok : room;
    memcpy(a->heldout + a->n_heldout * n, x, some * n * sizeof *x);
    a->n_heldout += some;
}

pn_status pn_activations_finish(pn_activations *a, const pn_kernels *kernels, pn_pool *pool, pn_error *err) {
    for (size_t c = 0; c < a->gram.n; c++)
        a->mean_square[c] = a->gram.h[c * a->gram.stride + c] / (float)a->n_tok;
    return pn_gram_factor(&a->gram, kernels, pool, DAMPING, err);
}
