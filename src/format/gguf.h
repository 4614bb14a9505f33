/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF v2 and v3 as data: keys, values, tensor descriptions over mapped bytes. Knows nothing of models.
   Format: the "GGUF" specification of the ggml project (docs/gguf.md).

   Where the specification leaves room, or files in the wild differ, this reader decides:
   - little-endian only; version 1 and big-endian files are PN_ERR_UNSUPPORTED;
   - keys are 1 to 65535 bytes, tensor names 1 to 255; both are UTF-8 without NUL and never repeated;
   - string values may hold any bytes; a bool is 0 or 1; an array of arrays is PN_ERR_UNSUPPORTED;
   - general.alignment is a u32, a power of two from 8 to 16 MiB, 32 when absent; each shard has its own;
   - a tensor has 0 to 4 dimensions (0: a single weight), none of them 0, and rows of whole blocks;
   - tensors lie aligned inside the file, in any order, and never overlap;
   - bytes after the last tensor are ignored, unless another GGUF file begins there: files that were joined
     byte by byte are refused, not read as the first one alone. */
#ifndef PN_FORMAT_GGUF_H
#define PN_FORMAT_GGUF_H

#include "base/slice.h"

typedef struct pn_gguf pn_gguf;

/* Numbering as in the file. */
typedef enum pn_gguf_type {
    PN_GGUF_U8 = 0,
    PN_GGUF_I8,
    PN_GGUF_U16,
    PN_GGUF_I16,
    PN_GGUF_U32,
    PN_GGUF_I32,
    PN_GGUF_F32,
    PN_GGUF_BOOL,
    PN_GGUF_STRING,
    PN_GGUF_ARRAY,
    PN_GGUF_U64,
    PN_GGUF_I64,
    PN_GGUF_F64,
    PN_GGUF_TYPE_COUNT
} pn_gguf_type;

typedef struct pn_gguf_value {
    pn_str key; /* borrowed from the file */
    pn_gguf_type type;
    union {
        uint64_t u; /* unsigned and bool */
        int64_t i;  /* signed */
        double f;
        pn_str str;
        struct {
            pn_gguf_type type; /* of the elements; never PN_GGUF_ARRAY */
            uint64_t n;
            pn_str bytes; /* the elements as they stand in the file, fully checked */
        } array;
    } as;
    uint64_t position; /* byte offset of the value, for messages */
} pn_gguf_value;

#define PN_GGUF_MAX_DIMS 4

typedef struct pn_gguf_tensor {
    pn_str name;                     /* borrowed */
    uint32_t n_dims;                 /* 0 to 4 */
    uint64_t dims[PN_GGUF_MAX_DIMS]; /* dims[0] is the contiguous one (row length); unused ones are 1 */
    uint32_t type;                   /* pn_qtype id as in the file; known to src/quant */
    uint32_t shard;                  /* counted from 0 */
    const uint8_t *data;             /* offset bytes behind the start of the shard */
    uint64_t n_bytes;
    uint64_t offset;   /* in the shard, a multiple of its alignment */
    uint64_t position; /* byte offset of the description */
} pn_gguf_tensor;

/* Opens a file by mapping it. A name of the form NAME-00001-of-00003.gguf (any shard) opens all shards;
   shards that are missing, swapped, of another split or that disagree are refused by name. Keys are those of
   the first shard, tensors those of all, in order. Every length, count, dimension, offset, alignment and type
   is checked here; later calls cannot fail on the file's account. Memory used is bounded by a small multiple
   of the file's size. Codes: PN_ERR_IO, PN_ERR_FORMAT (with position), PN_ERR_UNSUPPORTED (version, weight
   type, big-endian, array of arrays), PN_ERR_MEMORY. */
pn_status pn_gguf_open(const char *path, pn_gguf **out, pn_error *err);
/* The same over bytes in memory, which must outlive the object; one part of a split file is refused. name is
   used in messages. */
pn_status pn_gguf_parse(const void *bytes, uint64_t len, const char *name, pn_gguf **out, pn_error *err);
void pn_gguf_close(pn_gguf *g);

uint32_t pn_gguf_version(const pn_gguf *g);
uint32_t pn_gguf_n_shards(const pn_gguf *g);
uint64_t pn_gguf_file_bytes(const pn_gguf *g); /* all shards */

size_t pn_gguf_n_keys(const pn_gguf *g);
const pn_gguf_value *pn_gguf_key_at(const pn_gguf *g, size_t i);
const pn_gguf_value *pn_gguf_find_key(const pn_gguf *g, const char *key); /* NULL when absent; hashed */

size_t pn_gguf_n_tensors(const pn_gguf *g);
const pn_gguf_tensor *pn_gguf_tensor_at(const pn_gguf *g, size_t i);
const pn_gguf_tensor *pn_gguf_find_tensor(const pn_gguf *g, const char *name); /* NULL when absent; hashed */

/* "u32", "string", …; NULL for a number that is no type. */
const char *pn_gguf_type_name(pn_gguf_type type);

/* Typed reads. A get with a default leaves *out at `fallback` when the key is absent; any integer type that
   holds the value is accepted, a float read takes integers too but no NaN and no infinity; a wrong type or a
   value out of [min, max] is PN_ERR_FORMAT naming key, expected and found. */
pn_status pn_gguf_get_u64(const pn_gguf *g, const char *key, uint64_t min, uint64_t max, uint64_t *out,
                          pn_error *err);
pn_status pn_gguf_get_u64_or(const pn_gguf *g, const char *key, uint64_t min, uint64_t max, uint64_t fallback,
                             uint64_t *out, pn_error *err);
pn_status pn_gguf_get_f64_or(const pn_gguf *g, const char *key, double fallback, double *out, pn_error *err);
pn_status pn_gguf_get_bool_or(const pn_gguf *g, const char *key, bool fallback, bool *out, pn_error *err);
pn_status pn_gguf_get_str_or(const pn_gguf *g, const char *key, const char *fallback, pn_str *out,
                             pn_error *err);
/* The array under key, its element type checked; *out NULL when absent. */
pn_status pn_gguf_get_array_or_none(const pn_gguf *g, const char *key, pn_gguf_type element,
                                    const pn_gguf_value **out, pn_error *err);

/* Walks an array of strings: *offset starts at 0, each call gives the next element; false at the end. */
bool pn_gguf_next_string(const pn_gguf_value *array, uint64_t *offset, pn_str *out);
/* Element i of an array of any number type (bool too), as double or as signed integer, saturated to its range
   and NaN as 0; i < n. An array of strings gives 0. */
double pn_gguf_array_f64(const pn_gguf_value *array, uint64_t i);
int64_t pn_gguf_array_i64(const pn_gguf_value *array, uint64_t i);

#endif
