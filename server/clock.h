/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include <time.h>

/* Seconds of the monotonic clock. */
static inline double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
