/* SPDX-License-Identifier: Apache-2.0 */
/* What compression did to a model, shown: for `postern compress`, which did it, and for `postern inspect`,
   which reads it from the file. What a file says is not trusted: it is escaped wherever it is shown. */
#ifndef CLI_COMPRESSION_H
#define CLI_COMPRESSION_H

#include "out_file.h"

#include <postern.h>

#include <jansson.h>
#include <stdio.h>

/* Bits per weight over all tensors. */
double compression_bits_per_weight(const pn_compress_result *r);

/* One JSON object: what was asked, sizes, and every tensor. */
json_t *compression_json(const pn_compress_result *r);

/* Source, options and sizes, one labelled line each. */
void compression_print_facts(FILE *out, const pn_compress_result *r);
/* Tensors by the type that they became: how many, bytes, errors; the tensor with the worst. */
void compression_print_types(FILE *out, const pn_compress_result *r);
/* A line for each tensor. */
void compression_print_tensors(FILE *out, const pn_compress_result *r);

/* A picture as SVG: bytes and errors by layer (compression_svg.c). name is that of the compressed file. */
void compression_draw(FILE *out, const pn_compress_result *r, const char *name);

/* Writes the report to a file that was begun: a picture where its name ends in .svg, JSON for .json, else
   text. Prints the error and returns the exit code. */
int compression_write(out_file *file, const pn_compress_result *r, const char *name);

#endif
