/* SPDX-License-Identifier: Apache-2.0 */
/* What was done to a model, for its file and for who asked. */
#ifndef PN_COMPRESS_REPORT_H
#define PN_COMPRESS_REPORT_H

#include "compress/job.h"

/* One JSON object: the source, options, and of each matrix its type, the reason and the error. The text is of
   pn_alloc; NULL for lack of memory. */
char *pn_report_json(const pn_source *source, const pn_compress_options *options, const pn_choices *choices,
                     size_t *len);
/* Bytes that the same takes at most, with any errors. */
size_t pn_report_json_most(size_t len, const pn_choices *choices);

pn_status pn_report_fill(const pn_choices *choices, pn_compress_result *out, pn_error *err);

#endif
