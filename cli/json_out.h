/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that the commands print, and the messages they hand to the library. */
#ifndef CLI_JSON_OUT_H
#define CLI_JSON_OUT_H

#include <jansson.h>

/* A string of any bytes; those that are not UTF-8 become U+FFFD, as JSON has no other place for them. */
json_t *json_from_text(const char *text, size_t len);
/* Prints the object as one line on standard output; cli_finish_output tells whether that worked. */
void json_print(const json_t *object);
/* jansson returns NULL when memory is out; this ends the command then. */
json_t *json_need(json_t *value);

#endif
