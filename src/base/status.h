/* SPDX-License-Identifier: Apache-2.0 */
/* One way to fail. A function that can fail returns pn_status and fills the optional pn_error: what, where,
   what was expected, what was found, what to do. pn_error and the codes are public (postern.h). */
#ifndef PN_BASE_STATUS_H
#define PN_BASE_STATUS_H

#include <postern.h>

#if defined(__GNUC__)
#define PN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PN_PRINTF(fmt, args)
#endif

/* Fills err (may be NULL) with code and the formatted one-line message, position PN_NO_POSITION, and returns
 * code. */
pn_status pn_fail(pn_error *err, pn_status code, const char *fmt, ...) PN_PRINTF(3, 4);

/* The same with a byte position in the input that was being read. */
pn_status pn_fail_at(pn_error *err, pn_status code, uint64_t position, const char *fmt, ...) PN_PRINTF(4, 5);

/* Puts "<fmt>: " before the message that err already holds; for a caller that knows the file or the tensor.
 */
void pn_error_prefix(pn_error *err, const char *fmt, ...) PN_PRINTF(2, 3);

/* Shorthand for the one failure that every allocating function shares; `what` names the thing, e.g. "token
 * table". */
pn_status pn_fail_memory(pn_error *err, const char *what, uint64_t bytes);

/* Returns from the calling function when expr is not PN_OK. */
#define PN_TRY(expr)                                                                                         \
    do {                                                                                                     \
        pn_status pn_try_status_ = (expr);                                                                   \
        if (pn_try_status_ != PN_OK) return pn_try_status_;                                                  \
    } while (0)

/* Assigns to `status` and jumps to the function's one exit label when expr is not PN_OK. */
#define PN_TRY_GOTO(status, expr, label)                                                                     \
    do {                                                                                                     \
        (status) = (expr);                                                                                   \
        if ((status) != PN_OK) goto label;                                                                   \
    } while (0)

#endif
