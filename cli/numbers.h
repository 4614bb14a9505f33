/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as options spell them, parsed strictly: the whole text, in range, no blanks. All return false and
   leave *out alone when the text is not such a number. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool number_int(const char *text, size_t len, int min, int max, int *out);
bool number_u64(const char *text, uint64_t *out);
/* Bytes: a number, whole or decimal, that K, M, G or T may follow, powers of 1024; below 2^63. */
bool number_bytes(const char *text, uint64_t *out);
/* Decimal or exponent form, or "-inf" where the range allows it; never NaN. */
bool number_float(const char *text, size_t len, double min, double max, float *out);
/* Unix seconds, 2026-01-02, or 2026-01-02T03:04:05, taken as UTC; years 1970 to 9999. */
bool number_time(const char *text, int64_t *out);

#endif
