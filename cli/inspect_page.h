/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `postern inspect` for people. */
#ifndef CLI_INSPECT_PAGE_H
#define CLI_INSPECT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Prints what pn_inspect_json gave; full as it was given there. Returns the exit code. */
int inspect_page_print(const char *json, size_t len, bool full);

#endif
