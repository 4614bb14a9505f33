/* SPDX-License-Identifier: Apache-2.0 */
/* Parse and render in one step, for the tests of templates. */
#ifndef PN_TESTS_TEMPLATE_RENDER_H
#define PN_TESTS_TEMPLATE_RENDER_H

#include "template/template.h"

/* Renders a template of len bytes over variables and trusted given as JSON text (NULL: none). */
pn_status render_json(const char *source, size_t len, const char *variables, const char *trusted,
                      pn_template_limits limits, pn_rendering *out, pn_error *err);

/* The text with each trusted range between "[[" and "]]", freed with free. */
char *mark_trusted(const pn_rendering *r);

#endif
