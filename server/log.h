/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "metrics.h"

#include <stdbool.h>

/* One line on standard error for a request that is over: what, how it ended, counts and times; never what it
 * said. */
void log_request(const request_record *record, bool json);

#endif
