/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong with a request, as clients of OpenAI's API expect to read it. */
#ifndef SERVER_API_ERROR_H
#define SERVER_API_ERROR_H

#include <postern.h>

#include <jansson.h>

typedef struct api_error {
    int status;           /* of HTTP; 0: no error */
    const char *code;     /* "invalid_value" and the like; static, NULL: none */
    char param[64];       /* the field at fault, "": none */
    char message[512];    /* one line */
    unsigned retry_after; /* seconds; 0: not said */
} api_error;

/* Sets the error, unless there is one already; false, so that callers can return it. param may be NULL. */
bool api_error_set(api_error *e, int status, const char *code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same of an error of the library. */
bool api_error_from(api_error *e, const pn_error *err, const char *param);
/* {"error": {"message", "type", "param", "code"}}; NULL without memory. */
json_t *api_error_json(const api_error *e);

#endif
