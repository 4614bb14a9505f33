/* SPDX-License-Identifier: Apache-2.0 */
/* The filters, by kind; the table of their names is in jinja_filters.c. Each is a pn_jfunction_fn whose self
   is the value left of the bar. */
#ifndef PN_TEMPLATE_JINJA_FILTERS_H
#define PN_TEMPLATE_JINJA_FILTERS_H

#include "template/jinja_call.h"

/* ---- jinja_filters_text.c ---- */
pn_status pn_jfilter_capitalize(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_center(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_escape(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_format(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_indent(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_join(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_lower(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_replace(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_string(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_title(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_tojson(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_trim(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_truncate(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_upper(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_urlencode(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_wordcount(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);

/* ---- jinja_filters_seq.c ---- */
pn_status pn_jfilter_batch(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_dictsort(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_first(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_groupby(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_items(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_last(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_length(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_list(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_map(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_max(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_min(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_reject(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_rejectattr(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_reverse(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_select(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_selectattr(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_slice(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_sort(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_sum(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);
pn_status pn_jfilter_unique(pn_jrun *run, const pn_jvalue *self, const pn_jargs *args, pn_jvalue *out);

/* item.a.b.0 for an attribute "a.b.0", or item[attribute] for another value. fallback, unless ABSENT,
   replaces what is undefined on the way. */
pn_status pn_jfilter_get_path(pn_jrun *run, const pn_jvalue *item, const pn_jvalue *attribute,
                              const pn_jvalue *fallback, pn_jvalue *out);

#endif
