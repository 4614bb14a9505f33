/* SPDX-License-Identifier: Apache-2.0 */
/* What was done to a model, for its file and for who asked: a pn_compress_result, and the same as the text of
   the file's key PN_REPORT_KEY, one JSON object. */
#ifndef PN_COMPRESS_REPORT_H
#define PN_COMPRESS_REPORT_H

#include "compress/plan.h"

#define PN_REPORT_KEY "postern.compression.report"

typedef struct pn_source {
    const char *name; /* of the file */
    char hash[48];
} pn_source;

/* All but the seconds of the whole. Texts are copied: *out needs nothing but itself. */
pn_status pn_report_fill(const pn_source *source, const pn_compress_options *options,
                         const pn_choices *choices, pn_compress_result *out, pn_error *err);

/* As JSON, but for times, so that the same compression gives the same file. The text is of pn_alloc; NULL
   for lack of memory. */
char *pn_report_json(const pn_compress_result *result, size_t *len);
/* Bytes that the text takes at most once the errors and methods are known. */
size_t pn_report_json_most(size_t len, const pn_compress_result *result);

/* Reads such a text, which may be anything. Keys that are not known are passed over. PN_ERR_FORMAT says what
   is wrong with it, PN_ERR_LIMIT that it is too long to be one. Strings in *out are UTF-8, names may hold any
   character but NUL. */
pn_status pn_report_parse(const char *json, size_t len, pn_compress_result *out, pn_error *err);

#endif
