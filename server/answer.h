/* SPDX-License-Identifier: Apache-2.0 */
/* Answers one job: prompts to tokens, tokens to a session, its text to the client in the form of the API. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "job.h"
#include "metrics.h"
#include "sessions.h"

/* Works on the job until its answer is whole, for job_end to be called; on one that nobody waits for any more
   no longer than a step. model_name is what answers call the model. The record has what the model did. */
void answer_job(job *j, sessions *pool, const char *model_name, request_record *record);

#endif
