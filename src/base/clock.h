/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PN_BASE_CLOCK_H
#define PN_BASE_CLOCK_H

/* Seconds of a clock that never jumps; only differences mean something. */
double pn_clock_seconds(void);

#endif
