/* SPDX-License-Identifier: Apache-2.0 */
/* What a model with a session would take, beside the memory budget: the three walls as a table or as JSON. */
#ifndef CLI_PLAN_PAGE_H
#define CLI_PLAN_PAGE_H

#include "runner.h"

/* By the options of a runner that is not open. Prints errors, and what would do when it does not fit, and
   returns the exit code. */
int plan_print(const char *path, const runner *r, bool json);

#endif
