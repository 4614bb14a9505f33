/* SPDX-License-Identifier: Apache-2.0 */
#include "routes.h"

#include <string.h>

#define ROUTE(method, path, function, flags) void function(request *r);
#include "routes.inc"
#undef ROUTE

static const route routes[] = {
#define ROUTE(method, path, function, flags) {method, path, function, flags},
#include "routes.inc"
#undef ROUTE
};

static const char *const paths[] = {
#define ROUTE(method, path, function, flags) path,
#include "routes.inc"
#undef ROUTE
};

#define N_ROUTES (sizeof routes / sizeof *routes)

const route *routes_find(const char *method, const char *path, api_error *error) {
    const char *possible = NULL;
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (strcmp(routes[i].path, path) != 0) continue;
        if (strcmp(routes[i].method, method) == 0) return &routes[i];
        possible = routes[i].method;
    }
    if (possible != NULL)
        api_error_set(error, 405, "method_not_allowed", possible, "%s takes %s only", path, possible);
    else
        api_error_set(error, 404, "not_found", NULL, "there is nothing at %s", path);
    return NULL;
}

const char *const *routes_paths(size_t *n) {
    *n = N_ROUTES;
    return paths;
}
