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

/* pn_fail fills err (may be NULL) with code and the formatted one-line message, without a position, and is
   code. pn_fail_at adds the byte position in the input that was being read. Macros, so that the compiler sees
   that a function that fails so does not return PN_OK. */
#define pn_fail(err, code, ...) (pn_error_set((err), (code), PN_NO_POSITION, __VA_ARGS__), (pn_status)(code))
#define pn_fail_at(err, code, position, ...)                                                                 \
    (pn_error_set((err), (code), (position), __VA_ARGS__), (pn_status)(code))
void pn_error_set(pn_error *err, pn_status code, uint64_t position, const char *fmt, ...) PN_PRINTF(4, 5);

/* The one failure that every allocating function shares; `what` names the thing, e.g. "token table". */
#define pn_fail_memory(err, what, bytes)                                                                     \
    pn_fail((err), PN_ERR_MEMORY, "not enough memory for %s: %llu bytes wanted%s", (what),                   \
            (unsigned long long)(bytes), pn_mem_why())
const char *pn_mem_why(void); /* base/mem.h */

/* Puts "<fmt>: " before the message that err already holds; for a caller that knows the file or the tensor.
 */
void pn_error_prefix(pn_error *err, const char *fmt, ...) PN_PRINTF(2, 3);

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
