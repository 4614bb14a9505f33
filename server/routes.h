/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "request.h"

/* The route of a request; NULL: the error is 404, or 405 with the methods that are possible as its param.
 * HEAD is as GET. */
const route *routes_find(const char *method, const char *path, api_error *error);
/* The paths of all, in no more than *n. */
const char *const *routes_paths(size_t *n);

#endif
