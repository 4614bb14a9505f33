/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: an interpreter of the Jinja that models use, as transformers renders it (trim_blocks,
   lstrip_blocks, loop controls, one trailing newline of the source dropped). Values come in as JSON. Steps
   and output are bounded. */
#ifndef PN_TEMPLATE_TEMPLATE_H
#define PN_TEMPLATE_TEMPLATE_H

#include "base/slice.h"

#include <jansson.h>

typedef struct pn_template pn_template;

/* Parses. PN_ERR_FORMAT with the byte position, line and what was expected; PN_ERR_LIMIT for nesting or size
   past the bounds. The source is copied. A parsed template is immutable and may be rendered by several
   threads. */
pn_status pn_template_parse(const char *source, size_t len, pn_template **out, pn_error *err);
void pn_template_free(pn_template *t);

typedef struct pn_template_limits {
    uint64_t max_steps; /* evaluated nodes; 0: 10 million */
    size_t
        max_output_bytes; /* 0: 64 MiB; all values of one rendering together may hold three times as much */
} pn_template_limits;

/* A rendering, and where each byte came from: `trusted` lists, sorted and disjoint, the ranges written by the
   template's own text or by trusted variables. What comes from other variables (contents, tools, keys of
   dicts), also after slicing, trimming, changing case, joining or replacing, is outside: control tokens
   spelled there must stay text. So is the punctuation of JSON and of printed lists. Inside are digits,
   "True", "None", dates, and the well-known names of roles ("user", "assistant", …) under a key "role": they
   spell no token, but templates put tokens together from them
   ("<|" + role + "|>", "<|image_1|>"). */
typedef struct pn_rendering {
    pn_text text;
    pn_range *trusted;
    size_t n_trusted;
    struct pn_segment *segments; /* [n_segments] that make up the text, in order */
    size_t n_segments;
} pn_rendering;
void pn_rendering_free(pn_rendering *r);

/* Text of one source: a field of one of the messages, the clock, or neither, which is the template's own text
   and what it made of other variables. */
typedef struct pn_segment {
    pn_range range;
    bool clock;
    int message;       /* index, -1: of none; those past 4094 count as none */
    const char *field; /* "content", "role" and other fields that are usual, "field" for any other; of no
                          message: NULL. Static */
} pn_segment;
/* The segment of a byte; the last one for the end of the text. NULL of an empty text. */
const pn_segment *pn_rendering_segment(const pn_rendering *r, size_t at);

typedef struct pn_template_input {
    const json_t *variables; /* object: messages, tools, add_generation_prompt, …; borrowed */
    const json_t *trusted; /* object of further variables whose text is as good as the template's: bos_token,
                              eos_token; may be NULL; borrowed */
    int64_t now;           /* Unix time for strftime_now, in UTC; 0: the system clock, in local time */
    pn_template_limits limits;
} pn_template_input;

/* PN_ERR_TEMPLATE: raise_exception's own message (followed by its line in parentheses), or an undefined name,
   wrong type, unknown filter, with its line. PN_ERR_LIMIT: too many steps, too much output, nesting past 1000
   levels (Python's recursion limit), an integer past 64 bits, a range past 100000 items (the sandbox's
   limit). */
pn_status pn_template_render(const pn_template *t, const pn_template_input *input, pn_rendering *out,
                             pn_error *err);

#endif
