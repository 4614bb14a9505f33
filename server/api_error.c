/* SPDX-License-Identifier: Apache-2.0 */
#include "api_error.h"

#include "buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool api_error_set(api_error *e, int status, const char *code, const char *param, const char *fmt, ...) {
    if (e->status != 0) return false;
    va_list args;
    e->status = status;
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param != NULL ? param : "");
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    return false;
}

bool api_error_from(api_error *e, const pn_error *err, const char *param) {
    switch (err->code) {
    case PN_ERR_LIMIT:
        return api_error_set(e, 400, "context_length_exceeded", param, "%s", err->message);
    case PN_ERR_ARGUMENT:
    case PN_ERR_FORMAT:
    case PN_ERR_TEMPLATE:
    case PN_ERR_UNSUPPORTED:
        return api_error_set(e, 400, "invalid_value", param, "%s", err->message);
    case PN_ERR_MEMORY:
        e->retry_after = 5;
        return api_error_set(e, 503, "out_of_memory", NULL, "%s", err->message);
    default:
        return api_error_set(e, 500, pn_status_name(err->code), NULL, "%s", err->message);
    }
}

static const char *type_of(int status) {
    return status == 401 ? "authentication_error" : status >= 500 ? "server_error" : "invalid_request_error";
}

json_t *api_error_json(const api_error *e) {
    buffer message = {0}, param = {0};
    json_t *json = NULL;
    /* Both may quote what the client sent, cut anywhere. */
    if (buffer_append_clean(&message, e->message, strnlen(e->message, sizeof e->message)) &&
        buffer_append_clean(&param, e->param, strnlen(e->param, sizeof e->param)))
        json = json_pack("{s:s, s:{s:s%, s:s, s:o, s:s?}}", "type", "error", "error", "message",
                         message.data != NULL ? message.data : "", message.len, "type", type_of(e->status),
                         "param", param.len > 0 ? json_stringn(param.data, param.len) : json_null(), "code",
                         e->code);
    buffer_free(&message);
    buffer_free(&param);
    return json;
}
