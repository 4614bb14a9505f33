/* SPDX-License-Identifier: Apache-2.0 */
/* The option --kv-layers: which layers' keys and values keep more bits. */
#ifndef CLI_KV_LAYERS_H
#define CLI_KV_LAYERS_H

#include <postern.h>

#define KV_LAYERS_HELP                                                                                       \
    "layers whose keys and values keep the bits of a type where --kv-type has fewer: 0-1=q8,29=f16"

typedef struct kv_layers {
    pn_kv_layers items[64];
    size_t n;
} kv_layers;

/* Of the option's text, or of none where it is NULL, into the model's options, which point to *l from then
   on. Prints the error and returns the exit code. */
int kv_layers_set(kv_layers *l, const char *text, pn_model_options *options);

#endif
