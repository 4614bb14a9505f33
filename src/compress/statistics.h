/* SPDX-License-Identifier: Apache-2.0 */
/* What measuring a model has found out, in a file, so that it need not be measured again for another ratio or
   another way of rounding: what the model said of itself, and what 8 bits would save each matrix. One JSON
   object: {"postern_statistics": 1, "key": "...", "tokens": [...], "gains": {name: number}}. */
#ifndef PN_COMPRESS_STATISTICS_H
#define PN_COMPRESS_STATISTICS_H

#include "compress/job.h"

typedef struct pn_key {
    char text[17];
} pn_key;

/* A hash of the source and of all options that what is measured depends on; or of those too that the whole
   result does. Needs job->source. */
pn_key pn_statistics_key(const pn_job *job, bool whole);

/* Takes over what the text holds, if it is of this key: then true, the gains that are known and, of a model
   that reads itself, the sequences are filled in. */
bool pn_statistics_take(pn_job *job, const pn_key *key, const char *text, size_t len);
/* The text, of pn_alloc, on one line; NULL for lack of memory. */
char *pn_statistics_text(const pn_job *job, const pn_key *key, size_t *len);

/* From and to the file at options.statistics. One that is not there, or of another key, changes nothing;
   PN_ERR_IO when it cannot be written. */
void pn_statistics_load(pn_job *job);
pn_status pn_statistics_save(const pn_job *job, pn_error *err);

#endif
