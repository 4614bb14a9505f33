/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `postern inspect` for people. */
#ifndef CLI_INSPECT_PAGE_H
#define CLI_INSPECT_PAGE_H

#include <postern.h>

#include <jansson.h>
#include <stdbool.h>

/* What a file's own report of its compression says. */
typedef struct inspect_compression {
    pn_status status; /* PN_OK: report; PN_ERR_UNSUPPORTED: there is none; else error says why not */
    pn_compress_result report;
    pn_error error;
} inspect_compression;

/* Prints the object of pn_inspect_json, full as it was given there. */
void inspect_page_print(json_t *root, const inspect_compression *compression, bool full);

#endif
