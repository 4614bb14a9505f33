/* SPDX-License-Identifier: Apache-2.0 */
/* How far a compression has come, so that a run after a kill goes on there: OUT.journal.partial beside
   OUT.partial. Its first line is the statistics (compress/statistics.h) as they were when it began, under the
   key of the whole result; each other one is what 8 bits would save a matrix, or a tensor that is written and
   the hash of its bytes. A tensor counts only when the file holds just these bytes, so nothing depends on
   what reached the disk first. A journal that cannot be written costs only that. */
#ifndef PN_COMPRESS_JOURNAL_H
#define PN_COMPRESS_JOURNAL_H

#include "compress/statistics.h"

typedef struct pn_journal pn_journal;

/* Reads the journal of out_path. It is empty when there is none, or that of another result. */
pn_status pn_journal_open(const char *out_path, const pn_job *job, pn_journal **out, pn_error *err);
/* Frees it; `done` removes the file, since there is nothing left to go on with. NULL is fine. */
void pn_journal_close(pn_journal *journal, bool done);

/* Takes over what was measured. */
void pn_journal_take(pn_journal *journal, pn_job *job);
/* Begins the file with the job's statistics, unless it is of the same result. */
void pn_journal_begin(pn_journal *journal, const pn_job *job);
void pn_journal_note_gain(pn_journal *journal, const pn_job *job, const pn_choice *choice);

/* Marks the tensors as written that are, with what is known of them. */
void pn_journal_restore(pn_journal *journal, pn_job *job);
void pn_journal_note(pn_journal *journal, const pn_job *job, const pn_choice *choice, const void *bytes);

#endif
