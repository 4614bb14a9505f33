/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a request's JSON object, checked as they are read: the first that is wrong becomes the error. A
   field that is missing or null leaves *out as it was. All return false once there is an error. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include "api_error.h"

#include <stdint.h>

typedef struct fields {
    const json_t *object;
    api_error *error;
} fields;

/* The value, or NULL where there is none or null. */
const json_t *fields_get(const fields *f, const char *name);
bool fields_bool(const fields *f, const char *name, bool *out);
bool fields_int(const fields *f, const char *name, json_int_t min, json_int_t max, int *out);
bool fields_seed(const fields *f, const char *name, uint64_t *out, bool *given);
bool fields_float(const fields *f, const char *name, double min, double max, float *out);
/* A text without NUL, which lives as long as the object. */
bool fields_text(const fields *f, const char *name, const char **out);
/* The error of a field of the wrong type. */
bool fields_wrong(const fields *f, const char *name, const char *expected);

#endif
