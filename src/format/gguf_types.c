/* SPDX-License-Identifier: Apache-2.0 */
/* The value types of GGUF: names, sizes, and elements of arrays. */
#include "format/gguf_internal.h"

static const struct {
    const char *name;
    uint32_t bytes;
    pn_gguf_class class;
} types[PN_GGUF_TYPE_COUNT] = {
    [PN_GGUF_U8] = {"u8", 1, PN_GGUF_CLASS_U},
    [PN_GGUF_I8] = {"i8", 1, PN_GGUF_CLASS_I},
    [PN_GGUF_U16] = {"u16", 2, PN_GGUF_CLASS_U},
    [PN_GGUF_I16] = {"i16", 2, PN_GGUF_CLASS_I},
    [PN_GGUF_U32] = {"u32", 4, PN_GGUF_CLASS_U},
    [PN_GGUF_I32] = {"i32", 4, PN_GGUF_CLASS_I},
    [PN_GGUF_F32] = {"f32", 4, PN_GGUF_CLASS_F},
    [PN_GGUF_BOOL] = {"bool", 1, PN_GGUF_CLASS_U},
    [PN_GGUF_STRING] = {"string", 0, PN_GGUF_CLASS_OTHER},
    [PN_GGUF_ARRAY] = {"array", 0, PN_GGUF_CLASS_OTHER},
    [PN_GGUF_U64] = {"u64", 8, PN_GGUF_CLASS_U},
    [PN_GGUF_I64] = {"i64", 8, PN_GGUF_CLASS_I},
    [PN_GGUF_F64] = {"f64", 8, PN_GGUF_CLASS_F},
};

const char *pn_gguf_type_name(pn_gguf_type type) {
    return (unsigned)type < PN_GGUF_TYPE_COUNT ? types[type].name : NULL;
}

pn_gguf_class pn_gguf_type_class(pn_gguf_type type) {
    return types[type].class;
}

uint32_t pn_gguf_type_bytes(pn_gguf_type type) {
    return types[type].bytes;
}

static int64_t sign_extend(uint64_t bits, unsigned width) {
    uint64_t sign = UINT64_C(1) << (width - 1);
    return (int64_t)((bits ^ sign) - sign);
}

void pn_gguf_read_number(pn_cursor *c, pn_gguf_value *out) {
    switch (out->type) {
    case PN_GGUF_U8:
    case PN_GGUF_BOOL:
        out->as.u = pn_cursor_u8(c);
        break;
    case PN_GGUF_I8:
        out->as.i = sign_extend(pn_cursor_u8(c), 8);
        break;
    case PN_GGUF_U16:
        out->as.u = pn_cursor_u16(c);
        break;
    case PN_GGUF_I16:
        out->as.i = sign_extend(pn_cursor_u16(c), 16);
        break;
    case PN_GGUF_U32:
        out->as.u = pn_cursor_u32(c);
        break;
    case PN_GGUF_I32:
        out->as.i = sign_extend(pn_cursor_u32(c), 32);
        break;
    case PN_GGUF_U64:
        out->as.u = pn_cursor_u64(c);
        break;
    case PN_GGUF_I64:
        out->as.i = (int64_t)pn_cursor_u64(c);
        break;
    case PN_GGUF_F32:
        out->as.f = (double)pn_cursor_f32(c);
        break;
    case PN_GGUF_F64:
        out->as.f = pn_cursor_f64(c);
        break;
    default: /* neither number nor bool */
        break;
    }
}

static pn_gguf_value array_element(const pn_gguf_value *array, uint64_t i) {
    pn_gguf_value element = {.type = array->as.array.type};
    uint32_t bytes = pn_gguf_type_bytes(element.type);
    pn_cursor c = pn_cursor_make(array->as.array.bytes.data, array->as.array.bytes.len);
    if (pn_cursor_skip(&c, i * bytes)) pn_gguf_read_number(&c, &element);
    return element;
}

double pn_gguf_array_f64(const pn_gguf_value *array, uint64_t i) {
    pn_gguf_value element = array_element(array, i);
    switch (pn_gguf_type_class(element.type)) {
    case PN_GGUF_CLASS_U:
        return (double)element.as.u;
    case PN_GGUF_CLASS_I:
        return (double)element.as.i;
    case PN_GGUF_CLASS_F:
        return element.as.f;
    default:
        return 0;
    }
}

static int64_t saturate(double x) {
    const double limit = 9223372036854775808.0; /* 2^63 */
    if (x >= limit) return INT64_MAX;
    if (x <= -limit) return INT64_MIN;
    return x == x ? (int64_t)x : 0; /* NaN */
}

int64_t pn_gguf_array_i64(const pn_gguf_value *array, uint64_t i) {
    pn_gguf_value element = array_element(array, i);
    switch (pn_gguf_type_class(element.type)) {
    case PN_GGUF_CLASS_U:
        return element.as.u < INT64_MAX ? (int64_t)element.as.u : INT64_MAX;
    case PN_GGUF_CLASS_I:
        return element.as.i;
    case PN_GGUF_CLASS_F:
        return saturate(element.as.f);
    default:
        return 0;
    }
}

bool pn_gguf_next_string(const pn_gguf_value *array, uint64_t *offset, pn_str *out) {
    if (array->type != PN_GGUF_ARRAY || array->as.array.type != PN_GGUF_STRING) return false;
    pn_cursor c = pn_cursor_make(array->as.array.bytes.data, array->as.array.bytes.len);
    if (*offset >= c.len) return false;
    c.pos = *offset;
    *out = pn_cursor_bytes(&c, pn_cursor_u64(&c));
    *offset = c.pos;
    return !c.failed;
}
