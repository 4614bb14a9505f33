/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <string.h>

static const char *type_name(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

const json_t *fields_get(const fields *f, const char *name) {
    const json_t *value = json_object_get(f->object, name);
    return value != NULL && !json_is_null(value) ? value : NULL;
}

bool fields_wrong(const fields *f, const char *name, const char *expected) {
    const json_t *value = fields_get(f, name);
    return api_error_set(f->error, 400, "invalid_type", name, "'%s' is %s: expected %s", name,
                         value != NULL ? type_name(value) : "missing", expected);
}

bool fields_bool(const fields *f, const char *name, bool *out) {
    const json_t *value = fields_get(f, name);
    if (value != NULL && !json_is_boolean(value)) return fields_wrong(f, name, "true or false");
    if (value != NULL) *out = json_is_true(value);
    return f->error->status == 0;
}

static bool out_of_range(const fields *f, const char *name, double min, double max) {
    return api_error_set(f->error, 400, "invalid_value", name, "'%s' is out of range: expected %g to %g",
                         name, min, max);
}

bool fields_int(const fields *f, const char *name, json_int_t min, json_int_t max, int *out) {
    const json_t *value = fields_get(f, name);
    if (value == NULL) return f->error->status == 0;
    if (!json_is_integer(value)) return fields_wrong(f, name, "a whole number");
    const json_int_t n = json_integer_value(value);
    if (n < min || n > max) return out_of_range(f, name, (double)min, (double)max);
    *out = (int)n;
    return f->error->status == 0;
}

bool fields_seed(const fields *f, const char *name, uint64_t *out, bool *given) {
    const json_t *value = fields_get(f, name);
    if (value == NULL) return f->error->status == 0;
    if (!json_is_integer(value)) return fields_wrong(f, name, "a whole number");
    *out = (uint64_t)json_integer_value(value);
    *given = true;
    return f->error->status == 0;
}

bool fields_float(const fields *f, const char *name, double min, double max, float *out) {
    const json_t *value = fields_get(f, name);
    if (value == NULL) return f->error->status == 0;
    if (!json_is_number(value)) return fields_wrong(f, name, "a number");
    const double x = json_number_value(value);
    if (!(x >= min && x <= max)) return out_of_range(f, name, min, max);
    *out = (float)x;
    return f->error->status == 0;
}

bool fields_text(const fields *f, const char *name, const char **out) {
    const json_t *value = fields_get(f, name);
    if (value == NULL) return f->error->status == 0;
    if (!json_is_string(value)) return fields_wrong(f, name, "a string");
    if (strlen(json_string_value(value)) != json_string_length(value))
        return api_error_set(f->error, 400, "invalid_value", name, "'%s' holds a NUL character", name);
    *out = json_string_value(value);
    return f->error->status == 0;
}
