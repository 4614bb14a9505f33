/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pn_inspect_json. All return NULL when memory is out. */
#ifndef PN_ENGINE_INSPECT_H
#define PN_ENGINE_INSPECT_H

#include "format/gguf.h"

#include <jansson.h>

/* Most array elements that a full description writes out, over all keys. A vocabulary of 260 thousand tokens
   with merges, scores and types takes about 1.5 million. */
enum { PN_INSPECT_MAX_ELEMENTS = 1 << 22 };

/* A string of any bytes; those that are not UTF-8 become U+FFFD. */
json_t *pn_inspect_text(pn_str text);

/* {key: value}, in the order of the file. A number is a number, though rounded to double where it passes
   2^63, and a string ("nan", "inf", "-inf") where JSON has none. An array is an array when it is short or
   `full`, else
   {"array": element type, "n": length, "first": [...]}. */
json_t *pn_inspect_metadata(const pn_gguf *g, bool full);

/* {"weights_bytes", "kv_bytes_per_token_f16", "decode_bytes_per_token"}: what the weights take, what one
   token adds to the KV cache (null when the keys do not tell), and the weight bytes that decoding one token
   reads: all matrices, the embedding only as far as it is the output head or one row of it, and of a layer's
   experts as many as are used. */
json_t *pn_inspect_walls(const pn_gguf *g, pn_str arch);

#endif
