/* SPDX-License-Identifier: Apache-2.0 */
#include "scoring.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS 8 /* of logits at a time: a vocabulary may have 256 Ki tokens */

static pn_status no_memory(pn_error *err) {
    *err = (pn_error){.code = PN_ERR_MEMORY, .position = PN_NO_POSITION};
    snprintf(err->message, sizeof err->message, "there is no memory for log-probabilities");
    return PN_ERR_MEMORY;
}

/* Scores the tokens that follow each of first .. end, as far as there are any. */
static pn_status score_chunk(pn_session *session, const pn_model *model, const pn_tokens *prompt,
                             size_t first, size_t end, int n_top, float *logits, size_t n_vocab,
                             scored_tokens *list, pn_error *err) {
    for (size_t at = first; at < end && at + 1 < prompt->n; at += ROWS) {
        const size_t n = end - at < ROWS ? end - at : ROWS;
        const pn_status status = pn_session_logits_at(session, at, n, logits, err);
        if (status != PN_OK) return status;
        for (size_t i = 0; i < n && at + i + 1 < prompt->n; i++)
            if (!logprobs_add(list, model, logits + i * n_vocab, n_vocab, prompt->ids[at + i + 1], n_top))
                return no_memory(err);
    }
    return PN_OK;
}

pn_status scoring_prompt(pn_session *session, const pn_model *model, const pn_tokens *prompt, int n_top,
                         scored_tokens *list, pn_error *err) {
    pn_model_info info;
    pn_model_get_info(model, &info);
    const size_t n_vocab = (size_t)info.n_vocab;
    float *logits = calloc(ROWS * n_vocab, sizeof *logits);
    if (logits == NULL) return no_memory(err);
    /* What is taken over has no logits. */
    pn_session_set_takeover(session, false);
    pn_status status = pn_session_sync(session, NULL, 0, NULL, NULL, err);
    if (status == PN_OK && !logprobs_add(list, model, NULL, n_vocab, prompt->ids[0], n_top))
        status = no_memory(err);
    for (size_t first = 0; status == PN_OK && first < prompt->n; first += SCORING_CHUNK) {
        const size_t end = prompt->n - first < SCORING_CHUNK ? prompt->n : first + SCORING_CHUNK;
        status = pn_session_sync(session, prompt->ids, end, NULL, NULL, err);
        if (status == PN_OK)
            status = score_chunk(session, model, prompt, first, end, n_top, logits, n_vocab, list, err);
    }
    free(logits);
    return status;
}
