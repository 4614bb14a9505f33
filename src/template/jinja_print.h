/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text: Python's str() and repr(), JSON, and formats. Digits, "True" and "None" count as the
   template's text, so that "<|image_1|>" may be put together from a counter; the punctuation of lists, dicts
   and JSON counts as input. */
#ifndef PN_TEMPLATE_JINJA_PRINT_H
#define PN_TEMPLATE_JINJA_PRINT_H

#include "template/jinja_call.h"

/* Appends str(v). */
pn_status pn_jprint(pn_jrun *run, pn_jtext *text, const pn_jvalue *v);
/* Appends repr(v). */
pn_status pn_jprint_repr(pn_jrun *run, pn_jtext *text, const pn_jvalue *v);
/* str(v) as a string; a string is given as it is. */
pn_status pn_jvalue_str(pn_jrun *run, const pn_jvalue *v, pn_jstr *out);

/* repr() of a float: the shortest digits that read back as the same number. */
void pn_jinja_format_double(double value, char out[32]);

/* json.dumps as transformers' tojson calls it. */
typedef struct pn_jjson_options {
    bool ensure_ascii, sort_keys, pretty; /* pretty: one item a line, each level indented by indent */
    pn_jstr indent, item_separator, key_separator;
} pn_jjson_options;
pn_status pn_jprint_json(pn_jrun *run, pn_jtext *text, const pn_jvalue *v, const pn_jjson_options *options);

/* format % args, where args is a tuple, a dict, or one value. */
pn_status pn_jformat_percent(pn_jrun *run, pn_jstr format, const pn_jvalue *args, pn_jvalue *out);
/* format.format(args). */
pn_status pn_jformat_braces(pn_jrun *run, pn_jstr format, const pn_jargs *args, pn_jvalue *out);

#endif
